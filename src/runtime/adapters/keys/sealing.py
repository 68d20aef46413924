"""Encryption of stored secrets (envelope encryption), and keyed hashing of those that are only compared.

A zone has one data key. The key-encryption key wraps data keys and nothing else, so replacing it re-wraps
a few short values and touches no sealed row. Everything sealed is bound to the place it is kept at: a
value copied to another row or column does not open there.
"""

import base64
import binascii
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runtime import files

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_VERSION = b"\x01"  # AES-256-GCM, 96-bit random nonce, version and place as associated data


class SealBroken(Exception):
    """The value is altered, sealed under another key, or kept at another place than it was sealed for."""


class KeyUnusable(Exception):
    """The key-encryption key is missing, malformed, or readable by others; the message says which."""


class KeyEncryption(Protocol):
    """Wraps data keys: a local key, or a key management service behind the same two calls."""

    def wrap(self, data_key: bytes, *, bound_to: str) -> bytes:
        """The data key, sealed for the place *bound_to*."""
        ...

    def unwrap(self, wrapped: bytes, *, bound_to: str) -> bytes:
        """The data key again. Raises SealBroken."""
        ...


class Sealer:
    """Seals and opens values under one data key."""

    __slots__ = ("_cipher",)

    def __init__(self, data_key: bytes) -> None:
        if len(data_key) != KEY_BYTES:
            raise ValueError(f"a data key has {KEY_BYTES} bytes")
        self._cipher = AESGCM(data_key)

    def __repr__(self) -> str:
        return "Sealer(...)"

    def seal(self, plain: bytes, *, bound_to: str) -> bytes:
        """Version byte, nonce and ciphertext. Sealing the same value twice gives different bytes."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plain, _VERSION + bound_to.encode())

    def open(self, sealed: bytes, *, bound_to: str) -> bytes:
        """What was sealed for *bound_to*. Raises SealBroken."""
        if sealed[:1] != _VERSION or len(sealed) < 1 + _NONCE_BYTES + _TAG_BYTES:
            raise SealBroken("not a sealed value")
        nonce, ciphertext = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, ciphertext, _VERSION + bound_to.encode())
        except InvalidTag:
            raise SealBroken("altered, or sealed under another key or for another place") from None


class LocalKeyEncryption:
    """A key-encryption key that this machine holds, in a file or in a setting."""

    __slots__ = ("_sealer",)

    def __init__(self, key: bytes) -> None:
        self._sealer = Sealer(key)

    def __repr__(self) -> str:
        return "LocalKeyEncryption(...)"

    @classmethod
    def from_file(cls, path: Path, *, create: bool = False) -> "LocalKeyEncryption":
        """The key in that file: 32 bytes in base64.

        Args:
            create: make the file, readable by its owner alone, when it is not there. Of several processes
                that do so at once, one wins and all read the same key.
        Raises: KeyUnusable.
        """
        if create and not path.exists():
            files.make_directory(path.parent)
            files.write_once(path, base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            text = path.read_text("ascii")
        except FileNotFoundError:
            raise KeyUnusable(
                f"there is no key file `{path}`: `zoned init` makes the first one; "
                "a database that is there already needs the one it was set up with"
            ) from None
        except (OSError, UnicodeDecodeError) as failure:
            raise KeyUnusable(f"cannot read the key file `{path}`: {type(failure).__name__}") from None
        if mode & files.NOT_FOR_A_KEY:
            raise KeyUnusable(f"the key file `{path}` is open to others (mode {mode:o}); `chmod 600` it")
        return cls.from_text(text)

    @classmethod
    def from_text(cls, value: str) -> "LocalKeyEncryption":
        """The key written as base64, either alphabet, padding optional. Raises KeyUnusable."""
        text = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise KeyUnusable("the key-encryption key is not base64") from None
        if len(key) != KEY_BYTES:
            raise KeyUnusable(f"the key-encryption key has {len(key)} bytes instead of {KEY_BYTES}")
        return cls(key)

    def wrap(self, data_key: bytes, *, bound_to: str) -> bytes:
        """The data key, sealed for the place *bound_to*."""
        return self._sealer.seal(data_key, bound_to=bound_to)

    def unwrap(self, wrapped: bytes, *, bound_to: str) -> bytes:
        """The data key again. Raises SealBroken."""
        return self._sealer.open(wrapped, bound_to=bound_to)


class KeyEncryptionRing:
    """Several key-encryption keys, while one is replaced by another: all of them unwrap, and one wraps.

    Args:
        current: wraps, and is tried first.
        others: what is not wrapped with the current key may be wrapped with one of these.
    """

    def __init__(self, current: KeyEncryption, others: Sequence[KeyEncryption]) -> None:
        self.current = current
        self._others = tuple(others)

    def __repr__(self) -> str:
        return "KeyEncryptionRing(...)"

    def wrap(self, data_key: bytes, *, bound_to: str) -> bytes:
        """The data key, sealed for the place *bound_to* with the current key."""
        return self.current.wrap(data_key, bound_to=bound_to)

    def unwrap(self, wrapped: bytes, *, bound_to: str) -> bytes:
        """The data key again, whichever key wrapped it. Raises SealBroken."""
        for key in (self.current, *self._others[:-1]):
            with suppress(SealBroken):
                return key.unwrap(wrapped, bound_to=bound_to)
        return self._others[-1].unwrap(wrapped, bound_to=bound_to)


def rewrapped(key_encryption: KeyEncryption, wrapped: bytes, *, bound_to: str) -> bytes | None:
    """A data key wrapped with the current key; None for one that is. Raises SealBroken."""
    current = key_encryption.current if isinstance(key_encryption, KeyEncryptionRing) else key_encryption
    with suppress(SealBroken):
        current.unwrap(wrapped, bound_to=bound_to)
        return None
    return key_encryption.wrap(key_encryption.unwrap(wrapped, bound_to=bound_to), bound_to=bound_to)


def new_data_key() -> bytes:
    """A fresh data key."""
    return os.urandom(KEY_BYTES)


def new_secret() -> str:
    """256 random bits in base64url: 43 characters."""
    return secrets.token_urlsafe(32)


class SecretHasher:
    """Hashes secrets that are random already: a keyed digest is enough, a slow hash would only cost."""

    __slots__ = ("_pepper",)

    def __init__(self, pepper: bytes) -> None:
        if len(pepper) < KEY_BYTES:
            raise ValueError(f"a pepper has at least {KEY_BYTES} bytes")
        self._pepper = pepper

    def __repr__(self) -> str:
        return "SecretHasher(...)"

    def hash(self, secret: str) -> bytes:
        """HMAC-SHA256 of the secret: 32 bytes, the same each time, so it can be a lookup key."""
        return hmac.digest(self._pepper, secret.encode("utf-8", "surrogatepass"), sha256)

    def begin(self) -> hmac.HMAC:
        """The hash of what is yet to come, piece by piece."""
        return hmac.new(self._pepper, digestmod=sha256)

    def matches(self, secret: str, hashed: bytes) -> bool:
        """Tell whether *hashed* was made from *secret*, in a time that does not depend on either."""
        return self.are_same(self.hash(secret), hashed)

    @staticmethod
    def are_same(one: bytes, other: bytes) -> bool:
        """Tell whether two hashes are the same, in a time that does not depend on where they differ."""
        return hmac.compare_digest(one, other)

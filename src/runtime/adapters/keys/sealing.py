"""Encryption of stored secrets (envelope encryption), and keyed hashing of those that are only compared.

A zone has one data key. The key-encryption key wraps data keys and nothing else, so replacing it re-wraps
a few short values and touches no sealed row. Everything sealed is bound to the place it is kept at: a
value copied to another row or column does not open there.
"""

import hmac
import os
import secrets
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_VERSION = b"\x01"  # AES-256-GCM, 96-bit random nonce, version and place as associated data


class SealBroken(Exception):
    """The value is altered, sealed under another key, or kept at another place than it was sealed for."""


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

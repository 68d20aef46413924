"""A key-encryption key that this machine holds, in a file or in a setting."""

import base64
import binascii
import os
import stat
from pathlib import Path
from typing import Self

from runtime import files
from runtime.adapters.keys.sealing import KEY_BYTES, Sealer
from runtime.adapters.keys.wrapping import LOCAL, Binding, KeyUnusable, WrappedKey

_WHAT_A_KEY_IS = "restore it: a key is 32 bytes in base64, as `openssl rand -base64 32` prints them"


class LocalKey:
    """A key of 32 bytes, used with AES-256-GCM in this process."""

    __slots__ = ("_sealer",)
    name = LOCAL
    tells_versions = False

    def __init__(self, key: bytes) -> None:
        self._sealer = Sealer(key)

    def __repr__(self) -> str:
        return "LocalKey(...)"

    @classmethod
    def from_file(cls, path: Path, *, create: bool = False) -> Self:
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
                f"there is no key file `{path}`",
                "run `zoned init`, which makes the first one; for a database that is there already, restore"
                " the key that it was set up with",
            ) from None
        except (OSError, UnicodeDecodeError) as failure:
            raise KeyUnusable(
                f"cannot read the key file `{path}`: {type(failure).__name__}",
                "let this account read it, or restore it",
            ) from None
        if mode & files.NOT_FOR_A_KEY:
            raise KeyUnusable(
                f"the key file `{path}` is open to others (mode {mode:o})", f"`chmod 600 {path}`"
            )
        return cls.from_text(text)

    @classmethod
    def from_text(cls, value: str) -> Self:
        """The key written as base64, either alphabet, padding optional. Raises KeyUnusable."""
        text = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise KeyUnusable("the key-encryption key is not base64", _WHAT_A_KEY_IS) from None
        if len(key) != KEY_BYTES:
            raise KeyUnusable(
                f"the key-encryption key has {len(key)} bytes instead of {KEY_BYTES}", _WHAT_A_KEY_IS
            )
        return cls(key)

    def wrapped(self, data_key: bytes, binding: Binding) -> WrappedKey:
        """The data key, wrapped: as `wrap`, without waiting for anything."""
        return WrappedKey(LOCAL, self._sealer.seal(data_key, bound_to=binding.place))

    def opened(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        """The data key again: as `unwrap`, without waiting for anything. Raises SealBroken."""
        return self._sealer.open(wrapped.ciphertext, bound_to=binding.place)

    async def wrap(self, data_key: bytes, binding: Binding) -> WrappedKey:
        """The data key, wrapped for what it is for."""
        return self.wrapped(data_key, binding)

    async def unwrap(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        """The data key again. Raises SealBroken."""
        return self.opened(wrapped, binding)

    def is_outdated(self, wrapped: WrappedKey, anew: WrappedKey) -> bool:
        """A local key has one version."""
        return False

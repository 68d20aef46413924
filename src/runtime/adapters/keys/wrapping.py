"""Key-encryption keys: one small interface for those of this machine and those of a key-management service.

What wraps a zone's data key is written into what it has wrapped, so that each stored key says what opens it,
and keys can be replaced one by one while the service runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

from runtime.adapters.keys.sealing import SealBroken
from runtime.domain.operator_errors import OperatorError

LOCAL = "local"
_NAMED = b"\x02"  # then the length of the name in two bytes, the name, the ciphertext


class KeyUnusable(OperatorError):
    """A key of the settings is missing, malformed or readable by others; the message says which."""


class KeyRefused(Exception):
    """The key may not be used: by its settings, or because its service has said so. Asking again is no use.

    The message names no account of the service: administrators of zones read it.
    """


class KeyUnreachable(Exception):
    """The service of the key gave no answer that decides anything; asking again later may help."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What a data key is for: it can be unwrapped for that alone.

    Attributes:
        place: table, row and column where the wrapped key is stored.
        context: the same as names and values, which a key-management service records in its log.
    """

    place: str
    context: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A data key as it is stored.

    Attributes:
        key: the name of the key-encryption key, as settings have it; `local` for one of this machine.
    """

    key: str
    ciphertext: bytes = field(repr=False)

    @property
    def stored(self) -> bytes:
        """As bytes. Those of a local key have always been what they are, and say nothing of a name."""
        if self.key == LOCAL:
            return self.ciphertext
        name = self.key.encode("ascii")
        return _NAMED + len(name).to_bytes(2, "big") + name + self.ciphertext

    @classmethod
    def read(cls, stored: bytes) -> Self:
        """What `stored` has written. Raises SealBroken."""
        if stored[:1] != _NAMED:
            return cls(LOCAL, stored)
        end = 3 + int.from_bytes(stored[1:3], "big")
        try:
            return cls(stored[3:end].decode("ascii"), stored[end:])
        except UnicodeDecodeError:
            raise SealBroken("not a wrapped key") from None


class KeyEncryptionKey(Protocol):
    """A key that wraps data keys.

    Attributes:
        name: as settings and wrapped keys have it.
        tells_versions: what it has wrapped says with which version of the key.
    """

    @property
    def name(self) -> str: ...

    @property
    def tells_versions(self) -> bool: ...

    async def wrap(self, data_key: bytes, binding: Binding) -> WrappedKey:
        """The data key, wrapped for what it is for. Raises KeyRefused, KeyUnreachable."""
        ...

    async def unwrap(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        """The data key again. Raises SealBroken, KeyRefused, KeyUnreachable."""
        ...

    def is_outdated(self, wrapped: WrappedKey, anew: WrappedKey) -> bool:
        """Tell whether *anew* is wrapped with a newer version of this key than *wrapped* is."""
        ...

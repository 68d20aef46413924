"""Values in the short-lived state: read only in the shape that this release writes.

During an update processes of two releases share the state, and what one has written the other may not know:
it lacks a member, or has one that limits something there. Such a value counts as absent, which is what every
reader is ready for: the user starts again, the client asks again, and a cache is filled again.
"""

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from runtime.adapters.keys.sealing import SealBroken, Sealer

T_ = TypeVar("T_")


def read(shape: type[T_], stored: bytes | None) -> T_ | None:
    """The value of JSON that was stored; None without one, and for one of another shape.

    Args:
        shape: a model or a named tuple. Nothing may be missing that has no default, nothing is converted, and
            nothing may be in it besides, at any depth.
    """
    if stored is None:
        return None
    try:
        found: T_ = _adapter(cast(Hashable, shape)).validate_json(stored, strict=True, extra="forbid")
    except ValidationError:
        return None
    return found


def read_sealed(shape: type[T_], sealed: bytes | None, sealer: Sealer, *, bound_to: str) -> T_ | None:
    """The same of a sealed value; None also for one that does not open at this place."""
    if sealed is None:
        return None
    try:
        plain = sealer.open(sealed, bound_to=bound_to)
    except SealBroken:
        return None
    return read(shape, plain)


@cache
def _adapter(shape: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(shape)

"""Pointers: what stands in a spec for something that only the run of a changeset knows."""

from collections.abc import Callable, Mapping
from typing import Any

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import BY_NAME
from runtime.domain.kinds.values import OwnerType
from runtime.domain.kinds.zone import ADDRESSES

# Good enough for every check of a single member.
_SOME_ID = "0" * 26
_SOME_ADDRESS = "https://zone.invalid/"

Resolve = Callable[[Mapping[str, Any]], Any]

_POINTERS = (
    frozenset({"local_id"}),
    frozenset({"address_of", "member"}),
    frozenset({"external", "kind"}),
    frozenset({"external", "kind", "owner_type"}),
)


def is_pointer(value: Any) -> bool:
    """Tell whether a value stands for something only the run knows.

    That is the id of something created beside it, a zone's address, or what a zone created beside it is born
    with, by its handle.
    """
    return isinstance(value, dict) and value.keys() in _POINTERS


def has_pointers(value: Any) -> bool:
    """Tell whether there is something in a spec that only the run can know."""
    if isinstance(value, dict):
        return is_pointer(value) or any(has_pointers(inner) for inner in value.values())
    return isinstance(value, list) and any(has_pointers(inner) for inner in value)


def resolved(value: Any, resolve: Resolve) -> Any:
    """The value with every pointer in it resolved."""
    if isinstance(value, dict):
        if is_pointer(value):
            return resolve(value)
        return {name: resolved(inner, resolve) for name, inner in value.items()}
    return [resolved(inner, resolve) for inner in value] if isinstance(value, list) else value


def stand_in(pointer: Mapping[str, Any]) -> str:
    """Something of the form that a pointer leads to. Raises ValidationFailed for one nobody can follow."""
    if "local_id" in pointer:
        if not isinstance(pointer["local_id"], str):
            raise ValidationFailed("`local_id` must be a string")
        return _SOME_ID
    if "external" in pointer:
        kind = BY_NAME.get(str(pointer["kind"]))
        # What is found in a zone is there to be seen; service accounts, say, not everybody sees.
        if not isinstance(pointer["external"], str) or kind is None or not (kind.zoned and kind.handle):
            raise ValidationFailed("`external` must be a handle, beside a `kind` of a zone that has handles")
        if pointer.get("owner_type") not in (None, *OwnerType):
            raise ValidationFailed(f"`owner_type` must be one of {', '.join(OwnerType)}")
        return _SOME_ID
    if pointer["member"] not in ADDRESSES:
        raise ValidationFailed(f"unknown address `{pointer['member']}`; there are {', '.join(ADDRESSES)}")
    target = pointer["address_of"]
    keyed = isinstance(target, dict) and target.keys() in ({"id"}, {"local_id"})
    if not keyed or not isinstance(next(iter(target.values())), str):
        raise ValidationFailed('`address_of` must be `{"id": ..}` or `{"local_id": ..}`')
    return _SOME_ADDRESS

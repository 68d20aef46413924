"""The values of an entity's members: found by their paths, in a normal form, and compared."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from reconciler.cedar import is_laid_out, without_layout
from reconciler.kinds import ABSENT, Entity, Kind, MemberSchema
from reconciler.kinds.member_schemas import PLAIN
from reconciler.kinds.values import parse_instant


def leaves(
    shape: MemberSchema, spec: Mapping[str, object], before: str = ""
) -> Iterator[tuple[str, MemberSchema, Any]]:
    """The members of a spec (wire names) that are compared one by one: dotted path, shape, value.

    An object that is written without members is itself a leaf with the value `{}`: it is to exist.
    """
    for name, value in spec.items():
        below = shape.members.get(name)
        path = before + name
        if isinstance(value, dict) and value and below is not None and below.nested:
            yield from leaves(below, value, path + ".")
        else:
            yield path, below if below is not None else PLAIN, value


def value_at(spec: Mapping[str, object], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    if "." not in path:
        return spec.get(path)
    value: Any = spec
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def normalized(shape: MemberSchema, value: object, *, text: bool = False) -> Any:
    """A normal form: two values that mean the same have equal ones.

    Null equals the default, an empty list equals no list; the order of a set, the layout of a policy, the
    case of an address and the spelling of an instant do not count.
    """
    if value is None:
        value = None if shape.default is ABSENT else shape.default
    if shape.caseless:
        value = _folded(value)
    if shape.instant and isinstance(value, str):
        return parse_instant(value) or value
    if isinstance(value, list):
        if not value:
            return None
        if shape.unordered:
            return sorted({_json(each) for each in value})
    elif text and isinstance(value, str):
        return without_layout(value)
    elif shape.nested and isinstance(value, dict):
        return {}
    return value


def _folded(value: object) -> Any:
    if isinstance(value, list):
        return [_folded(each) for each in value]
    return value.lower() if isinstance(value, str) else value


def same_value(shape: MemberSchema, one: object, other: object, *, text: bool = False) -> bool:
    """Tell whether two values mean the same."""
    return one == other or bool(normalized(shape, one, text=text) == normalized(shape, other, text=text))


def as_written(kind: Kind | None, found: Entity, path: str, value: Any) -> Any:
    """A member's value; of a text that the server stores in its own layout, the text as it was applied."""
    if kind is None or found.ownership is None or path not in kind.text_paths:
        return value
    written = value_at(found.ownership.applied, path)
    texts = isinstance(written, str) and isinstance(value, str)
    return written if texts and is_laid_out(written, value) else value


def identity(kind: Kind, values: Mapping[str, object]) -> str:
    """The identity of an entity whose kind has no handle: its members that are fixed at creation.

    Args:
        values: leaf path -> value on the wire.
    """
    fixed = [
        (path, value)
        for path, each in sorted(values.items())
        if (shape := kind.leaf(path)).fixed and (value := normalized(shape, each)) is not None
    ]
    return _json(fixed)


def _json(value: object) -> str:
    # Not the bytes: those that orjson makes keep 4 KiB of memory, however few they are.
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()

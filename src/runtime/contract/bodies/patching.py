"""Applies an update request to an entity (JSON merge patch)."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from runtime.contract.bodies.members import is_mixed
from runtime.contract.bodies.refusals import refusal
from runtime.domain.kinds.base import Entity, Kind
from runtime.domain.kinds.marks import Mark, members, part_of

Changed = TypeVar("Changed", bound=Entity)


def apply_patch(kind: Kind, current: Changed, patch: Mapping[str, Any]) -> Changed:
    """The entity after an update, validated whole.

    Args:
        kind: the kind of the entity.
        current: the entity as it is.
        patch: what `read_body` returned, RFC 7396; sealed members come as sealed bytes or None, never text.

    Raises:
        ValidationFailed: the result is not an entity of that kind.
    Spec: RFC 7396; an empty `metadata` removes it, specification, `MetadataUpdate`.
    """
    model = type(current)
    for name, member in members(model).items():
        if member.has(Mark.SEALED) and isinstance(patch.get(name), str):
            raise TypeError(f"`{name}` must be sealed before it is stored")
    merged = _merged(model, current.model_dump(), patch)
    if patch.get("metadata") == {} or not has_value(merged.get("metadata")):
        merged.pop("metadata", None)
    try:
        return model.model_validate(merged)
    except ValidationError as invalid:
        raise refusal(invalid, model) from None


def _merged(model: type[BaseModel], current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(current)
    known = members(model)
    for name, value in patch.items():
        part = part_of(known[name].annotation) if name in known else None
        if value is None and part is not None and is_mixed(known[name]):
            result[name] = _reset(part, result.get(name) or {})
        elif value is None and name in known and known[name].required:
            result[name] = None  # there is no default to fall back to
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            below = inner if isinstance(inner, Mapping) else {}
            result[name] = _merged(part, below, value) if part else _merged_map(below, value)
        else:
            result[name] = value
    return result


def _merged_map(current: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = {**current, **{name: value for name, value in patch.items() if value is not None}}
    return {name: value for name, value in result.items() if patch.get(name, "") is not None}


def _reset(part: type[BaseModel], current: Mapping[str, Any]) -> dict[str, Any]:
    """What remains of an object when the caller clears it: the service's members."""
    kept: dict[str, Any] = {}
    for name, member in members(part).items():
        inner = part_of(member.annotation)
        if member.has(Mark.SERVER):
            kept[name] = current[name]
        elif inner is not None and is_mixed(member):
            kept[name] = _reset(inner, current.get(name) or {})
    return kept


def has_value(part: Any) -> bool:
    """Tell whether something is more than an object of nulls."""
    return not isinstance(part, Mapping) or any(value is not None for value in part.values())

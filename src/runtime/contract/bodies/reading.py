"""Validates a request body strictly: no type conversion, and every problem reported."""

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from runtime.contract.bodies.deriving import create_body, patch_body
from runtime.contract.bodies.patching import has_value
from runtime.contract.bodies.refusals import refusal
from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds.base import Kind, Verb

Model = TypeVar("Model", bound=BaseModel)


def read_body(kind: Kind, raw: Any, verb: Verb = Verb.CREATE, type_: str | None = None) -> dict[str, Any]:
    """The members that a body sets, checked one by one; secrets are clear text in it.

    Args:
        kind: what is created or updated.
        raw: the parsed JSON of the body.
        verb: `CREATE` or `UPDATE`.
        type_: for the update of a union's entity, the variant that the entity has.

    Returns:
        For a create what is given and not null; for an update exactly what is given, null where it clears.
    Raises:
        ValidationFailed: with one problem for each thing that is wrong, up to a hundred of them.
    """
    if not isinstance(raw, dict):
        raise ValidationFailed("the body must be a JSON object")
    if verb is Verb.UPDATE:
        return _read_patch(kind, raw, type_)
    if kind.variants:
        type_ = _read_type(kind, raw)
    given = read(create_body(kind, type_), raw)
    if not has_value(given.get("metadata", "")):
        del given["metadata"]
    return {name: value for name, value in given.items() if value is not None}


def _read_type(kind: Kind, raw: dict[str, Any]) -> str:
    given, known = raw.get("type"), tuple(kind.types)
    if given is None:
        raise ValidationFailed.of("type", "is required")
    if given not in known:
        raise ValidationFailed.of("type", f"must be one of {_listed(known)}")
    return str(given)


def _read_patch(kind: Kind, raw: dict[str, Any], type_: str | None) -> dict[str, Any]:
    if not kind.variants:
        return read(patch_body(kind), raw)
    if type_ is not None and raw.get("type", type_) != type_:
        raise ValidationFailed.of("type", f"cannot change: it is `{type_}`")
    given = read(patch_body(kind, type_), raw)
    given.pop("type", None)
    return given


def read(model: type[BaseModel], raw: Any) -> dict[str, Any]:
    """What a body of that class sets, as plain JSON values. Raises ValidationFailed naming every problem."""
    return parse(model, raw).model_dump(mode="json", exclude_unset=True)


def parse(model: type[Model], raw: Any) -> Model:
    """The body as a value of that class, nothing converted. Raises ValidationFailed naming every problem."""
    try:
        return model.model_validate_json(to_json(raw), strict=True)
    except PydanticSerializationError:
        raise ValidationFailed("the body contains a string that is not valid Unicode") from None
    except ValidationError as invalid:
        raise refusal(invalid, model) from None


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)

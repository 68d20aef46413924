"""JSON Schema of Python types: the part that OpenAPI and the manifest schemas share."""

from collections.abc import Callable
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, TypeAdapter

from runtime.domain.kinds.marks import Embed, Example, Expand, Mark, Ref

Schema = dict[str, Any]


def of(annotation: Any, part: Callable[[type[BaseModel]], Schema]) -> Schema:
    """The JSON Schema of a type, without its null.

    Args:
        annotation: the type as a class writes it.
        part: gives the schema of an object class, whole or as a reference.
    """
    bare, constraints = _split(annotation)
    if bare is SecretStr or SecretStr in get_args(bare):
        return {**_secret(annotation), "writeOnly": True}
    origin, arguments = get_origin(bare), get_args(bare)
    if origin in (Union, UnionType):
        kinds = [argument for argument in arguments if argument is not NoneType]
        found = of(kinds[0], part) if len(kinds) == 1 else {"anyOf": [of(kind, part) for kind in kinds]}
        return {**found, **_constrained(bare, constraints)}
    if origin is list:
        limits = _leaf(Annotated[(list[Any], *constraints)]) if constraints else {}
        sizes: Schema = {name: limits[name] for name in ("minItems", "maxItems") if name in limits}
        return {"type": "array", "items": of(arguments[0], part), **sizes}
    if origin is dict:
        values = of(arguments[1], part) if arguments[1] is not Any else {}
        return {"type": "object", "additionalProperties": values or True}
    if bare is Any:
        return {}
    if isinstance(bare, type) and issubclass(bare, BaseModel):
        return part(bare)
    return _leaf(annotation)


def _split(annotation: Any) -> tuple[Any, list[Any]]:
    if not hasattr(annotation, "__metadata__"):
        return annotation, []
    return annotation.__origin__, [
        note
        for note in annotation.__metadata__
        if not isinstance(note, Mark | Ref | Expand | Embed | Example)
    ]


def _constrained(bare: Any, constraints: list[Any]) -> Schema:
    return (
        {}
        if not constraints
        else {
            k: v
            for k, v in _leaf(bare).items()
            if k not in ("anyOf", "oneOf", "discriminator", "$defs", "title")
        }
    )


def _secret(annotation: Any) -> Schema:
    """A secret's own limits, without its null."""
    found = _leaf(annotation)
    return next((form for form in found.get("anyOf", ()) if form.get("type") != "null"), found)


def _leaf(annotation: Any) -> Schema:
    found = TypeAdapter(annotation).json_schema(mode="validation")
    found.pop("title", None)
    if "const" in found and "type" not in found:
        found["type"] = "string"
    return found


def help_of(model: type[BaseModel]) -> str:
    """The first paragraph of a class's docstring, on one line."""
    text = cleandoc(model.__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split())


def nullable(schema: Schema) -> Schema:
    """The schema, and null."""
    if set(schema) == {"$ref"} or "anyOf" in schema or "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return schema

"""Generates the JSON Schemas in `schemas/output/`: `python -m reconciler.output_schemas [DIRECTORY]`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import orjson

from reconciler.output_documents import ALL

DIRECTORY = Path("schemas/output")
_PLAIN = {str: "string", int: "integer", bool: "boolean", NoneType: "null"}


def schema_files() -> dict[str, str]:
    """The text of each schema, by the name of its file."""
    return {f"{name}.json": _text(name, document) for name, document in ALL.items()}


def _text(name: str, document: Any) -> str:
    definitions: dict[str, Any] = {}
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"zonectl --output json: {name}",
        **_object(document, definitions),
    }
    if definitions:
        found["$defs"] = dict(sorted(definitions.items()))
    return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n"


def _object(document: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(document, include_extras=True)
    return {
        "description": " ".join((document.__doc__ or "").split()),
        "type": "object",
        "properties": {name: _schema(hint, definitions) for name, hint in hints.items()},
        "required": [name for name in hints if name in document.__required_keys__],
        "additionalProperties": False,
    }


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if is_typeddict(hint):
        name = hint.__name__.removesuffix("Document")
        if name not in definitions:
            definitions[name] = {}  # a recursive definition is referred to
            definitions[name] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if origin is NotRequired:
        return _schema(arguments[0], definitions)
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin is Sequence:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if origin is UnionType:
        return {"anyOf": [_schema(each, definitions) for each in arguments]}
    raise TypeError(f"{hint} has no schema")


def main(directory: Path) -> None:
    """Write the schemas, and remove those of documents that no longer are."""
    directory.mkdir(parents=True, exist_ok=True)
    files = schema_files()
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    for old in directory.glob("*.json"):
        if old.name not in files:
            old.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY)

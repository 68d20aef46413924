"""Examples of request and response bodies, made from their schemas: the same ones each time.

The value of a member is the `Example` beside its type, where the class is defined. Without one it
follows from the format, or from the member's name.
"""

import re
from collections.abc import Mapping
from typing import Any

from runtime.contract.schema import Schema
from runtime.domain.identifiers import example_id

_MOMENT = "2026-11-21T08:00:00Z"
_ISSUER = "https://acme.zones.example"

# Members that examples leave out, or have as null: examples are of objects in use.
_ENDED = ("archived_at", "archived_by", "archived_by_user", "deprecated_at", "revoked_at")
# Members in whose place examples have another one: a body with both is refused.
_ALTERNATIVES = ("accountable_group_id",)
# How many objects deep optional objects are shown.
_DEEPEST = 3


class Examples:
    """Makes examples of the schemas of one document.

    Args:
        schemas: the document's components by name.
        values: (schema, member) -> the declared example; with an empty member, of the whole schema.
    """

    def __init__(self, schemas: Mapping[str, Schema], values: Mapping[tuple[str, str], Any]) -> None:
        self._schemas = schemas
        self._values = values

    def named(self, schema: Schema) -> dict[str, Any]:
        """Examples of a body or an answer by name: one for each form it can have."""
        forms = schema.get("oneOf", [schema])
        return {_name(form): {"value": self.of(form)} for form in forms}

    def of(self, schema: Schema, owner: str = "", member: str = "", depth: int = 0) -> Any:
        """One example of a schema.

        Args:
            owner: the name of the schema that *member* belongs to.
            depth: how many objects are around it: the deeper, the less is shown.
        """
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            whole = self._values.get((name, ""))
            return whole if whole is not None else self.of(self._schemas[name], name, member, depth)
        if "allOf" in schema and "properties" not in schema:
            return self._merged(schema["allOf"], owner, member, depth)
        for joined in ("oneOf", "anyOf"):
            if joined in schema and "properties" not in schema:
                form = next(form for form in schema[joined] if form.get("type") != "null")
                return self.of(form, owner, member, depth)
        if "const" in schema:
            return schema["const"]
        return self._leaf(schema, owner, member, depth)

    def _merged(self, parts: list[Schema], owner: str, member: str, depth: int) -> Any:
        merged: dict[str, Any] = {}
        for part in parts:
            merged |= self.of(part, owner, member, depth)
        return merged

    def _leaf(self, schema: Schema, owner: str, member: str, depth: int) -> Any:
        type_ = schema.get("type", "object")
        if isinstance(type_, list) and member in _ENDED:
            return None
        if isinstance(type_, list):
            type_ = next(one for one in type_ if one != "null")
        if type_ == "object" and "properties" in schema:
            return self._object(schema, owner, depth)
        if (owner, member) in self._values and _fits(self._values[owner, member], type_, schema):
            return self._values[owner, member]
        if "enum" in schema:
            return schema["enum"][0]
        if type_ == "array":
            return self._items(schema.get("items", {}), owner, member, depth)
        if type_ == "object":
            return {}
        if type_ == "integer":
            return max(1, schema.get("minimum", 1))
        return member.endswith("_set") if type_ == "boolean" else _text(schema, owner, member)

    def _items(self, schema: Schema, owner: str, member: str, depth: int) -> list[Any]:
        forms = schema.get("oneOf", [schema])
        return [self.of(form, owner, member, depth) for form in forms if form]

    def _object(self, schema: Schema, owner: str, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            name: self.of(inner, owner, name, depth + 1)
            for name, inner in schema["properties"].items()
            if name in required
            or (
                name not in (*_ENDED, *_ALTERNATIVES)
                and not inner.get("deprecated")
                and self._shown(inner, depth)
            )
        }

    def _shown(self, schema: Schema, depth: int) -> bool:
        """Tell whether an optional member is shown: inside of other objects no entity is, and no list."""
        if depth == 0 or _plain(schema):
            return True
        forms = [form for form in schema.get("anyOf", [schema]) if "$ref" in form]
        found = [self._schemas[form["$ref"].rpartition("/")[2]] for form in forms]
        return (
            depth < _DEEPEST
            and bool(found)
            and not any("created_at" in each.get("properties", ()) for each in found)
        )


def _name(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    told = schema.get("allOf", [schema])[0].get("properties", {}).get("type", {})
    return str(told.get("const", "page" if "allOf" in schema else "body"))


def _plain(schema: Schema) -> bool:
    """Tell whether a member is neither an object nor a list."""
    return "$ref" not in schema and "anyOf" not in schema and schema.get("type") not in ("array", "object")


def _fits(value: Any, type_: str, schema: Schema) -> bool:
    if value is None:
        return "null" in schema.get("type", ())
    if "enum" in schema:
        return value in schema["enum"]
    python: type = {"string": str, "array": list, "object": dict, "integer": int, "boolean": bool}[type_]
    return isinstance(value, python) and re.search(schema.get("pattern", ""), str(value)) is not None


def _text(schema: Schema, owner: str, member: str) -> str:
    format_ = schema.get("format", "")
    if format_ == "date-time" or member.endswith("_at") or member == "at":
        return "2027-11-21T08:00:00Z" if member.startswith("expires") else _MOMENT
    if format_ == "uri" or member.endswith(("_endpoint", "_uri", "_url", "href")):
        return f"{_ISSUER}/{member.replace('_', '-')}"
    if format_ == "binary":
        return "(the bytes of the archive)"
    if format_ == "uuid":
        return "7b0f3f1e-27b5-4d4c-9a55-0f8cb8ab9f0d"
    if format_ == "password":
        return "a-secret-of-your-own"
    if member == "id":
        return example_id(owner)
    if member.endswith("_id"):
        return example_id(member.removesuffix("_id").rpartition("_")[2].capitalize())
    if member.endswith("_by"):
        return example_id("User")
    return member.replace("_", "-") or "text"

"""The component schemas of the OpenAPI document: response and request bodies of each class."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.answers import shown_members
from runtime.contract.bodies import Body
from runtime.contract.bundles import BundleArchive
from runtime.contract.openapi.shapes import SHAPES, reference
from runtime.contract.schema import Schema
from runtime.domain.kinds.base import PERMISSIONS
from runtime.domain.kinds.marks import Mark, members
from runtime.domain.kinds.values import Part


def _archive() -> Schema:
    """An archive: bytes, which no schema describes."""
    return {"type": "string", "format": "binary", "description": schema.help_of(BundleArchive)}


class Components:
    """The named schemas of the document, collected as they are referred to.

    Attributes:
        found: the schemas by name.
        examples: (schema, member) -> the value that examples show; with an empty member, of the whole schema.
    """

    def __init__(self) -> None:
        self.examples: dict[tuple[str, str], Any] = {}
        self.found: dict[str, Schema] = {name: self._shape(name, shape) for name, shape in SHAPES.items()}

    def _shape(self, name: str, shape: Schema) -> Schema:
        """The schema without its examples, which are kept in `examples`."""
        properties = {}
        for member, schema_ in shape.get("properties", {}).items():
            if "examples" in schema_:
                self.examples[name, member] = schema_["examples"][0]
            properties[member] = _without_examples(schema_)
        if "examples" in shape:
            self.examples[name, ""] = shape["examples"][0]
        return _without_examples(shape | {"properties": properties} if properties else shape)

    def _keep_examples(self, name: str, model: type[BaseModel]) -> None:
        """Keep the examples of a class: the one of the whole, and those that stand beside its members."""
        if issubclass(model, Part) and model.example is not None:
            self.examples[name, ""] = model.example
        declared = members(model.source) if issubclass(model, Body) else {}
        for each in {**declared, **members(model)}.values():
            beside = each.example or (declared[each.name].example if each.name in declared else None)
            default = _default_example(model, each.name)
            if beside is not None or default is not None:
                self.examples[name, each.shown_as] = beside.value if beside is not None else default

    def shown(self, model: type[BaseModel]) -> Schema:
        """A reference to what answers of a class look like."""
        if model is BundleArchive:
            return _archive()
        name = model.__name__
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._answer(model)
            self._keep_examples(name, model)
        return reference(name)

    def taken(self, model: type[BaseModel]) -> Schema:
        """A reference to what bodies of a class look like."""
        if model is BaseModel:
            return {"type": "object"}
        if model is BundleArchive:
            return _archive()
        derived = issubclass(model, Body) or model.__name__.endswith(("Body", "Form", "Input"))
        name = model.__name__ if derived else f"{model.__name__}Input"
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._body(model)
            self._keep_examples(name, model)
        return reference(name)

    def _answer(self, model: type[BaseModel]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for name, member in shown_members(model).items():
            if member.has(Mark.SEALED):
                properties[f"{name}_set"] = {"type": "boolean"}
                required.append(f"{name}_set")
            elif member.annotation == PERMISSIONS:
                properties[name] = reference("Permissions")
            else:
                name = member.shown_as
                found = schema.of(member.annotation, self.shown)
                properties[name] = schema.nullable(found) if member.required and member.nullable else found
                if member.embed:
                    properties[name] = {**found, "deprecated": True}
                if member.required or (member.expand is None and not member.nullable):
                    required.append(name)
        return _object(model, properties, required)

    def _body(self, model: type[BaseModel]) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for name, member in members(model).items():
            found = schema.of(member.annotation, self.taken)
            properties[name] = schema.nullable(found) if member.nullable else found
            if member.required:
                required.append(name)
        more = model.model_config.get("json_schema_extra")
        return {
            **_object(model, properties, required),
            **(more if isinstance(more, dict) else {}),
            "additionalProperties": False,
        }


def _without_examples(found: Schema) -> Schema:
    return {name: value for name, value in found.items() if name != "examples"}


def _default_example(model: type[BaseModel], member: str) -> str | bool | None:
    """The default of an enumeration or a truth value: its example, where the member has none of its own."""
    entity = model.source if issubclass(model, Body) else model
    default = entity.model_fields[member].default if member in entity.model_fields else None
    if isinstance(default, StrEnum):
        return str(default)
    return default if isinstance(default, bool) else None


def _object(model: type[BaseModel], properties: dict[str, Schema], required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if about := schema.help_of(model):
        found = {"description": about, **found}
    if required:
        found["required"] = required
    return found

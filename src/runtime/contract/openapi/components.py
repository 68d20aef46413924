"""The component schemas of the OpenAPI document: response and request bodies of each class."""

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.answers import shown_members
from runtime.contract.bodies import Body
from runtime.contract.bundles import BundleArchive
from runtime.contract.openapi.shapes import SHAPES, reference
from runtime.contract.schema import Schema
from runtime.domain.kinds.base import PERMISSIONS
from runtime.domain.kinds.marks import Mark, members


def _archive() -> Schema:
    """An archive: bytes, which no schema describes."""
    return {"type": "string", "format": "binary", "description": schema.help_of(BundleArchive)}


class Components:
    """The named schemas of the document, collected as they are referred to."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = dict(SHAPES)

    def shown(self, model: type[BaseModel]) -> Schema:
        """A reference to what answers of a class look like."""
        if model is BundleArchive:
            return _archive()
        name = model.__name__
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self._answer(model)
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


def _object(model: type[BaseModel], properties: dict[str, Schema], required: list[str]) -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if about := schema.help_of(model):
        found = {"description": about, **found}
    if required:
        found["required"] = required
    return found

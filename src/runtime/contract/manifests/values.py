"""The schemas of single members: values, references, secrets, zone addresses, and objects of those."""

from typing import Any, get_origin

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.bodies import is_mixed
from runtime.contract.manifests.cedar import cedar_words
from runtime.contract.schema import Schema
from runtime.domain.kinds import BY_NAME
from runtime.domain.kinds.base import article
from runtime.domain.kinds.marks import Mark, Member, Ref, members
from runtime.domain.kinds.values import PLAIN_PATTERN, OwnerName, OwnerType
from runtime.domain.kinds.zone import ADDRESSES

NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": PLAIN_PATTERN}

_SECRET: Schema = {
    "description": "Where the secret is read from when it is written; change `version` to write it again.",
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "from_env": {
                    "type": "string",
                    "minLength": 1,
                    "pattern": r"^[A-Za-z_][A-Za-z0-9_]*$",
                    "description": "Name of an environment variable that `--allow-env` lets manifests read.",
                },
                "version": {"type": "string", "description": "Any text; a new one means a new value."},
            },
            "required": ["from_env"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "from_file": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Path of a file in the repository, relative to the manifest.",
                },
                "version": {"type": "string", "description": "Any text; a new one means a new value."},
            },
            "required": ["from_file"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"keep": {"const": True, "description": "Leave the secret as it is."}},
            "required": ["keep"],
            "additionalProperties": False,
        },
    ],
}

_ZONE_ADDRESS: Schema = {
    "type": "object",
    "description": "An address of another zone, known once that zone exists.",
    "properties": {
        "of_zone": {**NAME, "description": "Manifest name of the zone."},
        "member": {"enum": list(ADDRESSES)},
    },
    "required": ["of_zone", "member"],
    "additionalProperties": False,
}


def manifest_name(member: Member) -> str:
    """A member's name in manifests: references lose their `_id`."""
    return member.name.removesuffix("_id") if member.ref is not None else member.name


def member_schema(member: Member, entity: type[BaseModel]) -> Schema:
    """The schema of a member, with the keywords that say what its marks say."""
    found = _reference(member, member.ref) if member.ref is not None else _value(member)
    if member.has(Mark.SET):
        found["x-set"] = True
    if member.has(Mark.FIXED):
        found["x-fixed"] = True
    if member.has(Mark.SOLE):
        found["x-sole"] = True
    if member.has(Mark.EXPIRY):
        found["x-expiry"] = True
    if member.has(Mark.CEDAR):
        found["x-cedar"] = cedar_words()
    if member.description:
        found["description"] = member.description
    default = _default(entity, member.name)
    if default is not None:
        found["default"] = default
    return found


def _default(model: type[BaseModel], name: str) -> Any:
    field = model.model_fields.get(name)
    if field is None or field.is_required() or isinstance(field.default, BaseModel):
        return None
    value = field.get_default(call_default_factory=True)
    return str(value) if isinstance(value, str) else value


def _reference(member: Member, ref: Ref) -> Schema:
    many = get_origin(member.value_type) is list
    about: Schema = {"kind": ref.kind, "field": member.name, "late": ref.late}
    one: Schema = {
        "anyOf": [
            {**NAME, "description": f"Manifest name of the {ref.kind}."},
            {
                "type": "object",
                "description": f"One that is not in git: the handle of the {ref.kind}.",
                "properties": {"external": {"type": "string", "minLength": 1}, **_owner_type(ref.kind)},
                "required": ["external"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "description": f"{article(ref.kind).title()} {ref.kind} of another configuration:"
                " its owner, and its name there.",
                "properties": {"owner": schema.of(OwnerName, _part), "name": NAME},
                "required": ["owner", "name"],
                "additionalProperties": False,
            },
        ]
    }
    if many:
        return {"type": "array", "items": one, "x-ref": {**about, "many": True}}
    return {**one, "description": f"The {ref.kind}, by its manifest name.", "x-ref": about}


def _owner_type(name: str) -> dict[str, Schema]:
    """Who manages the entity, where its handle is unique only together with that."""
    if "owner_type" not in BY_NAME[name].unique_with:
        return {}
    return {"owner_type": {"enum": [str(value) for value in OwnerType]}}


def _value(member: Member) -> Schema:
    if member.has(Mark.SEALED):
        bound_to = member.bound_to
        return {**_SECRET, "x-secret": True, **({"x-bound-to": bound_to.paths} if bound_to else {})}
    return _with_addresses(schema.of(member.annotation, _part))


def _with_addresses(found: Schema) -> Schema:
    """Let every absolute URI be an address of another zone instead."""
    if found.get("format") == "uri":
        return {"anyOf": [found, _ZONE_ADDRESS], "x-address": True}
    if found.get("type") == "array":
        return {**found, "items": _with_addresses(found["items"])}
    return found


def _part(model: type[BaseModel]) -> Schema:
    properties: dict[str, Schema] = {}
    required = []
    for name, member in members(model).items():
        if member.has(Mark.SERVER, Mark.DERIVED, Mark.INTERNAL):
            continue
        properties[manifest_name(member)] = member_schema(member, model)
        if member.required and not member.has(Mark.MADE) and not is_mixed(member):
            required.append(name)
    found: Schema = {"type": "object", "description": schema.help_of(model), "properties": properties}
    more = model.model_config.get("json_schema_extra")
    found |= more if isinstance(more, dict) else {}
    if required:
        found["required"] = required
    return {**found, "additionalProperties": False}

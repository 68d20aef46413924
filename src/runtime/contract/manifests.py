"""One JSON Schema for each kind that a manifest can describe: what editors check and the reconciler reads.

Besides plain JSON Schema the members of `spec` carry keywords that say what the marks say: `x-ref`,
`x-fixed`, `x-set`, `x-kept`, `x-sole`, `x-secret` and `x-address`.
"""

from typing import Any

from pydantic import BaseModel

from runtime.contract import schema
from runtime.contract.bodies import settable
from runtime.contract.schema import Schema
from runtime.domain.kinds import ALL
from runtime.domain.kinds.base import Kind, Verb
from runtime.domain.kinds.marks import Mark, Member, Ref, members, part_of
from runtime.domain.kinds.values import OwnerType

API_VERSION = "zonewright/v1"
ADDRESSES = ("issuer", "redirect_uri", "token_endpoint", "authorization_endpoint", "jwks_uri")
NAME = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00-\x1f\x7f<>]*$"}

# Settable members that git has no say in.
_LEFT_OUT = {("PolicySet", "target_type")}

_SECRET: Schema = {
    "description": "Where the secret is read from when it is written; change `version` to write it again.",
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "from_env": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Name of an environment variable.",
                },
                "version": {"type": "string", "description": "Any text; a new one means a new value."},
            },
            "required": ["from_env"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "from_file": {"type": "string", "minLength": 1, "description": "Path of a file."},
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

_LIFECYCLE: Schema = {
    "type": "object",
    "description": "How changes to this object are handled.",
    "properties": {
        "protect": {"type": "boolean", "description": "Refuse to delete or replace it."},
        "ignore": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Members of `spec` that are left alone once it exists.",
        },
        "previous_names": {
            "type": "array",
            "items": NAME,
            "description": "Manifest names it had before, so that a rename is not a replacement.",
        },
    },
    "additionalProperties": False,
}


def manifest_schemas() -> dict[str, Schema]:
    """The JSON Schema of one manifest document, for each kind a manifest can describe, by kind name."""
    return {kind.name: manifest_schema(kind) for kind in ALL if kind.manifest}


def manifest_schema(kind: Kind) -> Schema:
    """The JSON Schema of one manifest document of that kind."""
    metadata: Schema = {
        "type": "object",
        "properties": {
            "name": {**NAME, "description": "Name in git, unique among the kind's objects in the zone."},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    if kind.zoned:
        metadata["properties"]["zone"] = {**NAME, "description": "Manifest name of the zone."}
        metadata["required"] = ["name", "zone"]
    spec = spec_schema(kind)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:zonewright:manifest:{kind.name}",
        "title": kind.name,
        "description": schema.help_of(kind.entity),
        "type": "object",
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind.name},
            "metadata": metadata,
            "spec": spec,
            "lifecycle": _LIFECYCLE,
        },
        "required": ["apiVersion", "kind", "metadata", *(["spec"] if spec.get("required") else [])],
        "additionalProperties": False,
        "x-zonewright": {
            "kind": kind.name,
            "collection": kind.collection,
            "scope": "zone" if kind.zoned else "organization",
            "handle": kind.handle,
            "handle_default": kind.handle in spec["properties"],
            **({"handle_decided": decided} if (decided := _handle_decided(kind)) else {}),
            "order": ALL.index(kind) + 1,
            "requires": _requires(kind),
        },
    }


def spec_members(kind: Kind) -> dict[str, Member]:
    """The members that `spec` has, by their name in the API: settable ones, and those in `extras`."""
    found: dict[str, Member] = {}
    for entity in kind.classes:
        for verb in (Verb.CREATE, Verb.UPDATE):
            for name, member in settable(entity, verb).items():
                if not member.has(Mark.INPUT) and (kind.name, name) not in _LEFT_OUT:
                    found.setdefault(name, member)
    if kind.extras is not None:
        found.update(members(kind.extras))
    return found


def spec_schema(kind: Kind) -> Schema:
    """The schema of a manifest's `spec`."""
    properties: dict[str, Schema] = {}
    required = []
    for name, member in spec_members(kind).items():
        shown = manifest_name(member)
        owner = kind.extras if kind.extras and name in kind.extras.model_fields else kind.entity
        properties[shown] = _member(member, owner)
        if _is_fixed(kind, name):
            properties[shown]["x-fixed"] = True
        if _is_required(kind, member):
            required.append(shown)
    if kind.variants:
        properties["type"] = {
            "enum": [str(variant.model_fields["type"].default) for variant in kind.variants],
            "x-fixed": True,
        }
        required.append("type")
    result: Schema = {"type": "object", "properties": properties}
    if kind.variants and (needs := _variant_needs(kind, required)):
        result["allOf"] = needs
    if kind.name == "Policy":
        properties["cedar"]["description"] = "The policy's text in Cedar."
        properties["cedar_file"] = {
            "type": "string",
            "minLength": 1,
            "description": "Path of a `.cedar` file, relative to the manifest.",
        }
        required.remove("cedar")
        result["oneOf"] = [{"required": ["cedar"]}, {"required": ["cedar_file"]}]
    if required or kind.name == "Policy":
        result["required"] = required
    return {**result, "additionalProperties": False}


def manifest_name(member: Member) -> str:
    """A member's name in manifests: references lose their `_id`."""
    return member.name.removesuffix("_id") if member.ref is not None else member.name


def _is_fixed(kind: Kind, name: str) -> bool:
    """Tell whether some variant lets a member be set only at creation."""
    return any(
        name in found and found[name].has(Mark.FIXED)
        for found in (members(entity) for entity in (*kind.classes, *((kind.extras,) if kind.extras else ())))
    )


def _handle_decided(kind: Kind) -> list[str]:
    """The variants of a union whose handle the service decides: they are not named after the manifest."""
    return [
        str(variant.model_fields["type"].default)
        for variant in kind.variants
        if kind.handle not in settable(variant, Verb.CREATE)
    ]


def _variant_needs(kind: Kind, required: list[str]) -> list[Schema]:
    """What single variants of a union require besides what all of them do."""
    found: list[Schema] = []
    for variant in kind.variants:
        own = [
            manifest_name(member)
            for name, member in settable(variant, Verb.CREATE).items()
            if member.required and not member.has(Mark.MADE) and manifest_name(member) not in required
        ]
        if own:
            chosen = {"properties": {"type": {"const": str(variant.model_fields["type"].default)}}}
            found.append({"if": {**chosen, "required": ["type"]}, "then": {"required": own}})
    return found


def _is_required(kind: Kind, member: Member) -> bool:
    if member.name == kind.handle or member.has(Mark.MADE):
        return False
    if any(member.name not in variant.model_fields for variant in kind.variants):
        return False
    return member.required and not any(
        inner.has(Mark.SERVER) for inner in members(part_of(member.annotation) or BaseModel).values()
    )


def _member(member: Member, entity: type[BaseModel]) -> Schema:
    found = _reference(member, member.ref) if member.ref is not None else _value(member)
    if member.has(Mark.SET):
        found["x-set"] = True
    if member.has(Mark.FIXED):
        found["x-fixed"] = True
    if member.has(Mark.KEPT):
        found["x-kept"] = True
    if member.has(Mark.SOLE):
        found["x-sole"] = True
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
    many = "list" in str(member.annotation)
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
        ]
    }
    if many:
        return {"type": "array", "items": one, "x-ref": {**about, "many": True}}
    return {**one, "description": f"The {ref.kind}, by its manifest name.", "x-ref": about}


def _owner_type(name: str) -> dict[str, Schema]:
    return {"owner_type": {"enum": [str(value) for value in OwnerType]}} if name == "Role" else {}


def _value(member: Member) -> Schema:
    if member.has(Mark.SEALED):
        return {**_SECRET, "x-secret": True}
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
        properties[manifest_name(member)] = _member(member, model)
        if member.required and not member.has(Mark.MADE) and not _mixed(member):
            required.append(name)
    found: Schema = {"type": "object", "description": schema.help_of(model), "properties": properties}
    if model.__name__ == "AssignmentPrincipal":
        found |= {"minProperties": 1, "maxProperties": 1}
    if required:
        found["required"] = required
    return {**found, "additionalProperties": False}


def _mixed(member: Member) -> bool:
    inner = part_of(member.annotation)
    return inner is not None and any(found.has(Mark.SERVER) for found in members(inner).values())


def _requires(kind: Kind) -> list[str]:
    """The kinds whose objects must exist before: the zone, and what references that are not late lead to."""
    needed = {"Zone"} if kind.zoned else set()
    for member in spec_members(kind).values():
        found = [member]
        if (part := part_of(member.annotation)) is not None:
            found.extend(members(part).values())
        needed |= {inner.ref.kind for inner in found if inner.ref is not None and not inner.ref.late}
    return [other.name for other in ALL if other.name in needed]

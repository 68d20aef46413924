"""The schema of a whole manifest document."""

from runtime.contract import schema
from runtime.contract.bodies import settable
from runtime.contract.manifests.spec import spec_members, spec_schema
from runtime.contract.manifests.values import NAME, manifest_name
from runtime.contract.schema import Schema
from runtime.domain.kinds import ALL, ZONE
from runtime.domain.kinds.base import Kind, Verb
from runtime.domain.kinds.marks import members, part_of

API_VERSION = "zonewright/v1"

_LIFECYCLE: Schema = {
    "type": "object",
    "description": "How changes to this object are handled.",
    "properties": {
        "protect": {"type": "boolean", "description": "Refuse to delete or replace it."},
        "ignore": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Members of `spec` that are not changed once the object exists.",
        },
        "previous_names": {
            "type": "array",
            "items": NAME,
            "description": "Manifest names it had before, so that a rename is not a replacement.",
        },
        "release": {
            "type": "boolean",
            "description": "Stop managing it: the object is kept, and another configuration may adopt it.",
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
            "name": {
                **NAME,
                "description": "Name in git, unique within the configuration for each kind and zone.",
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    if kind.zoned:
        metadata["properties"]["zone"] = {
            **NAME,
            "description": "The zone, by its manifest name in the configuration that owns it.",
        }
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
            **({"handle_shared": shared} if (shared := _handle_shared(kind)) else {}),
            **({} if kind.one_time_secret is None else {"shown_once": kind.one_time_secret}),
            "order": ALL.index(kind) + 1,
            "requires": _requires(kind),
        },
    }


def _handle_decided(kind: Kind) -> list[str]:
    """The variants of a union whose handle the service decides: they are not named after the manifest."""
    return [
        type_ for type_, variant in kind.types.items() if kind.handle not in settable(variant, Verb.CREATE)
    ]


def _handle_shared(kind: Kind) -> Schema:
    """The variant of which several may have one handle: how many, and what they must have in common."""
    if (shared := kind.handle_shared) is None:
        return {}
    within = manifest_name(kind.members()[shared.within])
    return {"type": shared.type, "within": within, "most": shared.most}


def _requires(kind: Kind) -> list[str]:
    """The kinds whose objects must exist before: the zone, and what references that are not late lead to."""
    needed = {ZONE.name} if kind.zoned else set()
    for member in spec_members(kind).values():
        found = [member]
        if (part := part_of(member.annotation)) is not None:
            found.extend(members(part).values())
        needed |= {inner.ref.kind for inner in found if inner.ref is not None and not inner.ref.late}
    return [other.name for other in ALL if other.name in needed]

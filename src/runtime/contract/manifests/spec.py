"""The schema of a manifest's `spec`: the members that a configuration manages."""

from runtime.contract.bodies import is_mixed, settable
from runtime.contract.manifests.cedar import cedar_words
from runtime.contract.manifests.values import manifest_name, member_schema
from runtime.contract.schema import Schema
from runtime.domain.kinds.base import Kind, Verb
from runtime.domain.kinds.marks import Mark, Member, members


def spec_members(kind: Kind) -> dict[str, Member]:
    """The members that `spec` has, by their name in the API: settable ones, and those in `extras`."""
    found: dict[str, Member] = {}
    for entity in kind.classes:
        for verb in (Verb.CREATE, Verb.UPDATE):
            for name, member in settable(entity, verb).items():
                if not member.has(Mark.INPUT, Mark.API_ONLY):
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
        properties[shown] = member_schema(member, owner)
        if _is_fixed(kind, name):
            properties[shown]["x-fixed"] = True
        if _is_required(kind, member):
            required.append(shown)
    if kind.variants:
        properties["type"] = {
            "enum": list(kind.types),
            "x-fixed": True,
        }
        required.append("type")
    result: Schema = {"type": "object", "properties": properties}
    if kind.variants and (needs := _variant_needs(kind, required)):
        result["allOf"] = needs
    if kind.name == "Policy":
        properties["cedar"] |= {"description": "The policy's text in Cedar.", "x-cedar": cedar_words()}
        properties["cedar_file"] = {
            "type": "string",
            "minLength": 1,
            "description": "Path of a `.cedar` file, relative to the manifest.",
        }
        names = properties["absent_names"]
        properties["external_names"] = {
            **names,
            "description": "Entities that the policy names and that exist in the zone, but not in git.",
            "x-local": True,
        }
        names["description"] = "Entities that the policy names and that need not exist in the zone."
        required.remove("cedar")
        result["oneOf"] = [{"required": ["cedar"]}, {"required": ["cedar_file"]}]
    if required or kind.name == "Policy":
        result["required"] = required
    return {**result, "additionalProperties": False}


def _is_fixed(kind: Kind, name: str) -> bool:
    """Tell whether some variant lets a member be set only at creation."""
    return any(
        name in found and found[name].has(Mark.FIXED)
        for found in (members(entity) for entity in (*kind.classes, *((kind.extras,) if kind.extras else ())))
    )


def _variant_needs(kind: Kind, required: list[str]) -> list[Schema]:
    """What single variants of a union require besides what all of them do."""
    found: list[Schema] = []
    for type_, variant in kind.types.items():
        own = [
            manifest_name(member)
            for name, member in settable(variant, Verb.CREATE).items()
            if member.required and not member.has(Mark.MADE) and manifest_name(member) not in required
        ]
        if own:
            chosen = {"properties": {"type": {"const": type_}}}
            found.append({"if": {**chosen, "required": ["type"]}, "then": {"required": own}})
    return found


def _is_required(kind: Kind, member: Member) -> bool:
    if member.name == kind.handle or member.has(Mark.MADE):
        return False
    if any(member.name not in variant.model_fields for variant in kind.variants):
        return False
    return member.required and not is_mixed(member)

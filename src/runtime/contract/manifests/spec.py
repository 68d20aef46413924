"""The schema of a manifest's `spec`: the members that a configuration manages."""

from pydantic import BaseModel

from runtime.contract.bodies import is_mixed, settable
from runtime.contract.manifests.values import manifest_name, member_schema
from runtime.contract.schema import Schema
from runtime.domain.kinds.base import Kind, Verb
from runtime.domain.kinds.marks import Mark, Member, members

# What the member for a file with the text of another member is called: `cedar_file`.
_FILE = "_file"


def spec_members(kind: Kind) -> dict[str, Member]:
    """The members that `spec` has, by their name in the API: settable ones, and those in `extras`."""
    found: dict[str, Member] = {}
    for entity in kind.classes:
        for verb in (Verb.CREATE, Verb.UPDATE):
            for name, member in settable(entity, verb).items():
                if not member.has(Mark.INPUT, Mark.API_ONLY):
                    found.setdefault(name, member)
    for beside in (kind.extras, kind.local):
        if beside is not None:
            found.update(members(beside))
    return found


def spec_schema(kind: Kind) -> Schema:
    """The schema of a manifest's `spec`."""
    properties: dict[str, Schema] = {}
    required = []
    for name, member in spec_members(kind).items():
        shown = manifest_name(member)
        properties[shown] = member_schema(member, _declaring(kind, name))
        if kind.local and name in kind.local.model_fields and not name.endswith(_FILE):
            properties[shown]["x-local"] = True
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
    for file in [name for name in required if name.endswith(_FILE)]:
        text = file.removesuffix(_FILE)
        required = [name for name in required if name not in (text, file)]
        result["oneOf"] = [{"required": [text]}, {"required": [file]}]
    if required:
        result["required"] = required
    return {**result, "additionalProperties": False}


def _declaring(kind: Kind, name: str) -> type[BaseModel]:
    """The class that declares a member of `spec`."""
    beside = (model for model in (kind.extras, kind.local) if model and name in model.model_fields)
    return next(beside, kind.entity)


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

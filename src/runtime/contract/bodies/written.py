"""Bodies that no entity class stands behind, written by hand."""

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, StringConstraints, model_validator

from runtime.domain.kinds.values import Id, OwnerType, Part, ZoneRole

_NULL: dict[str, Any] = {"type": "null"}


def together(given: list[str], absent: list[str]) -> dict[str, Any]:
    """The JSON Schema of a body that has some members, and others not or as null."""
    values = {**{name: {"not": _NULL} for name in given}, **dict.fromkeys(absent, _NULL)}
    return {"required": given, "properties": values}


class AssignmentBody(Part):
    """Which role to give, by id or by name, and what it is limited to."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "oneOf": [
                        together(["role_id"], ["role_identifier", "owner_type"]),
                        together(["role_identifier", "owner_type"], ["role_id"]),
                    ]
                },
                {
                    "oneOf": [
                        together(["scope_id", "scope_type"], []),
                        together([], ["scope_id", "scope_type"]),
                    ]
                },
            ]
        }
    )

    role_id: Id | None = None
    role_identifier: Id | None = None
    owner_type: OwnerType | None = None
    scope_id: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    scope_type: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None

    @model_validator(mode="after")
    def _one_way_of_naming(self) -> Self:
        if (self.role_id is None) == (self.role_identifier is None):
            raise ValueError("give exactly one of `role_id` and `role_identifier`")
        if (self.role_identifier is None) != (self.owner_type is None):
            raise ValueError("`owner_type` belongs to `role_identifier`: give both or neither")
        if (self.scope_id is None) != (self.scope_type is None):
            raise ValueError("`scope_id` and `scope_type` belong together")
        return self


class MemberBody(Part):
    """Who joins a group."""

    user_id: Id


class ZoneMemberBody(Part):
    """Who of the organization becomes a member of a zone, and as what."""

    organization_user_id: Id
    role: ZoneRole


class ZoneRoleBody(Part):
    """Another role in a zone."""

    role: ZoneRole


class EmptyBody(Part):
    """A body that says nothing: absent or `{}`."""


class PolicyVersionBody(Part):
    """A policy's new text, in one of Cedar's two notations."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                together(["cedar_raw"], ["cedar_json"]),
                together(["cedar_json"], ["cedar_raw"]),
            ]
        }
    )

    schema_version: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    cedar_raw: Annotated[str, StringConstraints(max_length=262_144)] | None = None
    cedar_json: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_notation(self) -> Self:
        if (self.cedar_raw is None) == (self.cedar_json is None):
            raise ValueError("give exactly one of `cedar_raw` and `cedar_json`")
        return self


class RevocationBody(Part):
    """Ends a session or a delegated grant; there is no way back."""

    status: Literal["revoked"]


class ActivationBody(Part):
    """Binds a version of a policy set; there is no unbinding."""

    active: Literal[True]

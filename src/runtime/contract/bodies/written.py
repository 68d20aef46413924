"""Request bodies of operations outside the kinds; those of kinds are in `domain.kinds`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, StringConstraints, model_validator

from runtime.domain.kinds.values import Id, OwnerType, Part, ZoneRole, together


class AssignmentBody(Part):
    """The role to assign, by id or by name, and the scope it is limited to."""

    example: ClassVar[Mapping[str, Any]] = {"role_identifier": "zone_viewer", "owner_type": "platform"}
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
            raise ValueError("give both `scope_id` and `scope_type`, or neither")
        return self


class MemberBody(Part):
    """The user to add to a group."""

    user_id: Id


class ZoneMemberBody(Part):
    """The organization user to make a member of a zone, and the role."""

    organization_user_id: Id
    role: ZoneRole


class ZoneRoleBody(Part):
    """The new role of a member of a zone."""

    role: ZoneRole


class EmptyBody(Part):
    """An empty body: absent or `{}`."""

    example: ClassVar[Mapping[str, Any]] = {}

"""Bodies that no entity class stands behind, written by hand."""

from typing import Annotated, Any, Literal, Self

from pydantic import StringConstraints, model_validator

from runtime.domain.kinds.values import Id, OwnerType, Part


class AssignmentBody(Part):
    """Which role to give, by id or by name, and what it is limited to."""

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


class EmptyBody(Part):
    """A body that says nothing: absent or `{}`."""


class PolicyVersionBody(Part):
    """A policy's new text, in one of Cedar's two notations."""

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

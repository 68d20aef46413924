"""Response bodies: how an entity is serialized, and the classes of responses that are not plain entities."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field

from runtime.domain.kinds.base import PERMISSIONS, Entity, Kind
from runtime.domain.kinds.marks import Example, Mark, Member, members
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import (
    Email,
    Id,
    IdentityStatus,
    IdentityType,
    InvitationStatus,
    OrganizationRole,
    Part,
    Timestamp,
    Uri,
    ZoneRole,
    rfc3339,
)

Shown = Callable[[Mapping[str, Any], Collection[str]], dict[str, Any]]
_AS_THEY_ARE: frozenset[type] = frozenset(
    {str, int, float, bool, type(None)}
)  # itself: an enumeration is a str, too


def answer(
    kind: Kind,
    entity: Entity,
    expands: Collection[str] = (),
    shown_once: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The entity as its JSON object, for `encoded` to write: times and enumerations are left to that.

    Args:
        kind: the kind of the entity.
        entity: the entity, with derived members filled in.
        expands: the values of `expand` that were asked for.
        shown_once: members that only the answer of a create has, such as a password.

    Returns:
        Optional members without a value are left out; required ones are null. Internal and sealed members are
        gone; `<member>_set` tells whether a sealed member has a value.
    """
    shown = _entity_shower(type(entity))(entity.__dict__, expands)
    return {**shown, **shown_once} if shown_once else shown


def part_answer(value: BaseModel, expands: Collection[str] = ()) -> dict[str, Any]:
    """An object that is not an entity as its JSON, by the same rules as `answer`."""
    return _shower(type(value))(value.__dict__, expands)


def encoded(body: Any) -> bytes:
    """The JSON text of an answer. Times are written as `rfc3339` writes them, in a tenth of the time."""
    return orjson.dumps(body, option=orjson.OPT_UTC_Z)


@cache
def _shower(model: type[BaseModel]) -> Shown:
    """The function that turns the members of one class into JSON, with everything looked up beforehand."""
    return _showing(model, _AS_THEY_ARE)


@cache
def _entity_shower(model: type[BaseModel]) -> Shown:
    """As `_shower`, but for `encoded`, which writes times and enumerations by itself."""
    types = (member.value_type for member in members(model).values())
    encodable = {each for each in types if isinstance(each, type) and issubclass(each, datetime | StrEnum)}
    return _showing(model, _AS_THEY_ARE | encodable)


def _showing(model: type[BaseModel], as_they_are: frozenset[type]) -> Shown:
    steps: list[tuple[str, str, str | None, bool, bool]] = []
    for name, member in members(model).items():
        if member.has(Mark.INTERNAL, Mark.INPUT):
            continue
        expand = member.expand.value if member.expand else None
        sealed = member.has(Mark.SEALED)
        shown_as = f"{member.shown_as}_set" if sealed else member.shown_as
        steps.append((name, shown_as, expand, sealed, member.required))

    def show(values: Mapping[str, Any], expands: Collection[str]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, shown_as, expand, sealed, required in steps:
            value = values[name]
            if sealed:
                shown[shown_as] = value is not None
            elif value is None:
                if required:
                    shown[shown_as] = None
            elif expand is None or expand in expands or any(e.startswith(f"{expand}.") for e in expands):
                shown[shown_as] = value if type(value) in as_they_are else plain(value, expands)
        return shown

    return show


def plain(value: Any, expands: Collection[str] = ()) -> Any:
    """Any value of a member as JSON: parts as objects, times as RFC 3339, enumerations as their text."""
    if type(value) in _AS_THEY_ARE:  # first: most values are, and to ask what a model is costs most
        return value
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, BaseModel):
        return _shower(type(value))(value.__dict__, expands)
    if isinstance(value, list | tuple):
        return [plain(entry, expands) for entry in value]
    if isinstance(value, dict):
        return {name: plain(entry, expands) for name, entry in value.items()}
    return value


def shown_members(model: type[BaseModel]) -> dict[str, Member]:
    """The members that answers of a class can have, sealed ones under their own name."""
    return {
        name: member for name, member in members(model).items() if not member.has(Mark.INTERNAL, Mark.INPUT)
    }


class GroupMember(Part):
    """A user's membership of a group."""

    created_at: Timestamp
    user: User | None = None
    user_id: str


class Link(Part):
    """A link to another resource of the API."""

    href: str


class ZoneMemberLinks(Part):
    """Links to the member itself, and to its organization user."""

    organization_user: Link
    self: Link


class ZoneMember(Part):
    """A role that a user of the organization has in one zone."""

    id: Id
    links: Annotated[ZoneMemberLinks, Field(serialization_alias="_links")]
    created_at: Timestamp
    organization_id: Id
    organization_user_id: Id
    role: ZoneRole
    updated_at: Timestamp
    zone_id: Id


class ValidationCheck(Part):
    """One check of a provider's connection; `detail` says why when it did not pass."""

    check: Literal[
        "issuer_reachability",
        "metadata_retrieval",
        "endpoint_consistency",
        "authorization_endpoint_reachability",
        "credential_exchange",
    ]
    detail: Annotated[str | None, Example("the issuer answered 404")] = None
    status: Literal["pass", "fail", "skipped_with_reason", "not_applicable"]


class ValidationResult(Part):
    """The results of a provider's connection checks, in the order they ran. They are not stored."""

    checks: list[ValidationCheck]
    provider_id: Id
    status: Literal["pass", "fail"]
    validated_at: Timestamp


class OrganizationRoleInfo(Part):
    """A role that an organization's users or a zone's members can have."""

    description: Annotated[str, Example("Sees everything of the organization")]
    label: Annotated[str, Example("org_viewer")]
    name: Annotated[str, Example("Viewer")]
    scope: Literal["organization", "zone"]


class InvitationPreview(Part):
    """An invitation as shown to the holder of its token."""

    created_by_name: str
    email: Email
    expires_at: Timestamp
    organization_name: str
    role: OrganizationRole
    status: InvitationStatus


class InvitationAcceptance(Part):
    """The result of accepting an invitation. `user_id`: of the organization user."""

    organization_id: Id
    organization_name: str
    success: bool
    user_id: Id | None = None


class Identity(Part):
    """A user of an organization, or an invitation to become one. `status`: of either."""

    id: Id
    created_at: Timestamp
    email: Email | None
    role: OrganizationRole
    source: Annotated[Uri, Example("https://acme.zones.example")]
    status: IdentityStatus
    type: IdentityType
    updated_at: Timestamp
    permissions: PERMISSIONS = None


class TokenResponse(Part):
    """A token for the management API: `DPoP` when bound to a key. `expires_in`: seconds."""

    access_token: Annotated[
        str, Example("eyJhbGciOiJFUzI1NiIsInR5cCI6Im0ybStqd3QifQ.eyJzdWIiOiIuLi4ifQ.c2lnbmF0dXJl")
    ]
    token_type: Literal["Bearer", "DPoP"] = "Bearer"
    expires_in: Annotated[int, Example(3600)]

"""Users, groups, roles and role assignments."""

from typing import Annotated, Literal

from pydantic import ConfigDict

from runtime.domain.kinds.base import ALL_VERBS, Kind, Listing, PageShape, Verb, ZoneEntity
from runtime.domain.kinds.marks import Example, Expand, Mark, Ref
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.queries import Query
from runtime.domain.kinds.values import (
    Email,
    Id,
    Identifier,
    Name,
    OwnerType,
    Part,
    PrincipalType,
    RoleDescription,
    RoleIdentifier,
    Timestamp,
    UserStatus,
)
from runtime.domain.kinds.zone import ZONE


class Role(ZoneEntity):
    """A name that policies and platform permissions match on. Unique per owner type within a zone."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    identifier: Annotated[RoleIdentifier, Mark.FIXED, Mark.HANDLE, Example("reader")]
    owner_type: Annotated[OwnerType, Mark.SERVER] = OwnerType.CUSTOMER
    description: Annotated[RoleDescription | None, Example("May read everything")] = None


class Group(ZoneEntity):
    """A group of users; its roles are roles of its members."""

    identifier: Annotated[Identifier, Mark.HANDLE, Mark.MADE, Example("platform-team")]
    name: Annotated[Name, Example("Platform team")]
    external: Annotated[bool, Mark.SERVER] = False
    member_count: Annotated[int | None, Mark.DERIVED, Expand("member_count")] = None
    roles: Annotated[list[str] | None, Mark.DERIVED, Expand("roles"), Example(["reader"])] = None


class GroupLists(Part):
    """What a manifest of a group has besides: its members' e-mail addresses, known to the zone yet or not."""

    members: Annotated[list[Email], Mark.SET] = []


class UserGroup(Part):
    """A group as seen from one of its members."""

    id: str
    identifier: Annotated[str, Example("platform-team")]
    name: Annotated[str, Example("Platform team")]
    external: bool = False
    external_issuer: str | None = None


class ScopeRef(Part):
    """What a role assignment is limited to."""

    id: str
    type: Annotated[str, Example("zone")]


class UserRoleAssignment(Part):
    """A role as seen from a user who holds it, directly or through a group."""

    group_id: str | None = None
    role_id: str
    role_identifier: Annotated[str, Example("reader")]
    role_owner_type: OwnerType
    scope: ScopeRef | None
    source: Annotated[str, Example("group")]


class FederationCredential(Part):
    """A user authenticates at a provider. `provider_id`: null once that provider is deleted."""

    created_at: Timestamp
    issuer: Annotated[str, Example("https://acme.zones.example")]
    provider: Annotated[Provider | None, Expand("credentials.provider")] = None
    provider_id: str | None
    subject: Annotated[str, Example("ada")]
    type: Literal["federation"]
    updated_at: Timestamp


class UserPasswordCredential(Part):
    """A user authenticates with the password of the zone; the address is the user's."""

    created_at: Timestamp
    type: Literal["password"]
    updated_at: Timestamp


UserCredential = FederationCredential | UserPasswordCredential


class User(ZoneEntity):
    """A user of a zone. Created by sign-in, registration or `zoned user add`, never through the API."""

    identifier: Annotated[Identifier, Mark.HANDLE, Mark.SUBJECT, Example("ada")]
    email: Email
    email_verified: Annotated[bool, Mark.SERVER] = False
    status: UserStatus = UserStatus.ACTIVE
    external: Annotated[bool, Mark.SERVER] = False
    authenticated_at: Annotated[Timestamp | None, Mark.SERVER] = None
    issuer: Annotated[str | None, Mark.SERVER, Example("https://acme.zones.example")] = None
    provider_id: Annotated[Id | None, Mark.SERVER] = None
    subject: Annotated[str | None, Mark.SERVER, Example("ada")] = None
    epoch: Annotated[int, Mark.INTERNAL] = 1
    credentials: Annotated[list[UserCredential] | None, Mark.DERIVED, Expand("credentials")] = None
    grant_count: Annotated[int | None, Mark.DERIVED, Expand("grant_count")] = None
    groups: Annotated[list[UserGroup] | None, Mark.DERIVED, Expand("groups")] = None
    role_assignments: Annotated[list[UserRoleAssignment] | None, Mark.DERIVED, Expand("role-assignments")] = (
        None
    )
    session_count: Annotated[int | None, Mark.DERIVED, Expand("session_count")] = None


class RoleAssignment(ZoneEntity):
    """A role of a user, an application or a group."""

    organization_id: Annotated[Id, Mark.INTERNAL]
    principal_id: Annotated[Id, Mark.SERVER]
    principal_type: Annotated[PrincipalType, Mark.SERVER]
    role_id: Annotated[Id, Mark.SERVER, Ref("Role")]
    role_identifier: Annotated[str, Mark.SERVER, Example("reader")]
    role_owner_type: Annotated[OwnerType, Mark.SERVER]
    scope_id: Annotated[str | None, Mark.SERVER]
    scope_type: Annotated[str | None, Mark.SERVER, Example("zone")]


class AssignmentPrincipal(Part):
    """The principal of a role assignment: exactly one of these."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    group_id: Annotated[Id | None, Ref("Group")] = None
    application_id: Annotated[Id | None, Ref("Application")] = None
    user: Email | None = None


class AssignmentSpec(Part):
    """A role assignment as a manifest writes it."""

    role_id: Annotated[Id, Mark.FIXED, Ref("Role")]
    principal: Annotated[AssignmentPrincipal, Mark.FIXED]


ROLE = Kind(
    entity=Role,
    collection="roles",
    operations="roles",
    parent=ZONE,
    item="roleId",
    listing=Listing(
        envelope=PageShape.ZONE,
        filters=("owner_type",),
        single=("owner_type",),
        plain={"identifier": "identifier"},
    ),
    created=201,
    manifest=True,
    unique_with=("owner_type",),
)

GROUP = Kind(
    entity=Group,
    collection="groups",
    operations="groups",
    parent=ZONE,
    item="groupId",
    verbs=ALL_VERBS,
    listing=Listing(
        envelope=PageShape.ZONE,
        filters=("id", "identifier"),
        sorts=("created_at", "name", "identifier"),
        expands=("member_count", "roles", "total_count"),
    ),
    created=201,
    manifest=True,
    extras=GroupLists,
)

_ROLE_SOURCE = Query("role_source", values=("user", "group", "all"), about="`user` when absent")

USER = Kind(
    entity=User,
    collection="users",
    operations="users",
    parent=ZONE,
    verbs=frozenset({Verb.LIST, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE}),
    listing=Listing(
        envelope=PageShape.ZONE,
        filters=("email", "external", "id", "identifier", "issuer", "subject"),
        search=("email", "subject"),
        sorts=("created_at", "email", "authenticated_at"),
        expands=(
            "credentials",
            "credentials.provider",
            "grant_count",
            "groups",
            "role-assignments",
            "session_count",
            "total_count",
        ),
        retrieve_expands=("role-assignments", "groups"),
        more=(
            Query("filter[groups]", many=True, about="ids of groups the user is in"),
            Query("filter[role]", many=True, limit=100, about="identifiers of roles assigned directly"),
            _ROLE_SOURCE,
        ),
        retrieve_more=(_ROLE_SOURCE,),
    ),
    has_secrets=True,
    indexes=(("email",), ("issuer", "subject")),
)

ROLE_ASSIGNMENT = Kind(
    entity=RoleAssignment,
    collection="role-assignments",
    operations="role_assignments",
    parent=ZONE,
    verbs=frozenset(),
    manifest=True,
    extras=AssignmentSpec,
    indexes=(("principal_type", "principal_id"),),
)

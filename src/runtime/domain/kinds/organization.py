"""Organizations, their users and their service accounts."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from runtime.domain.kinds.base import (
    ALL_VERBS,
    PERMISSIONS,
    Entity,
    Kind,
    Listing,
    OrganizationEntity,
    PageShape,
    Permissions,
    Verb,
)
from runtime.domain.kinds.marks import Example, Mark
from runtime.domain.kinds.values import (
    BoundZones,
    CredentialLifetime,
    Description,
    Email,
    Id,
    Name,
    OrganizationRole,
    OrganizationStatus,
    OwnerName,
    ServiceAccountRole,
    Slug,
    Timestamp,
    Uri,
)


class Organization(Entity):
    """A customer, who owns zones, API keys and service accounts. Addressed by id or by label."""

    label: Annotated[Slug, Mark.SERVER, Mark.HANDLE, Example("acme")]
    name: Annotated[Name, Mark.MADE, Example("Acme")]
    sso_enabled: Annotated[bool, Mark.SERVER] = False
    zone_id: Annotated[Id | None, Mark.SERVER] = None
    permissions: PERMISSIONS = None


class OrganizationUser(OrganizationEntity):
    """A user of the organization. The id is that of the account: the same in all of its organizations.

    Attributes:
        source: issuer of the provider that signs the person in.
        zone_user_id: the user who stands for the person in the organization's home zone: groups and roles.
        account_issuer: issuer of the organization zone whose tokens the person presents, here or at home.
        account_subject: the `sub` in those tokens.
    """

    email: Annotated[Email | None, Mark.SERVER] = None
    role: OrganizationRole
    source: Annotated[Uri, Mark.SERVER, Example("https://acme.zones.example")]
    status: OrganizationStatus
    zone_user_id: Annotated[Id, Mark.INTERNAL]
    account_issuer: Annotated[str, Mark.INTERNAL]
    account_subject: Annotated[str, Mark.INTERNAL]
    permissions: PERMISSIONS = None


class ServiceAccount(OrganizationEntity):
    """A machine that calls the management API for its organization."""

    name: Annotated[Name, Mark.HANDLE, Example("ci")]
    description: Annotated[Description | None, Mark.KEPT, Example("Applies what is merged")] = None
    permissions: PERMISSIONS = None


class ServiceAccountCredential(OrganizationEntity):
    """A client id and secret of a service account. The secret is shown once, when it is created.

    Attributes:
        role: what it may do; None for all that service accounts may.
        owner: the configuration set that it applies changesets for; None for whichever.
        zones: the ids of the zones that it reaches; None for all of the organization, and the organization.
    """

    service_account_id: Annotated[Id, Mark.INTERNAL]
    client_id: Annotated[Id, Mark.SERVER, Mark.UNIQUE, Mark.GLOBAL]
    name: Annotated[Name, Example("ci, November")]
    description: Annotated[Description | None, Mark.KEPT, Example("Rotated every month")] = None
    role: Annotated[ServiceAccountRole | None, Mark.FIXED, Example("service_account")] = None
    owner: Annotated[OwnerName | None, Mark.FIXED, Example("payments")] = None
    zones: Annotated[BoundZones | None, Mark.FIXED, Mark.SET] = None
    expires_at: Annotated[Timestamp | None, Mark.SERVER] = None
    last_used_at: Annotated[Timestamp | None, Mark.SERVER] = None
    secret_hash: Annotated[bytes | None, Mark.INTERNAL] = None
    updated_at: Annotated[Timestamp, Mark.INTERNAL]
    permissions: PERMISSIONS = None

    def has_expired(self, now: datetime) -> bool:
        """Tell whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


class ServiceAccountCredentialCreated(ServiceAccountCredential):
    """A new credential of a service account, with its secret, which no other response has."""

    client_secret: str
    last_used_at: Annotated[Timestamp | None, Mark.INTERNAL] = None
    permissions: Annotated[Permissions | None, Mark.INTERNAL] = None


_PAGE = Listing(envelope=PageShape.ORGANIZATION, expands=("permissions", "total_count"))

ORGANIZATION = Kind(
    entity=Organization,
    collection="organizations",
    operations="organizations",
    parent=None,
    item="organization_id",
    verbs=ALL_VERBS,
    listing=_PAGE,
    created=201,
)

ORGANIZATION_USER = Kind(
    entity=OrganizationUser,
    collection="users",
    operations="organization_users",
    parent=ORGANIZATION,
    item="user_id",
    verbs=frozenset({Verb.LIST, Verb.RETRIEVE, Verb.UPDATE, Verb.DELETE}),
    listing=replace(_PAGE, plain={"role": "role"}),
    unique_together={
        # The account comes first: it is asked for in every organization too.
        "account": ("account_issuer", "account_subject", "organization_id"),
        "zone_user_id": ("organization_id", "zone_user_id"),
    },
)

SERVICE_ACCOUNT = Kind(
    entity=ServiceAccount,
    collection="service-accounts",
    operations="service_accounts",
    parent=ORGANIZATION,
    item="service_account_id",
    verbs=ALL_VERBS,
    listing=_PAGE,
    created=201,
    manifest=True,
)

SERVICE_ACCOUNT_CREDENTIAL = Kind(
    entity=ServiceAccountCredential,
    collection="credentials",
    operations="service_account_credentials",
    parent=SERVICE_ACCOUNT,
    item="credential_id",
    verbs=ALL_VERBS,
    listing=_PAGE,
    created=201,
    created_as=(ServiceAccountCredentialCreated,),
    inputs={Verb.CREATE: CredentialLifetime},
)

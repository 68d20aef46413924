"""Organizations, and the service accounts that act for them."""

from typing import Annotated

from runtime.domain.kinds.base import (
    ALL_VERBS,
    PERMISSIONS,
    Entity,
    Envelope,
    Kind,
    Listing,
    OrganizationEntity,
    Verb,
)
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.values import Description, Id, Name, Slug, Timestamp


class Organization(Entity):
    """The customer: owns zones, keys and service accounts. Addressed by id or by label."""

    label: Annotated[Slug, Mark.SERVER, Mark.HANDLE]
    name: Name
    sso_enabled: Annotated[bool, Mark.SERVER] = False
    zone_id: Annotated[Id | None, Mark.SERVER] = None
    permissions: PERMISSIONS = None


class ServiceAccount(OrganizationEntity):
    """A machine that calls the management API for its organization."""

    name: Annotated[Name, Mark.HANDLE]
    description: Annotated[Description | None, Mark.KEPT] = None
    permissions: PERMISSIONS = None


class ServiceAccountCredential(OrganizationEntity):
    """A client id and secret of a service account. The secret is shown once, when it is created."""

    service_account_id: Annotated[Id, Mark.INTERNAL]
    client_id: Annotated[Id, Mark.SERVER, Mark.UNIQUE]
    name: Name
    description: Annotated[Description | None, Mark.KEPT] = None
    last_used_at: Annotated[Timestamp | None, Mark.SERVER] = None
    secret_hash: Annotated[bytes | None, Mark.INTERNAL] = None
    updated_at: Annotated[Timestamp, Mark.INTERNAL]
    permissions: PERMISSIONS = None


_PAGE = Listing(envelope=Envelope.ORGANIZATION, expands=("permissions", "total_count"))

ORGANIZATION = Kind(
    entity=Organization,
    collection="organizations",
    operations="organizations",
    parent=None,
    item="organization_id",
    verbs=frozenset({Verb.LIST, Verb.RETRIEVE, Verb.UPDATE}),
    listing=_PAGE,
    created=201,
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
)

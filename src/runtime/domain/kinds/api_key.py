"""API keys: credentials for the management API, for programs and for people at a terminal."""

from datetime import datetime
from typing import Annotated

from runtime.domain.kinds.base import (
    PERMISSIONS,
    Kind,
    Listing,
    OrganizationEntity,
    PageShape,
    Permissions,
    Verb,
)
from runtime.domain.kinds.marks import Example, Mark
from runtime.domain.kinds.organization import ORGANIZATION
from runtime.domain.kinds.values import (
    BoundZones,
    CredentialLifetime,
    Id,
    Name,
    OrganizationRole,
    OwnerName,
    Timestamp,
)

KEY_PREFIX = "zwk_"


class ApiKey(OrganizationEntity):
    """A key for the management API. It is shown once, and is valid no longer than its creator's credential.

    Attributes:
        owner: the configuration set that it applies changesets for; None for whichever.
        zones: the ids of the zones that it reaches; None for all of the organization, and the organization.
        created_by: the organization user, API key or operator that made it.
        secret_hash: of the secret, which is nowhere else.
        person_id: the organization user at whose word it was made, also through other keys; None where it was
            an operator's.
        person_zone_id: the zone in which that person is at home, where their account can end, too.
    """

    created_by: Annotated[Id, Mark.SERVER]
    name: Annotated[Name, Mark.FIXED, Example("nightly report")]
    role: Annotated[OrganizationRole, Mark.FIXED, Example("org_viewer")]
    owner: Annotated[OwnerName | None, Mark.FIXED, Example("payments")] = None
    zones: Annotated[BoundZones | None, Mark.FIXED, Mark.SET] = None
    expires_at: Annotated[Timestamp | None, Mark.SERVER] = None
    last_used_at: Annotated[Timestamp | None, Mark.SERVER] = None
    secret_hash: Annotated[bytes, Mark.INTERNAL]
    person_id: Annotated[Id | None, Mark.INTERNAL] = None
    person_zone_id: Annotated[Id | None, Mark.INTERNAL] = None
    updated_at: Annotated[Timestamp, Mark.INTERNAL]
    permissions: PERMISSIONS = None

    def has_expired(self, now: datetime) -> bool:
        """Tell whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


class ApiKeyCreated(ApiKey):
    """A new API key, with the key itself, which no other response has."""

    api_key: Annotated[str, Example("zwk_dze04yygzng3xe5r0es2bwz0y5_the-secret-of-the-key")]
    last_used_at: Annotated[Timestamp | None, Mark.INTERNAL] = None
    permissions: Annotated[Permissions | None, Mark.INTERNAL] = None


API_KEY = Kind(
    entity=ApiKey,
    collection="api-keys",
    operations="api_keys",
    parent=ORGANIZATION,
    item="api_key_id",
    verbs=frozenset({Verb.LIST, Verb.CREATE, Verb.DELETE}),
    listing=Listing(envelope=PageShape.ORGANIZATION, expands=("permissions", "total_count")),
    created=201,
    created_as=(ApiKeyCreated,),
    inputs={Verb.CREATE: CredentialLifetime},
    unique_together={"id": ("id",)},  # it arrives without a tenant
)

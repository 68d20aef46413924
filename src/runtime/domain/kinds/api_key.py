"""API keys: how a program, or a person at a terminal, calls the management API."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from runtime.domain.kinds.base import PERMISSIONS, Envelope, Kind, Listing, OrganizationEntity, Verb
from runtime.domain.kinds.marks import Mark
from runtime.domain.kinds.organization import ORGANIZATION
from runtime.domain.kinds.values import BoundZones, Id, Name, OrganizationRole, OwnerName, Timestamp

KEY_PREFIX = "zwk_"
MIN_SECONDS, MAX_SECONDS = 60, 10 * 366 * 86_400  # that a key can last, when it is to end by itself

KeySeconds = Annotated[int, Field(ge=MIN_SECONDS, le=MAX_SECONDS)]


class ApiKey(OrganizationEntity):
    """A key that calls the management API. It is shown once, and lives no longer than what made it.

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
    name: Annotated[Name, Mark.FIXED]
    role: Annotated[OrganizationRole, Mark.FIXED]
    owner: Annotated[OwnerName | None, Mark.FIXED] = None
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


API_KEY = Kind(
    entity=ApiKey,
    collection="api-keys",
    operations="api_keys",
    parent=ORGANIZATION,
    item="api_key_id",
    verbs=frozenset({Verb.LIST, Verb.CREATE, Verb.DELETE}),
    listing=Listing(envelope=Envelope.ORGANIZATION, expands=("permissions", "total_count")),
    created=201,
    unique_together={"id": ("id",)},  # it arrives without a tenant
)

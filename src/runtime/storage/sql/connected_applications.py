"""A user's connected applications: consents, delegated grants and active sessions, with names."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import ProviderType
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import METADATA, TABLES

_applications = TABLES["Application"]
_user_agents = TABLES["UserAgent"]
_resources = TABLES["Resource"]
_providers = TABLES["Provider"]
_consents = METADATA.tables["consents"]
_grants = METADATA.tables["delegated_grants"]


@dataclass(frozen=True, slots=True)
class GivenConsent:
    """A consent, with names.

    Attributes:
        name: of the application or user agent.
        resource_name, resource_identifier: None for consent to signing in itself.
    """

    client_ref: ClientRef
    name: str
    resource_name: str | None
    resource_identifier: str | None
    scopes: frozenset[str]
    redirect_host: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class GivenGrant:
    """A delegated grant that stands, with names.

    Attributes:
        refreshed_at: when the provider's tokens were last refreshed; None before the first time.
    """

    id: str
    resource_name: str
    resource_identifier: str
    provider_name: str
    is_own: bool  # the zone's own tokens, not those of an account elsewhere
    is_stored: bool  # a credential that the user has stored
    scopes: frozenset[str]
    since: datetime
    refreshed_at: datetime | None

    @property
    def is_connected(self) -> bool:
        """Tell whether it is for an account at an outside provider."""
        return not self.is_own and not self.is_stored


async def consents(conn: AsyncConnection, *, zone_id: str, user_id: str) -> list[GivenConsent]:
    """Everything a user agreed to, the oldest first."""
    joined = (
        _consents.outerjoin(
            _applications,
            and_(
                _applications.c.zone_id == _consents.c.zone_id,
                _applications.c.id == _consents.c.application_id,
            ),
        )
        .outerjoin(
            _user_agents,
            and_(
                _user_agents.c.zone_id == _consents.c.zone_id,
                _user_agents.c.id == _consents.c.user_agent_id,
            ),
        )
        .outerjoin(
            _resources,
            and_(_resources.c.zone_id == _consents.c.zone_id, _resources.c.id == _consents.c.resource_id),
        )
    )
    found = await conn.execute(
        select(
            _consents,
            _applications.c.name.label("application_name"),
            _user_agents.c.name.label("user_agent_name"),
            _resources.c.name.label("resource_name"),
            _resources.c.identifier.label("resource_identifier"),
        )
        .select_from(joined)
        .where(_consents.c.zone_id == zone_id, _consents.c.user_id == user_id)
        .order_by(_consents.c.created_at, _consents.c.resource_id)
    )
    return [
        GivenConsent(
            client_ref=ClientRef(row.application_id, row.user_agent_id),
            name=row.application_name or row.user_agent_name or "",
            resource_name=row.resource_name,
            resource_identifier=row.resource_identifier,
            scopes=frozenset(row.scopes or ()),
            redirect_host=row.redirect_host,
            since=row.created_at,
        )
        for row in found
    ]


async def grants(conn: AsyncConnection, *, zone_id: str, user_id: str, now: datetime) -> list[GivenGrant]:
    """What stands of what a user delegated, by name of the resource."""
    joined = _grants.join(
        _resources,
        and_(_resources.c.zone_id == _grants.c.zone_id, _resources.c.id == _grants.c.resource_id),
    ).join(
        _providers,
        and_(_providers.c.zone_id == _grants.c.zone_id, _providers.c.id == _grants.c.provider_id),
    )
    found = await conn.execute(
        select(
            _grants.c.id,
            _grants.c.scopes,
            _grants.c.created_at,
            _grants.c.refreshed_at,
            _resources.c.name.label("resource_name"),
            _resources.c.identifier.label("resource_identifier"),
            _providers.c.name.label("provider_name"),
            _providers.c.type.label("provider_type"),
        )
        .select_from(joined)
        .where(
            _grants.c.zone_id == zone_id,
            _grants.c.user_id == user_id,
            _grants.c.status == "active",
            or_(_grants.c.expires_at.is_(None), _grants.c.expires_at > now),
        )
        .order_by(_resources.c.name, _grants.c.id)
    )
    return [
        GivenGrant(
            id=row.id,
            resource_name=row.resource_name,
            resource_identifier=row.resource_identifier,
            provider_name=row.provider_name,
            is_own=row.provider_type == ProviderType.SERVICE_STS,
            is_stored=row.provider_type == ProviderType.SERVICE_VAULT,
            scopes=frozenset(row.scopes or ()),
            since=row.created_at,
            refreshed_at=row.refreshed_at,
        )
        for row in found
    ]


async def take_back(conn: AsyncConnection, *, zone_id: str, user_id: str, client_ref: ClientRef) -> None:
    """Forget what a user agreed to for one application or user agent.

    A grant of the zone's own tokens that it leaves without any consent is forgotten too. One that another
    application still has consent for stays; so do those of accounts elsewhere, which no consent made.
    """
    of_user = (_consents.c.zone_id == zone_id, _consents.c.user_id == user_id)
    gone = await conn.execute(
        delete(_consents).where(*of_user, client_ref.owns(_consents)).returning(_consents.c.resource_id)
    )
    touched = set(gone.scalars())
    left = await conn.execute(select(_consents.c.resource_id).where(*of_user))
    await _forget_grants(conn, zone_id, user_id, touched - set(left.scalars()))


async def resource_of_grant(
    conn: AsyncConnection, *, zone_id: str, user_id: str, grant_id: str
) -> str | None:
    """The id of the resource that a grant of this user is for; None when it is nobody's, or another's."""
    found: str | None = await conn.scalar(
        select(_grants.c.resource_id).where(
            _grants.c.zone_id == zone_id, _grants.c.user_id == user_id, _grants.c.id == grant_id
        )
    )
    return found


async def _forget_grants(
    conn: AsyncConnection, zone_id: str, user_id: str, resource_ids: Collection[str]
) -> None:
    own = select(_providers.c.id).where(
        _providers.c.zone_id == zone_id, _providers.c.type == ProviderType.SERVICE_STS.value
    )
    await conn.execute(
        delete(_grants).where(
            _grants.c.zone_id == zone_id,
            _grants.c.user_id == user_id,
            _grants.c.resource_id.in_(resource_ids),
            _grants.c.provider_id.in_(own),
        )
    )

"""A user's connected applications: consents, delegated grants and active sessions, with names."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, case, delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import CredentialType, ProviderType
from runtime.storage.sql.batches import among
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import METADATA, TABLES
from runtime.storage.sql.vault_tokens import VaultState

MOST_CLIENTS = 20  # looked through for one that a resource can be authorized for again

_applications = TABLES["Application"]
_user_agents = TABLES["UserAgent"]
_resources = TABLES["Resource"]
_providers = TABLES["Provider"]
_consents = METADATA.tables["consents"]
_grants = METADATA.tables["delegated_grants"]
_tokens = METADATA.tables["vault_tokens"]
_credentials = TABLES["ApplicationCredential"]
_sessions = METADATA.tables["sessions"]


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
        is_refreshed: whether they are refreshed at all.
        tokens_end_at: when they expire that nothing refreshes; None for those that do not expire.
        has_ended: whether they are worth nothing any more, until the user connects the account again.
    """

    id: str
    resource_id: str
    resource_name: str
    resource_identifier: str
    provider_name: str
    is_own: bool  # the zone's own tokens, not those of an account elsewhere
    is_stored: bool  # a credential that the user has stored
    scopes: frozenset[str]
    since: datetime
    refreshed_at: datetime | None
    is_refreshed: bool
    tokens_end_at: datetime | None
    has_ended: bool

    @property
    def is_connected(self) -> bool:
        """Tell whether it is for an account at an outside provider."""
        return not self.is_own and not self.is_stored

    @property
    def needs_connecting(self) -> bool:
        """Tell whether it is for an account that the user has to connect again."""
        return self.is_connected and self.has_ended


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
    joined = joined.outerjoin(
        _tokens, and_(_tokens.c.zone_id == _grants.c.zone_id, _tokens.c.grant_id == _grants.c.id)
    )
    found = await conn.execute(
        select(
            _grants.c.id,
            _grants.c.scopes,
            _grants.c.created_at,
            _grants.c.refreshed_at,
            _grants.c.resource_id,
            _tokens.c.state.label("tokens_state"),
            _tokens.c.expires_at.label("tokens_expire_at"),
            _tokens.c.refresh_token.is_not(None).label("has_refresh_token"),
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
            resource_id=row.resource_id,
            resource_name=row.resource_name,
            resource_identifier=row.resource_identifier,
            provider_name=row.provider_name,
            is_own=row.provider_type == ProviderType.SERVICE_STS,
            is_stored=row.provider_type == ProviderType.SERVICE_VAULT,
            scopes=frozenset(row.scopes or ()),
            since=row.created_at,
            refreshed_at=row.refreshed_at,
            is_refreshed=bool(row.has_refresh_token) and row.tokens_expire_at is not None,
            tokens_end_at=None if row.has_refresh_token else row.tokens_expire_at,
            has_ended=row.tokens_state != VaultState.LIVE.value
            or (
                not row.has_refresh_token and row.tokens_expire_at is not None and row.tokens_expire_at <= now
            ),
        )
        for row in found
    ]


async def client_ids(
    conn: AsyncConnection, *, zone_id: str, user_id: str, resource_id: str, now: datetime
) -> list[str]:
    """The client ids of those that may use a resource for a user: consented to, or signed in to; some twice.

    `MOST_CLIENTS` of each. Whether one may request the resource, and whether consent is needed, is not asked.
    """
    # A workload goes by its credential's id.
    is_workload = _credentials.c.type == CredentialType.TOKEN.value
    agreed = (
        _consents.c.zone_id == zone_id,
        _consents.c.user_id == user_id,
        _consents.c.resource_id == resource_id,
    )
    of_applications = (
        select(case((is_workload, _credentials.c.id), else_=_credentials.c.identifier))
        .join(
            _consents,
            and_(
                _consents.c.zone_id == _credentials.c.zone_id,
                _consents.c.application_id == _credentials.c.application_id,
            ),
        )
        .where(*agreed)
        .order_by(_consents.c.updated_at.desc(), _credentials.c.id)
    )
    of_user_agents = (
        select(_user_agents.c.identifier)
        .join(
            _consents,
            and_(
                _consents.c.zone_id == _user_agents.c.zone_id,
                _consents.c.user_agent_id == _user_agents.c.id,
            ),
        )
        .where(*agreed)
        .order_by(_consents.c.updated_at.desc(), _user_agents.c.id)
    )
    of_sessions = (
        select(_sessions.c.client_id)
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.user_id == user_id,
            _sessions.c.client_id.is_not(None),
            _sessions.c.status == "active",
            _sessions.c.expires_at > now,
        )
        .order_by(_sessions.c.created_at.desc(), _sessions.c.id)
    )
    found: list[str] = []
    for query in (of_applications, of_user_agents, of_sessions):
        found += await conn.scalars(query.limit(MOST_CLIENTS))
    return found


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
            among(_grants.c.resource_id, resource_ids),
            _grants.c.provider_id.in_(own),
        )
    )

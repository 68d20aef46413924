"""The resources that a user may store a credential for: those of the vault that their applications reach."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import CTE, CompoundSelect, ScalarSelect, Select, and_, func, or_, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import ProviderType
from runtime.storage.sql.tables import METADATA, TABLES, vault_tokens

MOST = 100  # shown on one page

_resources = TABLES["Resource"]
_providers = TABLES["Provider"]
_dependencies = METADATA.tables["application_dependencies"]
_sessions = METADATA.tables["sessions"]
_consents = METADATA.tables["consents"]
_grants = METADATA.tables["delegated_grants"]


@dataclass(frozen=True, slots=True)
class VaultResource:
    """A resource that takes a credential of the user's own.

    Attributes:
        stored_at: when the credential that counts was stored; None without one.
    """

    id: str
    name: str
    identifier: str
    description: str | None
    stored_at: datetime | None


async def reachable(
    conn: AsyncConnection, *, zone_id: str, user_id: str, now: datetime
) -> list[VaultResource]:
    """By name, those that a chain of the user can end at, `MOST` at the most.

    A chain begins at an application that the user is signed in to, or that provides what they consented to,
    and goes on by declared dependencies.
    """
    agreed_to = _agreed_to(zone_id, user_id)
    targets = _targets(_chain(zone_id, _first_applications(zone_id, user_id, now)), zone_id)
    found = await conn.execute(
        select(
            _resources.c.id,
            _resources.c.name,
            _resources.c.identifier,
            _resources.c.description,
            _stored_at(zone_id, user_id).label("stored_at"),
        )
        .join(
            _providers,
            and_(
                _providers.c.zone_id == _resources.c.zone_id,
                _providers.c.id == _resources.c.credential_provider_id,
            ),
        )
        .where(
            _resources.c.zone_id == zone_id,
            _providers.c.type == ProviderType.SERVICE_VAULT.value,
            or_(_resources.c.id.in_(targets), _resources.c.id.in_(agreed_to)),
        )
        .order_by(_resources.c.name, _resources.c.id)
        .limit(MOST)
    )
    return [VaultResource(row.id, row.name, row.identifier, row.description, row.stored_at) for row in found]


def _agreed_to(zone_id: str, user_id: str) -> Select[tuple[str]]:
    """The resources that the user has consented to for some client."""
    return select(_consents.c.resource_id).where(
        _consents.c.zone_id == zone_id, _consents.c.user_id == user_id
    )


def _first_applications(zone_id: str, user_id: str, now: datetime) -> CompoundSelect[tuple[str]]:
    """The applications that a chain of the user can begin at."""
    signed_in_to = select(_sessions.c.application_id).where(
        _sessions.c.zone_id == zone_id,
        _sessions.c.user_id == user_id,
        _sessions.c.application_id.is_not(None),
        _sessions.c.status == "active",
        _sessions.c.expires_at > now,
    )
    providing = select(_resources.c.application_id).where(
        _resources.c.zone_id == zone_id,
        _resources.c.application_id.is_not(None),
        _resources.c.id.in_(_agreed_to(zone_id, user_id)),
    )
    return union(signed_in_to, providing)


def _chain(zone_id: str, first: CompoundSelect[tuple[str]]) -> CTE:
    """The applications of all chains that begin at the first ones, by declared dependencies."""
    chain = select(first.subquery().c.application_id).cte("chain", recursive=True)
    return chain.union(
        select(_resources.c.application_id)
        .join(
            _dependencies,
            and_(
                _dependencies.c.zone_id == _resources.c.zone_id,
                _dependencies.c.resource_id == _resources.c.id,
            ),
        )
        .join(chain, chain.c.application_id == _dependencies.c.application_id)
        .where(_resources.c.zone_id == zone_id, _resources.c.application_id.is_not(None))
    )


def _targets(chain: CTE, zone_id: str) -> Select[tuple[str]]:
    """The resources that the applications of the chains depend on."""
    return select(_dependencies.c.resource_id).where(
        _dependencies.c.zone_id == zone_id,
        _dependencies.c.application_id.in_(select(chain.c.application_id)),
    )


def _stored_at(zone_id: str, user_id: str) -> ScalarSelect[datetime | None]:
    """When the credential of the user for the row's resource was stored."""
    return (
        select(func.max(vault_tokens.c.created_at))
        .join(
            _grants,
            and_(_grants.c.zone_id == vault_tokens.c.zone_id, _grants.c.id == vault_tokens.c.grant_id),
        )
        .where(
            _grants.c.zone_id == zone_id,
            _grants.c.user_id == user_id,
            _grants.c.resource_id == _resources.c.id,
            _grants.c.provider_id == _resources.c.credential_provider_id,
        )
        .scalar_subquery()
    )

"""The effects of deleting entities: what is deleted or ended with them, counted before it happens."""

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from sqlalchemy import ColumnElement, Table, desc, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, PROVIDER, SERVICE_ACCOUNT, ZONE, Kind
from runtime.domain.kinds.values import CredentialType
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.reference_cleanup import loosely_pointing_at, pointing_at
from runtime.storage.sql.tables import METADATA, TABLES, refresh_families, sessions, token_events
from runtime.storage.sql.token_events import PROVED

USED_WITHIN = timedelta(days=30)
MOST_EVENTS = 100_000

# Table -> what its rows are called. The others hold the inside of the service, or what is told of already.
WORDS = {
    "application_credentials": "application_credentials",
    "application_dependencies": "dependencies",
    "applications": "applications",
    "consents": "consents",
    "delegated_grants": "delegated_grants",
    "group_invitees": "members",
    "group_members": "members",
    "groups": "groups",
    "policies": "policies",
    "policy_sets": "policy_sets",
    "providers": "providers",
    "refresh_families": "refresh_tokens",
    "resources": "resources",
    "role_assignments": "role_assignments",
    "roles": "roles",
    "secrets": "secrets",
    "service_account_credentials": "service_account_credentials",
    "sessions": "sessions",
    "user_agents": "user_agents",
    "users": "users",
}
UNTOLD = frozenset(
    {
        "audit_events",  # it stays
        "organizations",  # a zone that is an organization's own is not deleted
        "outbox",
        "ownerships",
        "policy_set_bindings",
        "policy_set_versions",
        "policy_versions",
        "revocations",
        "session_issuers",  # with its session
        "subjects",
        "token_events",
        "tombstones",  # they tell of what went before
        "user_credentials",
        "vault_tokens",  # a delegated grant has one at most, and is told of
        "withdrawn_in_sessions",
        "withdrawn_names",
        "zone_address_uses",
        "zone_addresses",
        "zone_changes",
        "zone_internals",
        "zone_keys",
    }
)


@dataclass(frozen=True)
class _Going:
    """Rows that go or end with an entity: those whose column has its id, in its zone or organization."""

    table: Table
    column: str
    tenant: str
    more: tuple[ColumnElement[bool], ...] = ()


@cache
def _goes_with(kind: Kind) -> tuple[_Going, ...]:
    if kind is ZONE:
        return tuple(
            _Going(table, "zone_id", "zone_id")
            for table in METADATA.tables.values()
            if "zone_id" in table.c and table.name in WORDS
        )
    found = [
        _Going(table, column, own)
        for table, column, own, ondelete in pointing_at(TABLES[kind.name])
        if ondelete is not None and table.name in WORDS
    ]
    if kind.zoned:
        found += [
            _Going(table, column, "zone_id", more)
            for table, column, more in loosely_pointing_at(kind)
            if table.name in WORDS
        ]
    if kind is PROVIDER:
        found.append(_Going(sessions, "provider_id", "zone_id"))  # who signed in through it is signed out
    return tuple(found)


async def owned(
    conn: AsyncConnection, kind: Kind, organization_id: str, ids: Collection[str]
) -> dict[str, set[str]]:
    """Those of these entities that an organization has, by their zone; by the organization without one."""
    table, found = TABLES[kind.name], defaultdict[str, set[str]](set)
    within = table.c.id if kind is ZONE else table.c.zone_id if kind.zoned else table.c.organization_id
    for batch in batches(sorted(ids)):
        query = select(within, table.c.id).where(
            table.c.organization_id == organization_id, table.c.id.in_(batch)
        )
        for tenant_id, entity_id in await conn.execute(query):
            found[tenant_id].add(entity_id)
    return found


async def count(
    conn: AsyncConnection, kind: Kind, tenant_id: str, ids: Collection[str], *, now: datetime
) -> dict[str, Counter[str]]:
    """How many rows of which sort go with each of these entities; of what ends, what has not ended yet."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for going in _goes_with(kind):
        table, column = going.table, going.table.c[going.column]
        for batch in batches(sorted(ids)):
            query = select(column, func.count()).where(
                table.c[going.tenant] == tenant_id, column.in_(batch), *going.more, *_standing(table, now)
            )
            for entity_id, number in await conn.execute(query.group_by(column)):
                found[entity_id][WORDS[table.name]] += number
    return found


def _standing(table: Table, now: datetime) -> list[ColumnElement[bool]]:
    if table.name == "delegated_grants":
        return [table.c.status == "active"]
    if table in (sessions, refresh_families):
        return [table.c.status == "active", table.c.expires_at > now]
    return []


async def used(
    conn: AsyncConnection,
    kind: Kind,
    organization_id: str,
    tenant_id: str,
    ids: Collection[str],
    *,
    now: datetime,
) -> set[str]:
    """Which of these clients, credentials and service accounts were used within the last thirty days.

    Where more happened in a zone than is looked through, none of its clients is taken for unused.
    """
    if kind is SERVICE_ACCOUNT:
        keys = METADATA.tables["service_account_credentials"]
        query = select(keys.c.service_account_id).where(
            keys.c.organization_id == tenant_id,
            among(keys.c.service_account_id, ids),
            keys.c.last_used_at > now - USED_WITHIN,
        )
        return set(await conn.scalars(query))
    if kind not in (APPLICATION, APPLICATION_CREDENTIAL):
        return set()
    table = TABLES[kind.name]
    client = table.c.id if kind is APPLICATION else table.c.application_id
    clients: dict[str, str] = {}
    # The secret of one that has expired locks nobody out.
    works = () if kind is APPLICATION else (or_(table.c.expires_at.is_(None), table.c.expires_at > now),)
    for batch in batches(sorted(ids)):
        query = select(table.c.id, client).where(table.c.zone_id == tenant_id, table.c.id.in_(batch), *works)
        clients.update((row[0], row[1]) for row in await conn.execute(query))
    seen = await _lately(conn, organization_id, tenant_id, now)
    if seen is None:
        return set(clients)
    standing = await _standing_for(conn, tenant_id, set(clients.values()), now)
    applications = {application_id for application_id, _ in seen}
    if kind is APPLICATION:
        return {one for one, client_id in clients.items() if client_id in applications | standing}
    used_by = {credential_id for _, credential_id in seen}
    # Of which credential it was that is not known, each may be it.
    unknown = {application_id for application_id, credential_id in seen if credential_id is None}
    unknown |= standing - applications
    return {one for one, client_id in clients.items() if one in used_by or client_id in unknown}


async def _standing_for(conn: AsyncConnection, zone_id: str, clients: set[str], now: datetime) -> set[str]:
    """Those of these applications that have sessions or refresh tokens which still stand."""
    found: set[str] = set()
    for table in (sessions, refresh_families):
        for batch in batches(sorted(clients)):
            query = select(table.c.application_id).where(
                table.c.zone_id == zone_id, table.c.application_id.in_(batch), *_standing(table, now)
            )
            found.update(await conn.scalars(query.distinct()))
    return found


async def _lately(
    conn: AsyncConnection, organization_id: str, zone_id: str, now: datetime
) -> set[tuple[str, str | None]] | None:
    """Which applications got tokens or proved themselves, each with the credential, if that is known.

    None where there was more than is looked through.
    """
    recent = (
        select(token_events.c.application_id, token_events.c.credential_id, token_events.c.outcome)
        .where(
            token_events.c.organization_id == organization_id,
            token_events.c.zone_id == zone_id,
            token_events.c.at > now - USED_WITHIN,
        )
        .order_by(desc(token_events.c.at))
        .limit(MOST_EVENTS)
        .subquery()
    )
    if await conn.scalar(select(func.count()).select_from(recent)) == MOST_EVENTS:
        return None
    keys = TABLES[APPLICATION_CREDENTIAL.name]
    proving = select(keys.c.id).where(keys.c.zone_id == zone_id, keys.c.type != CredentialType.PUBLIC.value)
    # What was refused to an application, or ended by it, it has asked for: unless anybody could in its name.
    used = recent.c.outcome.in_(("issued", PROVED)) | recent.c.credential_id.in_(proving)
    query = select(recent.c.application_id, recent.c.credential_id).distinct()
    rows = await conn.execute(query.where(used, recent.c.application_id.is_not(None)))
    return {(application_id, credential_id) for application_id, credential_id in rows}

"""The former issuers of zones, who still asks there, and which sessions know which of them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import String, cast, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.zone_addresses import FormerIssuer
from runtime.storage.sql.batches import among
from runtime.storage.sql.organization_tables import zone_address_uses as _uses
from runtime.storage.sql.organization_tables import zone_addresses as _addresses
from runtime.storage.sql.session_tables import session_issuers as _told
from runtime.storage.sql.tables import METADATA, TABLES

_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
_people = TABLES["OrganizationUser"]
_users = TABLES["User"]
_providers = TABLES["Provider"]
_resources = TABLES["Resource"]
_credentials = METADATA.tables["user_credentials"]


@dataclass(frozen=True, slots=True)
class AddressUse:
    """Who asked at a former address, and when last.

    Attributes:
        client_id: of the client that has proved who it is; empty for a request that proves nothing.
    """

    issuer: str
    endpoint: str
    client_id: str
    used_at: datetime


async def former(conn: AsyncConnection, zone_id: str) -> tuple[FormerIssuer, ...]:
    """The issuers that a zone had before, the oldest first, and those that have ended, too."""
    rows = await conn.execute(
        select(_addresses.c.issuer, _addresses.c.moved_at, _addresses.c.ends_at)
        .where(_addresses.c.zone_id == zone_id)
        .order_by(_addresses.c.moved_at, _addresses.c.issuer)
    )
    return tuple(FormerIssuer(row.issuer, row.moved_at, row.ends_at) for row in rows)


async def add(conn: AsyncConnection, zone_id: str, issuer: FormerIssuer) -> None:
    """Keep an issuer that the zone has had until now."""
    values = {"moved_at": issuer.moved_at, "ends_at": issuer.ends_at, "has_ended": False}
    made = _INSERT[conn.dialect.name](_addresses).values(zone_id=zone_id, issuer=issuer.issuer, **values)
    await conn.execute(
        made.on_conflict_do_update(index_elements=[_addresses.c.zone_id, _addresses.c.issuer], set_=values)
    )


async def take_back(conn: AsyncConnection, zone_id: str, issuer: str) -> None:
    """Forget an issuer as a former one: the zone has it again."""
    await conn.execute(
        delete(_addresses).where(_addresses.c.zone_id == zone_id, _addresses.c.issuer == issuer)
    )


async def end(conn: AsyncConnection, zone_id: str, issuer: str, *, ends_at: datetime) -> None:
    """Answer an address no more; it stays on record."""
    await conn.execute(
        update(_addresses)
        .where(_addresses.c.zone_id == zone_id, _addresses.c.issuer == issuer)
        .values(ends_at=ends_at, has_ended=True)
    )


async def due(conn: AsyncConnection, *, now: datetime, limit: int) -> list[tuple[str, str, datetime]]:
    """Zone, issuer and end of addresses whose time is over, and which nobody has recorded as ended."""
    rows = await conn.execute(
        select(_addresses.c.zone_id, _addresses.c.issuer, _addresses.c.ends_at)
        .where(_addresses.c.ends_at <= now, _addresses.c.has_ended.is_(False))
        .order_by(_addresses.c.ends_at, _addresses.c.zone_id)
        .limit(limit)
    )
    return [(row.zone_id, row.issuer, row.ends_at) for row in rows]


async def record_use(
    conn: AsyncConnection, zone_id: str, issuer: str, endpoint: str, client_id: str, *, now: datetime
) -> None:
    """Keep that somebody asked at a former address."""
    key = {"zone_id": zone_id, "issuer": issuer, "endpoint": endpoint, "client_id": client_id}
    made = _INSERT[conn.dialect.name](_uses).values(**key, used_at=now)
    await conn.execute(
        made.on_conflict_do_update(index_elements=[_uses.c[name] for name in key], set_={"used_at": now})
    )


async def uses(conn: AsyncConnection, zone_id: str) -> list[AddressUse]:
    """Who asked at the former addresses of a zone, the latest first."""
    rows = await conn.execute(
        select(_uses.c.issuer, _uses.c.endpoint, _uses.c.client_id, _uses.c.used_at)
        .where(_uses.c.zone_id == zone_id)
        .order_by(_uses.c.used_at.desc(), _uses.c.endpoint, _uses.c.client_id)
    )
    return [AddressUse(*row) for row in rows]


async def tell_session(conn: AsyncConnection, zone_id: str, session_id: str, issuer: str) -> None:
    """Keep which issuer the client of a session was told last."""
    made = _INSERT[conn.dialect.name](_told).values(zone_id=zone_id, session_id=session_id, issuer=issuer)
    await conn.execute(
        made.on_conflict_do_update(
            index_elements=[_told.c.zone_id, _told.c.session_id], set_={"issuer": issuer}
        )
    )


async def told_to(conn: AsyncConnection, zone_id: str, session_ids: Collection[str]) -> dict[str, str]:
    """Session id -> the issuer that its client was told last, where that is on record."""
    rows = await conn.execute(
        select(_told.c.session_id, _told.c.issuer).where(
            _told.c.zone_id == zone_id, among(_told.c.session_id, session_ids)
        )
    )
    return {row.session_id: row.issuer for row in rows}


# --- what goes by the issuer of a zone elsewhere in the service


async def rename_accounts(conn: AsyncConnection, issuer: str, new: str) -> None:
    """Have the accounts of a home zone known by its new issuer, in every organization that they act for."""
    for column in (_people.c.account_issuer, _people.c.source):
        await conn.execute(update(_people).where(column == issuer).values({column.name: new}))
    # Users that stand in for an account of another organization: no provider signs them in.
    of_accounts = (_users.c.issuer == issuer, _users.c.provider_id.is_(None))
    await conn.execute(update(_users).where(*of_accounts).values(issuer=new))


async def providers_of(conn: AsyncConnection, issuer: str) -> Sequence[tuple[str, str]]:
    """Zone id and identifier of the providers, in any zone, whose identifier or issuer that is."""
    rows = await conn.execute(
        select(_providers.c.zone_id, _providers.c.identifier, _providers.c.protocols)
        .where(
            _providers.c.type == "external",
            or_(_providers.c.identifier == issuer, cast(_providers.c.protocols, String).contains(issuer)),
        )
        .order_by(_providers.c.zone_id, _providers.c.identifier)
    )
    return [
        (row.zone_id, row.identifier)
        for row in rows
        if issuer in (row.identifier, ((row.protocols or {}).get("oauth2") or {}).get("issuer"))
    ]


async def resource_identifiers(conn: AsyncConnection, zone_id: str) -> Sequence[str]:
    """The identifiers of a zone's resources."""
    found = await conn.scalars(select(_resources.c.identifier).where(_resources.c.zone_id == zone_id))
    return found.all()

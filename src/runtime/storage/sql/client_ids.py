"""Queries about the client ids of a zone: which credentials have one, and when each was last used."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from sqlalchemy import literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.domain.kinds.application import PasswordCredential
from runtime.storage.sql.batches import batches
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.tables import TABLES

_credentials = TABLES[APPLICATION_CREDENTIAL.name]
_IS_NO_WORKLOAD = _credentials.c.type != literal_column("'token'")  # as in the index, so that it is used


async def taken(conn: AsyncConnection, zone_id: str) -> set[str]:
    """Every client id of a zone."""
    rows = await conn.execute(
        select(_credentials.c.identifier).where(_credentials.c.zone_id == zone_id, _IS_NO_WORKLOAD)
    )
    return set(rows.scalars())


async def password_credentials(
    conn: AsyncConnection, zone_id: str, client_id: str
) -> Sequence[PasswordCredential]:
    """The password credentials with that client id, oldest first."""
    rows = await conn.execute(
        select(_credentials)
        .where(_credentials.c.zone_id == zone_id, _credentials.c.identifier == client_id, _IS_NO_WORKLOAD)
        .order_by(_credentials.c.created_at, _credentials.c.id)
    )
    found = map(converter(APPLICATION_CREDENTIAL).entity, rows)
    return [each for each in found if isinstance(each, PasswordCredential)]


async def close_gaps(conn: AsyncConnection, zone_id: str, client_ids: Collection[str]) -> None:
    """Give the first slot to the credential that is left with a client id, of each of these.

    Whatever has a client id has its first slot: so the uniqueness refuses it to everybody else.
    """
    for batch in batches(sorted(client_ids)):
        await conn.execute(
            update(_credentials)
            .where(
                _credentials.c.zone_id == zone_id,
                _credentials.c.identifier.in_(batch),
                _IS_NO_WORKLOAD,
                _credentials.c.slot > 0,
            )
            .values(slot=0)
        )


async def record_use(
    conn: AsyncConnection, zone_id: str, credential_id: str, *, now: datetime, every: timedelta
) -> None:
    """Note that a credential is in use, unless that was noted within *every*."""
    used = _credentials.c.last_used_at
    await conn.execute(
        update(_credentials)
        .where(
            _credentials.c.zone_id == zone_id,
            _credentials.c.id == credential_id,
            or_(used.is_(None), used <= now - every),
        )
        .values(last_used_at=now)
    )

"""Lookups and writes of many users of a zone at once, a batch of them in each statement."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.values import PrincipalType
from runtime.storage.sql.batches import batches
from runtime.storage.sql.tables import METADATA, TABLES

Subject = tuple[str, str]  # of an issuer: (issuer, subject)

_users, _assignments, _applications = TABLES["User"], TABLES["RoleAssignment"], TABLES["Application"]
_credentials = METADATA.tables["user_credentials"]
_invitees = METADATA.tables["group_invitees"]


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A way to sign in: a password, or a subject of a provider's issuer."""

    user_id: str
    type: str
    password_hash: str | None = None
    provider_id: str | None = None
    issuer: str | None = None
    subject: str | None = None


async def by_subjects(conn: AsyncConnection, zone_id: str, wanted: Collection[Subject]) -> dict[Subject, str]:
    """Which user each of these subjects signs in; nothing for a subject that is not known."""
    columns, found = _credentials.c, dict[Subject, str]()
    for batch in batches(sorted(wanted)):
        rows = await conn.execute(
            select(columns.issuer, columns.subject, columns.user_id).where(
                columns.zone_id == zone_id, tuple_(columns.issuer, columns.subject).in_(batch)
            )
        )
        found |= {(row.issuer, row.subject): row.user_id for row in rows}
    return found


async def with_passwords(conn: AsyncConnection, zone_id: str, addresses: Collection[str]) -> set[str]:
    """Those of the addresses, in lower case, that a user has who signs in with a password."""
    found: set[str] = set()
    for batch in batches(sorted(addresses)):
        address = func.lower(_users.c.email)
        found |= set(
            await conn.scalars(
                select(address)
                .join(
                    _credentials,
                    (_credentials.c.zone_id == _users.c.zone_id) & (_credentials.c.user_id == _users.c.id),
                )
                .where(_users.c.zone_id == zone_id, _credentials.c.type == "password", address.in_(batch))
            )
        )
    return found


async def awaited(conn: AsyncConnection, zone_id: str, addresses: Collection[str]) -> set[str]:
    """Those of the addresses, in lower case, for which a group, a role or an application waits."""
    found: set[str] = set()
    for batch in batches(sorted(addresses)):
        for column, *more in (
            (_invitees.c.email,),
            (_assignments.c.principal_id, _assignments.c.principal_type == PrincipalType.USER.value),
            (_applications.c.accountable_user_id,),
        ):
            there = column.table.c.zone_id == zone_id
            found |= set(await conn.scalars(select(column).where(there, column.in_(batch), *more)))
    return found


async def add_credentials(
    conn: AsyncConnection, zone_id: str, made: Sequence[NewCredential], *, now: datetime
) -> None:
    """Let users sign in, each in these ways."""
    for batch in batches(made):
        rows = [
            {
                "id": new_id(),
                "zone_id": zone_id,
                "created_at": now,
                "updated_at": now,
                **{name: getattr(each, name) for name in NewCredential.__slots__},
            }
            for each in batch
        ]
        await conn.execute(insert(_credentials), rows)

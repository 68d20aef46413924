"""Entities of kinds that no manifest describes, without anything secret."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import SERVICE_ACCOUNT
from runtime.storage.sql.batches import among
from runtime.storage.sql.organization_users import is_membership
from runtime.storage.sql.tables import TABLES, ownerships

_secrets = TABLES["Secret"]
_people = TABLES["OrganizationUser"]
_assignments = TABLES["RoleAssignment"]
_credentials = TABLES["ServiceAccountCredential"]


@dataclass(frozen=True, slots=True)
class UndescribableRecord:
    """One entity that no manifest can describe.

    Attributes:
        zone_id: None for what belongs to the organization.
        of: the id of what it was made for; None of what was made for its zone.
        person_id, role: of a member of a zone: the organization user, and what they may do there.
    """

    id: str
    zone_id: str | None
    name: str | None
    of: str | None = None
    person_id: str | None = None
    role: str | None = None


async def secrets(
    conn: AsyncConnection, organization_id: str, zone_ids: Collection[str], *, limit: int
) -> list[UndescribableRecord]:
    """Secrets in these zones; of too many, the oldest of each zone."""
    columns = _secrets.c
    turn = _turn(columns.zone_id, columns.created_at, columns.id)
    query = (
        select(columns.id, columns.zone_id, columns.name, columns.entity_id)
        .where(columns.organization_id == organization_id, among(columns.zone_id, zone_ids))
        .order_by(turn, columns.zone_id)
        .limit(limit)
    )
    return [
        UndescribableRecord(row.id, row.zone_id, row.name, row.entity_id) for row in await conn.execute(query)
    ]


async def members(
    conn: AsyncConnection, organization_id: str, home_zone_id: str, zone_ids: Collection[str], *, limit: int
) -> list[UndescribableRecord]:
    """Members of these zones, by address; of too many, the first of each zone."""
    columns = _assignments.c
    turn = _turn(columns.scope_id, columns.created_at, columns.id)
    query = (
        select(
            columns.id,
            columns.scope_id,
            columns.role_identifier,
            _people.c.email,
            _people.c.id.label("person_id"),
        )
        .join(_people, _people.c.zone_user_id == columns.principal_id)
        .where(
            columns.zone_id == home_zone_id,
            _people.c.organization_id == organization_id,
            is_membership(organization_id, home_zone_id, zone_ids),
        )
        .order_by(turn, columns.scope_id)
        .limit(limit)
    )
    return [
        UndescribableRecord(
            row.id, row.scope_id, row.email, person_id=row.person_id, role=row.role_identifier
        )
        for row in await conn.execute(query)
    ]


async def credentials(
    conn: AsyncConnection, organization_id: str, owner: str | None, *, limit: int
) -> list[UndescribableRecord]:
    """Credentials of the service accounts that an owner manages, or of all; of too many, each one's first."""
    columns = _credentials.c
    turn = _turn(columns.service_account_id, columns.created_at, columns.id)
    query = (
        select(columns.id, columns.name, columns.service_account_id)
        .where(columns.organization_id == organization_id)
        .order_by(turn, columns.service_account_id)
        .limit(limit)
    )
    if owner is not None:
        managed = select(ownerships.c.entity_id).where(
            ownerships.c.organization_id == organization_id,
            ownerships.c.kind == SERVICE_ACCOUNT.name,
            ownerships.c.owner == owner,
        )
        query = query.where(columns.service_account_id.in_(managed))
    return [
        UndescribableRecord(row.id, None, row.name, row.service_account_id)
        for row in await conn.execute(query)
    ]


def _turn(place: ColumnElement[str], *order: ColumnElement[object]) -> ColumnElement[int]:
    """The how manieth in its place: ordered by it, no place takes all that there is room for."""
    return func.row_number().over(partition_by=place, order_by=order)

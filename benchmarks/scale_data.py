"""Fills PostgreSQL with users, sessions, grants and consents, each a copy of a row that the service has made.

The database makes the rows itself: sending ten million of them would take longer than writing them. Foreign
keys are not checked, since every row is made with what it refers to; secondary indexes are made at the end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.tables import METADATA

RESOURCES = 10  # of each zone; a user has a grant for each
_ID = "'{1}' || lpad(to_hex({0}), 25, '0')"
_USER = _ID.format("z.first + n", "u")
_RESOURCE = "z.prefix || lpad(r::text, 3, '0')"
_PROVIDER, _APPLICATION = "z.prefix || 'pro'", "z.prefix || 'app'"
_CREATED = "timestamptz '2026-01-01' + (z.first + n) * interval '1 second'"
_IN_ZONE = {"zone_id": "z.zone_id", "organization_id": "z.organization_id"}
_NAMED = {"identifier": "'https://scale-' || {0} || '.example'", "slug": "'scale-' || {0}", "name": "{0}"}


@dataclass(frozen=True)
class FilledZone:
    """A zone and how many users it gets."""

    zone_id: str
    organization_id: str
    users: int


@dataclass(frozen=True)
class _Copies:
    """Rows of a table.

    Attributes:
        columns: column -> the expression that it has in place of the sample's value.
        each: for what there is a row, beside each zone `z`.
    """

    table: str
    columns: Mapping[str, str]
    each: str = ""


_USERS = "CROSS JOIN LATERAL generate_series(1, z.users) n"
_EACH_RESOURCE = f"CROSS JOIN generate_series(1, {RESOURCES}) r"


def _named(expression: str) -> dict[str, str]:
    return {name: template.format(expression) for name, template in _NAMED.items()}


_ALL = (
    _Copies("applications", {"id": _APPLICATION, **_named(_APPLICATION)}),
    _Copies("providers", {"id": _PROVIDER, **_named(_PROVIDER)}),
    _Copies("resources", {"id": _RESOURCE, **_named(_RESOURCE)}, _EACH_RESOURCE),
    _Copies(
        "users",
        {
            "id": _USER,
            "identifier": "'person-' || (z.first + n) || '@scale.example'",
            "email": "'person-' || (z.first + n) || '@scale.example'",
            "subject": "NULL",
            "issuer": "NULL",
            "created_at": _CREATED,
        },
        _USERS,
    ),
    _Copies(
        "subjects",
        {"key": "'scale-' || (z.first + n)", "holder_id": _USER, "identity": "NULL"},
        _USERS,
    ),
    _Copies(
        "consents",
        {
            "id": _USER,
            "user_id": _USER,
            "application_id": _APPLICATION,
            "resource_id": _RESOURCE.replace("r::text", "'1'"),
            "created_at": _CREATED,
        },
        _USERS,
    ),
    _Copies(
        "sessions",
        {
            "id": _USER,
            "user_id": _USER,
            "application_id": "NULL",
            "parent_id": "NULL",
            "browser_session_id": "NULL",
            "cookie_hash": "NULL",
            "created_at": _CREATED,
            "expires_at": "now() + interval '30 days'",
        },
        f"{_USERS} WHERE n % 2 = 0",
    ),
    _Copies(
        "delegated_grants",
        {
            "id": _ID.format(f"(z.first + n) * {RESOURCES} + r", "g"),
            "user_id": _USER,
            "resource_id": _RESOURCE,
            "provider_id": _PROVIDER,
            "status": "CASE WHEN (z.first + n + r) % 50 = 0 THEN 'revoked' ELSE 'active' END",
            "created_at": _CREATED,
        },
        f"{_USERS} {_EACH_RESOURCE}",
    ),
)
_ZONES = "zone_id text, organization_id text, first bigint, users bigint, prefix text"
_PREPARED = (
    "SET LOCAL session_replication_role = replica",
    "SET LOCAL maintenance_work_mem = '512MB'",
    f"CREATE TEMPORARY TABLE scale_zones ({_ZONES}) ON COMMIT DROP",
)
TABLES = tuple(each.table for each in _ALL)


async def fill(conn: AsyncConnection, sample_zone_id: str, zones: Sequence[FilledZone]) -> dict[str, int]:
    """Fill the zones; table -> how many rows that were. The tables are analyzed afterwards.

    Args:
        sample_zone_id: a zone that has at least one row of each of these tables.
    """
    for statement in _PREPARED:
        await conn.exec_driver_sql(statement)
    await _add_zones(conn, zones)
    indexes = await _drop_indexes(conn)
    made = {each.table: await _copy(conn, each, sample_zone_id) for each in _ALL}
    for statement in indexes:
        await conn.exec_driver_sql(statement)
    for name in TABLES:
        await conn.exec_driver_sql(f"ANALYZE {name}")
    return made


async def _add_zones(conn: AsyncConnection, zones: Sequence[FilledZone]) -> None:
    first = 0
    adding = text(
        "INSERT INTO scale_zones VALUES (:zone, :organization, :first, :users,"
        " 'scale' || lpad(CAST(:number AS text), 18, '0'))"
    )
    for number, zone in enumerate(zones):
        values: dict[str, Any] = {"zone": zone.zone_id, "organization": zone.organization_id}
        await conn.execute(adding, values | {"first": first, "users": zone.users, "number": str(number)})
        first += zone.users


async def _copy(conn: AsyncConnection, copies: _Copies, sample_zone_id: str) -> int:
    columns = [column.name for column in METADATA.tables[copies.table].columns]
    chosen = [copies.columns.get(name) or _IN_ZONE.get(name) or f"s.{name}" for name in columns]
    done = await conn.execute(
        text(
            f"INSERT INTO {copies.table} ({', '.join(columns)})"
            f" SELECT {', '.join(chosen)}"
            f" FROM (SELECT * FROM {copies.table} WHERE zone_id = :sample LIMIT 1) s"
            f" CROSS JOIN scale_zones z {copies.each}"
        ),
        {"sample": sample_zone_id},
    )
    return done.rowcount


async def _drop_indexes(conn: AsyncConnection) -> list[str]:
    """Drop the indexes that are of no constraint; the statements that make them again."""
    found = await conn.execute(
        text(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()"
            " AND tablename = ANY(:tables) AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ),
        {"tables": list(TABLES)},
    )
    indexes = list(found)
    for index in indexes:
        await conn.exec_driver_sql(f"DROP INDEX {index.indexname}")
    return [index.indexdef for index in indexes]

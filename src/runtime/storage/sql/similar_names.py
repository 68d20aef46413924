"""Finds what somebody may have meant by a name that nothing in a zone has: those beside it in an index."""

from collections.abc import Iterable
from difflib import get_close_matches

from sqlalchemy import Column, Select, Table, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, RESOURCE, USER, Kind
from runtime.storage.sql.tables import TABLES

# How many names on either side are compared, and how long one may be: comparing takes the product of both.
MOST_BESIDE = 50
MOST_CHARS = 128

_credentials = TABLES[APPLICATION_CREDENTIAL.name]
# What people name an object by, each with an index of the zone.
_COLUMNS: dict[str, tuple[str, ...]] = {
    APPLICATION.name: ("identifier",),
    APPLICATION_CREDENTIAL.name: ("identifier",),
    RESOURCE.name: ("identifier",),
    USER.name: ("identifier", "email"),
}


async def most_similar(
    conn: AsyncConnection, kinds: Iterable[Kind], name: str, *, zone_id: str
) -> str | None:
    """What an object of these kinds is called that is most like a name; None when none is like it.

    Of a zone with many objects, those that come just before and just after the name in the order of the
    database are looked at: they begin as it does.
    """
    if len(name) > MOST_CHARS:
        return None
    found: set[str] = set()
    for kind in kinds:
        table = TABLES[kind.name]
        for member in _COLUMNS[kind.name]:
            rows = await conn.execute(_beside(table, table.c[member], name, zone_id))
            found |= {row.name for row in rows if len(row.name) <= MOST_CHARS}
    close = get_close_matches(name, sorted(found), n=1)
    return close[0] if close else None


def _beside(table: Table, column: Column[str], name: str, zone_id: str) -> Select[tuple[str]]:
    in_zone = select(column.label("name")).where(table.c.zone_id == zone_id)
    if table is _credentials:  # of the others it is no client id
        in_zone = in_zone.where(table.c.type != "token")
    before = in_zone.where(column < name).order_by(column.desc()).limit(MOST_BESIDE).subquery()
    after = in_zone.where(column > name).order_by(column).limit(MOST_BESIDE).subquery()
    both = union_all(select(before.c.name), select(after.c.name)).subquery()
    return select(both.c.name)

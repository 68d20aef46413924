"""Ownership records: which configuration set manages an entity, and what it last applied."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Row, bindparam, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import ZONE, Kind
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.tables import TABLES, ownerships

_NAMES = (
    "zone_id",
    "kind",
    "entity_id",
    "owner",
    "name",
    "fields",
    "applied",
    "secret_versions",
    "secret_stamps",
    "source",
    "protect",
    "undelivered",
)
COLUMNS = [ownerships.c[name] for name in _NAMES]


@dataclass(frozen=True, slots=True)
class OwnershipRecord:
    """Who manages one entity from outside.

    Attributes:
        zone_id: None for zones and for what belongs to the organization.
        owner: the explicit name of a configuration set.
        name: the manifest's name, unique among the owner's of the kind in the zone.
        fields: dotted paths of the members that the owner wrote.
        applied: the values it last wrote, without secrets.
        secret_versions: path of a secret -> the version of its source.
        secret_stamps: path of a secret -> the stamp of what the owner wrote; none from before there were any.
        protect: refuse to delete the entity by changeset.
        source: of the changeset that wrote the record last: repository, ref, commit, CI run. `file` and
            `line` are the place of the manifest at that commit. No file is read by that name.
        undelivered: it has a secret that was shown once, and nobody has said that it arrived.
    """

    zone_id: str | None
    kind: str
    entity_id: str
    owner: str
    name: str
    fields: tuple[str, ...] = ()
    applied: dict[str, Any] = field(default_factory=dict)
    secret_versions: dict[str, str] = field(default_factory=dict)
    secret_stamps: dict[str, str] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    protect: bool = False
    undelivered: bool = False


def record_of(row: Row[Any]) -> OwnershipRecord:
    """A row of `COLUMNS` as a record, whose attributes stand in the same order."""
    zone_id, kind, entity_id, owner, name, fields, applied, versions, stamps, source, protect, undelivered = (
        tuple[Any, ...](row)
    )
    return OwnershipRecord(
        zone_id,
        kind,
        entity_id,
        owner,
        name,
        tuple(fields),
        applied,
        versions,
        stamps or {},
        source or {},
        protect,
        undelivered,
    )


async def zones_of_others(
    conn: AsyncConnection, organization_id: str, owner: str, names: Collection[str]
) -> set[str]:
    """The zones that other owners manage and this one has nothing in, but for those of these names."""
    columns = ownerships.c
    here = columns.organization_id == organization_id
    zones = select(columns.entity_id, columns.owner, columns.name).where(here, columns.kind == ZONE.name)
    others = {row[0] for row in await conn.execute(zones) if row[1] != owner and row[2] not in names}
    if not others:
        return others
    mine = (columns.owner == owner, columns.zone_id.is_not(None))
    return others - set(await conn.scalars(select(columns.zone_id).distinct().where(here, *mine)))


def stamp_of(sealed: bytes) -> str:
    """What tells one write of a secret from any other, also of the same one: it is sealed anew each time."""
    return sha256(sealed).hexdigest()[:32]


async def stamps(
    conn: AsyncConnection, kind: Kind, members: Collection[str], ids: Iterable[str]
) -> dict[str, dict[str, str]]:
    """The stamps of the secrets of these entities: entity -> member -> stamp."""
    table, names = TABLES[kind.name], sorted(members)
    found: dict[str, dict[str, str]] = {}
    for batch in batches(sorted(set(ids))):
        rows = await conn.execute(
            select(table.c.id, *(table.c[name] for name in names)).where(table.c.id.in_(batch))
        )
        for entity_id, *sealed in rows:
            pairs = zip(names, sealed, strict=True)
            found[entity_id] = {name: stamp_of(each) for name, each in pairs if each is not None}
    return found


async def of_kind(
    conn: AsyncConnection, organization_id: str, kind: Kind, zone_ids: Collection[str] | None = None
) -> dict[str, OwnershipRecord]:
    """The records of all entities of a kind, by entity; of some zones when these are given."""
    query = select(*COLUMNS).where(
        ownerships.c.organization_id == organization_id, ownerships.c.kind == kind.name
    )
    if zone_ids is not None:
        member = ownerships.c.zone_id if kind.zoned else ownerships.c.entity_id
        query = query.where(among(member, zone_ids))
    return {row.entity_id: record_of(row) for row in await conn.execute(query)}


async def of_entities(
    conn: AsyncConnection, organization_id: str, kind: Kind, ids: Iterable[str]
) -> dict[str, OwnershipRecord]:
    """The records of these entities of a kind, by entity."""
    found: dict[str, OwnershipRecord] = {}
    for batch in batches(sorted(set(ids))):
        rows = await conn.execute(
            select(*COLUMNS).where(
                ownerships.c.organization_id == organization_id,
                ownerships.c.kind == kind.name,
                ownerships.c.entity_id.in_(batch),
            )
        )
        found.update((row.entity_id, record_of(row)) for row in rows)
    return found


async def protected(conn: AsyncConnection, organization_id: str) -> list[OwnershipRecord]:
    """The records of everything in the organization that no changeset may delete."""
    rows = await conn.execute(
        select(*COLUMNS).where(
            ownerships.c.organization_id == organization_id, ownerships.c.protect.is_(True)
        )
    )
    return [record_of(row) for row in rows]


async def count_protected(conn: AsyncConnection, organization_id: str) -> int:
    """How many things there are in the organization that no changeset may delete."""
    query = select(func.count()).select_from(ownerships)
    found = await conn.scalar(
        query.where(ownerships.c.organization_id == organization_id, ownerships.c.protect.is_(True))
    )
    return int(found or 0)


async def with_names(
    conn: AsyncConnection, organization_id: str, kind: Kind, names: Iterable[str], *, owner: str
) -> list[OwnershipRecord]:
    """The records of a kind that have one of these names in an owner's manifests, in any zone."""
    found: list[OwnershipRecord] = []
    for batch in batches(sorted(set(names))):
        rows = await conn.execute(
            select(*COLUMNS).where(
                ownerships.c.organization_id == organization_id,
                ownerships.c.kind == kind.name,
                ownerships.c.owner == owner,
                ownerships.c.name.in_(batch),
            )
        )
        found.extend(record_of(row) for row in rows)
    return found


async def named(conn: AsyncConnection, zone_id: str, kind: Kind, name: str, *, limit: int) -> dict[str, str]:
    """The entities of a kind in a zone whose manifests have that name: entity -> owner."""
    columns = ownerships.c
    rows = await conn.execute(
        select(columns.entity_id, columns.owner)
        .where(columns.zone_id == zone_id, columns.kind == kind.name, columns.name == name)
        .order_by(columns.owner)
        .limit(limit)
    )
    return {row.entity_id: row.owner for row in rows}


async def drop(conn: AsyncConnection, organization_id: str, gone: Collection[tuple[str, str]]) -> None:
    """Drop the records of these (kind, entity) pairs."""
    columns = ownerships.c
    await conn.execute(
        delete(ownerships).where(
            columns.organization_id == bindparam("of_organization"),
            columns.kind == bindparam("of_kind"),
            columns.entity_id == bindparam("of_entity"),
        ),
        [
            {"of_organization": organization_id, "of_kind": kind, "of_entity": entity_id}
            for kind, entity_id in gone
        ],
    )


async def add(
    conn: AsyncConnection,
    organization_id: str,
    records: Sequence[OwnershipRecord],
    *,
    revision: int,
    now: datetime,
) -> None:
    """Keep these records; none of their entities has one."""
    await conn.execute(
        insert(ownerships),
        [
            {
                "organization_id": organization_id,
                "zone_id": record.zone_id,
                "kind": record.kind,
                "entity_id": record.entity_id,
                "owner": record.owner,
                "name": record.name,
                "fields": list(record.fields),
                "applied": record.applied,
                "secret_versions": record.secret_versions,
                "secret_stamps": record.secret_stamps,
                "source": record.source,
                "protect": record.protect,
                "undelivered": record.undelivered,
                "revision": revision,
                "updated_at": now,
            }
            for record in records
        ],
    )


async def give_up(
    conn: AsyncConnection, organization_id: str, kind: Kind, entity_id: str
) -> list[OwnershipRecord]:
    """Drop the record of what is archived, if it has one; it is returned. Its name is free again."""
    gone = await conn.execute(
        delete(ownerships)
        .where(
            ownerships.c.organization_id == organization_id,
            ownerships.c.kind == kind.name,
            ownerships.c.entity_id == entity_id,
        )
        .returning(*COLUMNS)
    )
    return [record_of(row) for row in gone]

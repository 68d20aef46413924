"""Queries of snapshots and changesets: entities with revisions and authors, and the changeset history."""

from collections.abc import AsyncGenerator, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Table,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound
from runtime.domain.kinds import POLICY, POLICY_SET, ZONE, Entity, Kind
from runtime.domain.kinds.values import OwnerType, PolicySetMode, PolicyTargetType, PrincipalType
from runtime.storage.sql.batches import BATCH, among, batches
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.filters import Within, parents
from runtime.storage.sql.paging import KeyColumn, Keyset, Page, Position, fetch, values_of
from runtime.storage.sql.tables import (
    TABLES,
    application_dependencies,
    audit_events,
    changesets,
    group_invitees,
    group_members,
    ownerships,
    policy_set_bindings,
)

_NEWEST_FIRST = Keyset(
    (KeyColumn(changesets.c.created_at, descending=True), KeyColumn(changesets.c.id, descending=True))
)


@dataclass(frozen=True, slots=True)
class CurrentRevision:
    """What is known of an entity before anything is done to it."""

    id: str
    zone_id: str | None
    revision: int
    owner_type: str
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class ChangesetRecord:
    """A changeset in history. `result` is its answer without what is shown once."""

    id: str
    organization_id: str
    owner: str
    plan_digest: str
    body_digest: str
    base_revision: int
    revision: int
    operations: int
    source: dict[str, Any]
    result: dict[str, Any]
    audit_first: int | None
    audit_last: int | None
    created_at: datetime
    created_by: str


# --- entities


async def stream(
    conn: AsyncConnection, kind: Kind, organization_id: str, zone_ids: Collection[str]
) -> AsyncGenerator[Entity]:
    """Every entity of a kind in these zones that can be planned; for zones themselves, these zones.

    Neither what is archived nor what users wrote for themselves.

    Kinds without a zone come for the whole organization. Ordered by zone, then age.
    """
    table, read = TABLES[kind.name], converter(kind).entity
    query = select(table).where(table.c.organization_id == organization_id, *_not_of_users(table))
    if kind.zoned:
        query = query.where(among(table.c.zone_id, zone_ids))
        query = query.order_by(table.c.zone_id, table.c.created_at, table.c.id)
    else:
        query = query.order_by(table.c.created_at, table.c.id)
    if kind is ZONE:
        query = query.where(among(table.c.id, zone_ids))
    if "archived_at" in table.c:
        query = query.where(table.c.archived_at.is_(None))
    async with conn.stream(query, execution_options={"yield_per": BATCH}) as result:
        async for rows in result.partitions():
            for row in rows:
                yield read(row)


def _not_of_users(table: Table) -> list[ColumnElement[bool]]:
    """The condition that a policy or a policy set is for a zone; none for other tables."""
    return [table.c.target_type == PolicyTargetType.ZONE.value] if "target_type" in table.c else []


async def zones(conn: AsyncConnection, organization_id: str) -> dict[str, str]:
    """The zones of an organization: id -> slug."""
    table = TABLES["Zone"]
    found = await conn.execute(
        select(table.c.id, table.c.slug).where(table.c.organization_id == organization_id)
    )
    return {row.id: row.slug for row in found}


async def platform_applications(conn: AsyncConnection, zone_ids: Collection[str]) -> set[str]:
    """The ids of the service's own applications in these zones."""
    table = TABLES["Application"]
    found = await conn.scalars(
        select(table.c.id).where(among(table.c.zone_id, zone_ids), table.c.owner_type == OwnerType.PLATFORM)
    )
    return set(found)


async def touch(conn: AsyncConnection, kind: Kind, entity_id: str, *, zone_id: str, revision: int) -> None:
    """Let an entity count as written in a revision in which only what it is connected to was."""
    table = TABLES[kind.name]
    await conn.execute(
        update(table).where(table.c.zone_id == zone_id, table.c.id == entity_id).values(revision=revision)
    )


async def slugs(conn: AsyncConnection, kind: Kind, *, within: Within) -> set[str]:
    """Every slug that is taken under these parents."""
    query = select(TABLES[kind.name].c.slug).where(*parents(kind, within))
    return {row[0] for row in await conn.execute(query)}


async def current_revisions(
    conn: AsyncConnection, kind: Kind, organization_id: str, ids: Iterable[str]
) -> dict[str, CurrentRevision]:
    """What stands under these ids in the organization, archived entities left out."""
    table = TABLES[kind.name]
    owner_type = [table.c.owner_type] if "owner_type" in table.c else []
    zone_id = [table.c.zone_id] if kind.zoned else []
    handle = [table.c[kind.handle].label("handle")] if kind.handle else []
    found: dict[str, CurrentRevision] = {}
    for batch in batches(sorted(set(ids))):
        query = select(table.c.id, table.c.revision, *zone_id, *owner_type, *handle).where(
            table.c.organization_id == organization_id, table.c.id.in_(batch)
        )
        if "archived_at" in table.c:
            query = query.where(table.c.archived_at.is_(None))
        for row in (await conn.execute(query)).mappings():
            found[row["id"]] = CurrentRevision(
                id=row["id"],
                zone_id=row.get("zone_id"),
                revision=row["revision"],
                owner_type=row.get("owner_type", "customer"),
                handle=row.get("handle"),
            )
    return found


async def made_since(
    conn: AsyncConnection,
    kind: Kind,
    organization_id: str,
    *,
    zone_id: str | None,
    handles: Iterable[str],
    since: int,
) -> dict[str, str]:
    """What has one of these handles and was written after a revision: handle -> id. Nothing archived."""
    table, found = TABLES[kind.name], {}
    handle = table.c[str(kind.handle)]
    within = [table.c.organization_id == organization_id, table.c.revision > since]
    if zone_id is not None:
        within.append(table.c.zone_id == zone_id)
    if "archived_at" in table.c:
        within.append(table.c.archived_at.is_(None))
    for batch in batches(sorted(set(handles))):
        rows = await conn.execute(select(handle, table.c.id).where(*within, handle.in_(batch)))
        found.update({row[0]: row[1] for row in rows})
    return found


async def applied_since(
    conn: AsyncConnection, organization_id: str, owner: str, revision: int
) -> ChangesetRecord | None:
    """The last changeset of an owner after a revision; None when there was none."""
    query = select(changesets).where(*_mine(organization_id, owner, None), changesets.c.revision > revision)
    row = (await conn.execute(query.order_by(changesets.c.revision.desc()).limit(1))).mappings().first()
    return ChangesetRecord(**row) if row else None


async def handles(conn: AsyncConnection, kind: Kind, wanted: Collection[str], *, zone_id: str) -> set[str]:
    """Those of the handles that something of the kind has in the zone."""
    handle = TABLES[kind.name].c[str(kind.handle)]
    found: set[str] = set()
    for batch in batches(sorted(wanted)):
        query = select(handle).where(*parents(kind, {"zone_id": zone_id}), handle.in_(batch))
        found.update(await conn.scalars(query))
    return found


async def handles_in_zones(
    conn: AsyncConnection, kind: Kind, wanted: Collection[str], zone_ids: Collection[str]
) -> set[tuple[str, str]]:
    """Those of the handles that something of the kind has in these zones: (zone, handle)."""
    table = TABLES[kind.name]
    handle, within = table.c[str(kind.handle)], among(table.c.zone_id, zone_ids)
    found: set[tuple[str, str]] = set()
    for batch in batches(sorted(wanted)):
        rows = await conn.execute(select(table.c.zone_id, handle).where(within, handle.in_(batch)))
        found.update((row[0], row[1]) for row in rows)
    return found


async def changed_in_zone(conn: AsyncConnection, kind: Kind, zone_id: str, since: int) -> list[str]:
    """The ids of some entities of a kind in a zone that were written after a revision.

    What sign-in writes has no revision: nobody plans it.
    """
    table = TABLES[kind.name]
    if "revision" not in table.c:
        return []
    since_then = (table.c.zone_id == zone_id, table.c.revision > since, *_not_of_users(table))
    query = select(table.c.id).where(*since_then).limit(20)
    return [row.id for row in await conn.execute(query)]


async def last_changes(
    conn: AsyncConnection, organization_id: str, ids: Collection[str]
) -> dict[str, Row[Any]]:
    """The newest audit record of each of these entities, of those that something was written with."""
    columns = audit_events.c
    newest = (
        select(func.max(columns.sequence))
        .where(
            columns.organization_id == organization_id,
            columns.entity_id.in_(sorted(ids)),
            columns.action.not_like("%.retrieve"),  # who has looked at a secret has written nothing
        )
        .group_by(columns.entity_id)
    )
    return await _audited(conn, organization_id, columns.sequence.in_(newest))


async def _audited(
    conn: AsyncConnection, organization_id: str, wanted: ColumnElement[bool]
) -> dict[str, Row[Any]]:
    told = ("entity_id", "at", "action", "actor_type", "actor_id", "changeset_id")
    found = await conn.execute(
        select(*(audit_events.c[name] for name in told)).where(
            audit_events.c.organization_id == organization_id, wanted
        )
    )
    return {row.entity_id: row for row in found}


async def written_by_others(
    conn: AsyncConnection, kind: Kind, organization_id: str, zone_ids: Collection[str]
) -> dict[str, Row[Any]]:
    """The newest audit record of each entity of a kind that somebody has written since its owner did.

    And of each that has no owner; what the service owns is left out.
    """
    table, records = TABLES[kind.name], ownerships.c
    mine = (
        records.organization_id == organization_id,
        records.kind == kind.name,
        records.entity_id == table.c.id,
    )
    query = (
        select(table.c.id, records.updated_at)
        .outerjoin(ownerships, and_(*mine))
        .where(
            table.c.organization_id == organization_id,
            or_(records.entity_id.is_(None), table.c.revision > records.revision),
        )
    )
    if kind.zoned or kind is ZONE:
        query = query.where(among(table.c["zone_id" if kind.zoned else "id"], zone_ids))
    if "owner_type" in table.c:
        query = query.where(table.c.owner_type != OwnerType.PLATFORM.value)
    applied = {row.id: row.updated_at for row in await conn.execute(query)}
    found: dict[str, Row[Any]] = {}
    for batch in batches(sorted(applied)):
        found.update(await last_changes(conn, organization_id, batch))
    return {one: last for one, last in found.items() if applied[one] is None or last.at > applied[one]}


# --- what a manifest says of an entity besides its members


async def dependencies(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, list[str]]:
    """Application -> the resources it depends on."""
    columns = application_dependencies.c
    query = select(columns.application_id, columns.resource_id).where(among(columns.zone_id, zone_ids))
    return _grouped(await conn.execute(query.order_by(columns.application_id, columns.resource_id)))


async def member_emails(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, list[str]]:
    """Group -> the addresses of its members and of those invited to it, in lower case."""
    users, members, invited = TABLES["User"], group_members.c, group_invitees.c
    joined = select(members.group_id, func.lower(users.c.email)).where(
        among(members.zone_id, zone_ids), users.c.zone_id == members.zone_id, users.c.id == members.user_id
    )
    pending = select(invited.group_id, invited.email).where(among(invited.zone_id, zone_ids))
    found = _grouped(await conn.execute(joined.union(pending)))
    return {group_id: sorted(emails) for group_id, emails in found.items()}


async def assigned_users(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, str]:
    """The users of these zones who hold a role themselves: id -> address."""
    users, assignments = TABLES["User"], TABLES["RoleAssignment"]
    query = select(users.c.id, users.c.email).where(
        among(assignments.c.zone_id, zone_ids),
        assignments.c.principal_type == PrincipalType.USER.value,
        users.c.zone_id == assignments.c.zone_id,
        users.c.id == assignments.c.principal_id,
    )
    return {row[0]: row[1] for row in await conn.execute(query)}


async def latest_texts(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, str]:
    """Policy -> the text of its latest version."""
    policies, versions = TABLES[POLICY.name], TABLES["PolicyVersion"]
    query = select(policies.c.id, versions.c.cedar_raw).where(
        among(policies.c.zone_id, zone_ids),
        versions.c.zone_id == policies.c.zone_id,
        versions.c.id == policies.c.latest_version_id,
    )
    return {row[0]: row[1] for row in await conn.execute(query)}


async def set_contents(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Policy set -> the entries of its latest version."""
    sets, versions = TABLES[POLICY_SET.name], TABLES["PolicySetVersion"]
    query = select(sets.c.id, versions.c.manifest).where(
        among(sets.c.zone_id, zone_ids),
        versions.c.zone_id == sets.c.zone_id,
        versions.c.id == sets.c.latest_version_id,
    )
    return {row[0]: row[1]["entries"] for row in await conn.execute(query)}


async def active_sets(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, str]:
    """The policy sets that decide in these zones: set -> its bound version."""
    columns = policy_set_bindings.c
    query = select(columns.policy_set_id, columns.policy_set_version_id).where(
        among(columns.zone_id, zone_ids), columns.mode == PolicySetMode.ACTIVE.value
    )
    return {row[0]: row[1] for row in await conn.execute(query)}


# --- history


async def find_by_plan(
    conn: AsyncConnection, organization_id: str, owner: str, plan_digest: str
) -> ChangesetRecord | None:
    """The changeset that applied a plan of an owner; None when none has."""
    query = select(changesets).where(
        *_mine(organization_id, owner, None), changesets.c.plan_digest == plan_digest
    )
    row = (await conn.execute(query)).mappings().one_or_none()
    return ChangesetRecord(**row) if row else None


async def find(conn: AsyncConnection, organization_id: str, changeset_id: str) -> ChangesetRecord:
    """The changeset with that id. Raises NotFound."""
    query = select(changesets).where(
        changesets.c.organization_id == organization_id, changesets.c.id == changeset_id
    )
    row = (await conn.execute(query)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"there is no changeset `{changeset_id}`")
    return ChangesetRecord(**row)


async def insert_changeset(conn: AsyncConnection, applied: ChangesetRecord) -> None:
    """Put a changeset into history."""
    await conn.execute(
        insert(changesets), {name: getattr(applied, name) for name in ChangesetRecord.__dataclass_fields__}
    )


async def history(
    conn: AsyncConnection,
    organization_id: str,
    *,
    limit: int,
    after: Position | None = None,
    before: Position | None = None,
    owner: str | None = None,
    created_by: str | None = None,
) -> Page[ChangesetRecord]:
    """One page of the changesets that were applied, newest first.

    Args:
        owner, created_by: only what that owner has applied, and that caller.
    """
    return await fetch(
        conn,
        select(changesets).where(*_mine(organization_id, owner, created_by)),
        _NEWEST_FIRST,
        lambda row: ChangesetRecord(**row._mapping),
        limit=limit,
        after=values_of(after),
        before=values_of(before),
    )


async def count(
    conn: AsyncConnection, organization_id: str, *, owner: str | None = None, created_by: str | None = None
) -> int:
    """How many changesets there are in an organization's history, narrowed as `history` is."""
    query = select(func.count()).select_from(changesets)
    return int((await conn.scalar(query.where(*_mine(organization_id, owner, created_by)))) or 0)


async def forget_changesets(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget receipts from before that instant, but the newest of each owner; how many, *limit* at most.

    By the newest an apply is told that another run of the same configuration has been there meanwhile.
    """
    key, newer = (changesets.c.organization_id, changesets.c.id), changesets.alias("newer")
    has_newer = exists().where(
        newer.c.organization_id == changesets.c.organization_id,
        newer.c.owner == changesets.c.owner,
        newer.c.revision > changesets.c.revision,
    )
    old = select(*key).where(changesets.c.created_at < before, has_newer)
    chosen = old.order_by(changesets.c.created_at).limit(limit).subquery()
    return (await conn.execute(delete(changesets).where(tuple_(*key).in_(chosen.select())))).rowcount


def _mine(organization_id: str, owner: str | None, created_by: str | None) -> list[ColumnElement[bool]]:
    wanted = {"organization_id": organization_id, "owner": owner, "created_by": created_by}
    return [changesets.c[name] == value for name, value in wanted.items() if value is not None]


def _grouped(rows: Iterable[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row[1])
    return found

"""Snapshots: every configuration entity that the caller may read, with who owns it, as a stream of lines."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import orjson

from runtime.domain.errors import NotFound
from runtime.domain.kinds import ALL, APPLICATION_CREDENTIAL, POLICY_SET, ZONE, Entity, Kind, Verb
from runtime.domain.kinds.marks import Mark, members
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OwnerType, rfc3339
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.audit import SUBJECT as AUDIT
from runtime.services.management.snapshots.active_policies import in_force_of, last_change
from runtime.services.management.snapshots.entity_specs import extras_of, is_named, spec_of
from runtime.services.management.snapshots.missing_names import MissingNames, missing_names
from runtime.services.management.snapshots.undescribable import undescribable_in
from runtime.services.management.unit_of_work import UnitOfWork, read_only
from runtime.storage.sql import changes, organization_revision, ownership, tombstones

KINDS = tuple(kind for kind in ALL if kind.manifest)
_LINES_A_CHUNK = 200
_FORM = 7  # one more whenever lines say something new: who keeps an older snapshot is sent the whole again


@dataclass(frozen=True)
class OpenSnapshot:
    """An open snapshot: its revision, and its lines in chunks, to be read while it is open."""

    organization_id: str
    label: str
    revision: int
    missing_names: MissingNames
    chunks: AsyncIterator[bytes]

    @property
    def etag(self) -> str:
        """The entity tag: the form of the lines, the revision, and the names that policies name in vain.

        Those have a part of their own: users come by signing in, which makes no revision.
        """
        names = orjson.dumps(self.missing_names, option=orjson.OPT_SORT_KEYS)
        more = f".{sha256(names).hexdigest()[:16]}" if self.missing_names else ""
        return f'"{_FORM}.{self.revision}{more}"'


@dataclass(frozen=True)
class SnapshotFilter:
    """What a snapshot is asked to hold, of what the caller may read.

    Attributes:
        zones: ids or slugs of zones; empty for all.
        owner: a configuration. Then it is all zones, and what is in those that have to do with it: it manages
            them, or something in them, or nobody manages them, or they are among *zones*, which may name them
            as their owners do, too.
    """

    zones: Collection[str] = ()
    owner: str | None = None


@asynccontextmanager
async def open_snapshot(
    services: Services, caller: Caller, organization: str, wanted: SnapshotFilter, request_id: str
) -> AsyncIterator[OpenSnapshot]:
    """The organization at one instant.

    Args:
        organization: id or label.
    Raises: NotFound, for an organization or a zone that the caller does not see; Forbidden.
    """
    async with read_only(services, caller, request_id, apart=True) as unit:
        found = await entities.organization_of(unit, organization)
        entities.require(unit, "snapshot", Verb.RETRIEVE, {})
        revision = await organization_revision.revision(unit.conn, found.id)
        zones = await _zones(unit, found.id, wanted)
        missing = await _missing_names(unit, zones.inside)
        async with aclosing(_chunks(unit, found, revision, zones, wanted.owner, missing)) as chunks:
            yield OpenSnapshot(found.id, found.label, revision, missing, chunks)


async def _missing_names(unit: UnitOfWork, zone_ids: Collection[str]) -> MissingNames:
    """What is told to those who see the policies, of the kinds that they see."""
    if not _sees(unit, POLICY_SET):
        return {}
    return await missing_names(unit, zone_ids, [kind for kind in ALL if _sees(unit, kind)])


@dataclass(frozen=True)
class _Zones:
    """The zones of a snapshot, id -> slug: all of them, and those that it has the inside of."""

    told: Mapping[str, str]
    inside: Mapping[str, str]


async def _zones(unit: UnitOfWork, organization_id: str, wanted: SnapshotFilter) -> _Zones:
    found = await changes.zones(unit.conn, organization_id)
    known = {zone_id: slug for zone_id, slug in found.items() if unit.caller.scope.reaches(zone_id)}
    if wanted.owner is not None:
        others = await ownership.zones_of_others(unit.conn, organization_id, wanted.owner, wanted.zones)
        inside = {
            zone_id: slug
            for zone_id, slug in known.items()
            if zone_id not in others or not {zone_id, slug}.isdisjoint(wanted.zones)
        }
        return _Zones(known, inside)
    if not wanted.zones:
        return _Zones(known, known)
    by_slug = {slug: zone_id for zone_id, slug in known.items()}
    chosen = {}
    for zone in wanted.zones:
        zone_id = zone if zone in known else by_slug.get(zone)
        if zone_id is None:
            raise NotFound(f"there is no Zone `{zone}`")
        chosen[zone_id] = known[zone_id]
    return _Zones(chosen, chosen)


async def _chunks(
    unit: UnitOfWork,
    organization: Organization,
    revision: int,
    zones: _Zones,
    owner: str | None,
    missing: MissingNames,
) -> AsyncGenerator[bytes]:
    organization_id, label = organization.id, organization.label
    head = {
        "type": "snapshot",
        "organization_id": organization_id,
        "label": label,
        "revision": revision,
        "names_writers": _reads_audit(unit),
        "sees_all": unit.caller.scope.zones is None and all(_sees(unit, kind) for kind in KINDS),
    }
    lines = [orjson.dumps(head)]
    count = 0
    async with aclosing(_told(unit, organization_id, zones, missing)) as told:
        async for line in told:
            lines.append(line)
            count += 1
            if len(lines) == _LINES_A_CHUNK:
                yield b"\n".join(lines) + b"\n"
                lines.clear()
    more = await undescribable_in(unit, organization, zones.inside, owner, names=_reads_audit(unit))
    lines.append(orjson.dumps({"type": "end", "count": count, **more}))
    yield b"\n".join(lines) + b"\n"


async def _told(
    unit: UnitOfWork, organization_id: str, zones: _Zones, missing: MissingNames
) -> AsyncGenerator[bytes]:
    """What there is, kind by kind, and what is gone."""
    for kind in KINDS:
        if _sees(unit, kind):
            slugs = zones.told if kind is ZONE else zones.inside
            async with aclosing(_lines(unit, kind, organization_id, slugs, missing)) as lines:
                async for line in lines:
                    yield line
    async for line in _gone(unit, organization_id, zones.inside):
        yield line


def _sees(unit: UnitOfWork, kind: Kind) -> bool:
    return permissions.allows(unit.caller.roles_in(None), kind.operations, Verb.LIST)


def _reads_audit(unit: UnitOfWork) -> bool:
    return permissions.allows(unit.caller.roles_in(None), AUDIT, Verb.LIST)


async def _gone(unit: UnitOfWork, organization_id: str, slugs: Mapping[str, str]) -> AsyncGenerator[bytes]:
    """What is gone and was managed; by whom is told to those who may read the audit log."""
    names = _reads_audit(unit)
    seen = {kind.name for kind in KINDS if _sees(unit, kind)}
    for each in await tombstones.in_zones(unit.conn, organization_id, slugs):
        if each.kind in seen and unit.caller.scope.reaches(
            each.entity_id if each.kind == ZONE.name else each.zone_id
        ):
            yield orjson.dumps(_tombstone(each, names=names))


def _tombstone(gone: tombstones.TombstoneRecord, *, names: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "tombstone",
        "kind": gone.kind,
        "id": gone.entity_id,
        "zone_id": gone.zone_id,
        "zone": gone.zone,
        "owner": gone.owner,
        "name": gone.name,
        "revision": gone.revision,
        "deleted_at": rfc3339(gone.deleted_at),
    }
    if names:
        told["actor"] = {"type": gone.actor_type, "id": gone.actor_id}
        told["changeset_id"] = gone.changeset_id
    return told


async def _lines(
    unit: UnitOfWork, kind: Kind, organization_id: str, slugs: Mapping[str, str], missing: MissingNames
) -> AsyncGenerator[bytes]:
    conn, names = unit.conn, _reads_audit(unit)
    whole = None if not kind.zoned and kind is not ZONE else slugs
    records = await ownership.of_kind(conn, organization_id, kind, whole)
    extras = await extras_of(conn, kind, slugs)
    platform = await changes.platform_applications(conn, slugs) if kind is APPLICATION_CREDENTIAL else ()
    in_force = await in_force_of(unit, kind, slugs, names=names)
    written = await changes.written_by_others(conn, kind, organization_id, slugs) if names else {}
    async with aclosing(changes.stream(conn, kind, organization_id, slugs)) as found:
        async for entity in found:
            values = entity.__dict__  # a model takes long to say that it lacks a member
            if values.get("scope_id") is not None:
                continue  # a role limited to a zone: no manifest can say it
            told = line(kind, entity, slugs, records.get(entity.id), extras(entity))
            if values.get("application_id") in platform:
                told["owner_type"] = OwnerType.PLATFORM
            if entity.id in in_force:
                told["in_force"] = in_force[entity.id]
                if kind is POLICY_SET and (lacking := missing.get(told["zone_id"])):
                    told["in_force"]["missing_names"] = lacking
            if (last := written.get(entity.id)) is not None:
                told["last_change"] = last_change(last)
            yield orjson.dumps(told)


def line(
    kind: Kind,
    entity: Entity,
    slugs: Mapping[str, str],
    record: ownership.OwnershipRecord | None,
    extras: Mapping[str, Any],
) -> dict[str, Any]:
    """One entity as a line of the stream."""
    values = entity.__dict__
    zone_id = values.get("zone_id")
    found: dict[str, Any] = {
        "type": "entity",
        "kind": kind.name,
        "id": entity.id,
        "zone_id": zone_id,
        "zone": slugs[zone_id] if zone_id is not None else None,
        "handle": values[kind.handle] if kind.handle and is_named(kind, type(entity)) else None,
        "owner_type": values.get("owner_type", OwnerType.CUSTOMER),
        "spec": spec_of(kind, entity, extras),
        "ownership": None if record is None else _ownership(record),
        "revision": entity.revision,
    }
    if sealed := [name for name in _sealed(type(entity)) if values[name] is not None]:
        found["secrets_set"] = sealed
        if overwritten := _overwritten(record, {name: values[name] for name in sealed}):
            found["secrets_overwritten"] = overwritten
    return found


def _overwritten(record: ownership.OwnershipRecord | None, sealed: Mapping[str, bytes]) -> list[str]:
    """The secrets that somebody has written since their owner did."""
    stamps = record.secret_stamps if record else {}
    return [
        name for name, value in sealed.items() if stamps.get(name, "") not in ("", ownership.stamp_of(value))
    ]


def _ownership(record: ownership.OwnershipRecord) -> dict[str, Any]:
    return {
        "owner": record.owner,
        "name": record.name,
        "fields": record.fields,
        "applied": record.applied,
        "secret_versions": record.secret_versions,
        "source": record.source,
        "protect": record.protect,
        "undelivered": record.undelivered,
    }


@cache
def _sealed(model: type[Entity]) -> tuple[str, ...]:
    return tuple(name for name, member in members(model).items() if member.has(Mark.SEALED))

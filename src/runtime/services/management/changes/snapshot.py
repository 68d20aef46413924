"""Snapshots: every configuration entity that the caller may read, with who owns it, as a stream of lines."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.answers import plain
from runtime.contract.bodies import settable
from runtime.contract.manifests import spec_members
from runtime.domain.errors import NotFound
from runtime.domain.kinds import (
    ALL,
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    POLICY,
    POLICY_SET,
    ROLE_ASSIGNMENT,
    ZONE,
    Entity,
    Kind,
    Verb,
)
from runtime.domain.kinds.marks import Mark, members, part_of
from runtime.domain.kinds.role import RoleAssignment
from runtime.domain.kinds.values import OwnerType, PrincipalType
from runtime.domain.kinds.zone import ADDRESSES, Zone
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.unit import Unit, reading_unit
from runtime.services.parts import Parts
from runtime.storage.sql import changes, ledger, ownership

KINDS = tuple(kind for kind in ALL if kind.manifest)
_LINES_A_CHUNK = 200

Extras = Callable[[Entity], dict[str, Any]]


@dataclass(frozen=True)
class Snapshot:
    """An open snapshot: its revision, and its lines in chunks, to be read while it is open."""

    organization_id: str
    label: str
    revision: int
    chunks: AsyncIterator[bytes]

    @property
    def etag(self) -> str:
        """The entity tag: the revision."""
        return f'"{self.revision}"'


@asynccontextmanager
async def open_snapshot(
    parts: Parts, caller: Caller, organization: str, zones: Collection[str], request_id: str
) -> AsyncIterator[Snapshot]:
    """The organization at one instant.

    Args:
        organization: id or label.
        zones: ids or slugs of the zones that are wanted; empty for all.
    Raises: NotFound, for an organization or a zone that the caller does not see; Forbidden.
    """
    async with reading_unit(parts, caller, request_id) as unit:
        found = await entities.organization_of(unit, organization)
        entities.require(unit, "snapshot", Verb.RETRIEVE, {})
        revision = await ledger.revision(unit.conn, found.id)
        slugs = await _wanted(unit, found.id, zones)
        yield Snapshot(found.id, found.label, revision, _chunks(unit, found.id, found.label, revision, slugs))


async def _wanted(unit: Unit, organization_id: str, zones: Collection[str]) -> dict[str, str]:
    """The zones of the snapshot: id -> slug."""
    known = await changes.zones(unit.conn, organization_id)
    if not zones:
        return known
    by_slug = {slug: zone_id for zone_id, slug in known.items()}
    wanted = {}
    for zone in zones:
        zone_id = zone if zone in known else by_slug.get(zone)
        if zone_id is None:
            raise NotFound(f"there is no Zone `{zone}`")
        wanted[zone_id] = known[zone_id]
    return wanted


async def _chunks(
    unit: Unit, organization_id: str, label: str, revision: int, slugs: Mapping[str, str]
) -> AsyncIterator[bytes]:
    lines = [
        orjson.dumps(
            {"type": "snapshot", "organization_id": organization_id, "label": label, "revision": revision}
        )
    ]
    count = 0
    for kind in KINDS:
        if not permissions.allows(unit.caller.roles_in(None), kind.operations, Verb.LIST):
            continue
        async for line in _lines(unit.conn, kind, organization_id, slugs):
            lines.append(line)
            count += 1
            if len(lines) == _LINES_A_CHUNK:
                yield b"\n".join(lines) + b"\n"
                lines.clear()
    lines.append(orjson.dumps({"type": "end", "count": count}))
    yield b"\n".join(lines) + b"\n"


async def _lines(
    conn: AsyncConnection, kind: Kind, organization_id: str, slugs: Mapping[str, str]
) -> AsyncIterator[bytes]:
    whole = None if not kind.zoned and kind is not ZONE else slugs
    records = await ownership.of_kind(conn, organization_id, kind, whole)
    extras = await extras_of(conn, kind, slugs)
    platform = await changes.platform_applications(conn, slugs) if kind is APPLICATION_CREDENTIAL else ()
    async for entity in changes.stream(conn, kind, organization_id, slugs):
        if getattr(entity, "scope_id", None) is not None:
            continue  # a role limited to a zone: no manifest can say it
        told = line(kind, entity, slugs, records.get(entity.id), extras(entity))
        if getattr(entity, "application_id", None) in platform:
            told["owner_type"] = OwnerType.PLATFORM
        yield orjson.dumps(told)


def line(
    kind: Kind,
    entity: Entity,
    slugs: Mapping[str, str],
    record: ownership.Record | None,
    extras: Mapping[str, Any],
) -> dict[str, Any]:
    """One entity as a line of the stream."""
    zone_id = getattr(entity, "zone_id", None)
    values = entity.__dict__
    found: dict[str, Any] = {
        "type": "entity",
        "kind": kind.name,
        "id": entity.id,
        "zone_id": zone_id,
        "zone": slugs[zone_id] if zone_id is not None else None,
        "handle": values[kind.handle] if kind.handle and _is_named(kind, type(entity)) else None,
        "owner_type": values.get("owner_type", OwnerType.CUSTOMER),
        "spec": spec_of(kind, entity, extras),
        "ownership": None if record is None else _ownership(record),
        "revision": entity.revision,
    }
    if sealed := [name for name in _sealed(type(entity)) if values[name] is not None]:
        found["secrets_set"] = sealed
    return found


def _ownership(record: ownership.Record) -> dict[str, Any]:
    return {
        "owner": record.owner,
        "name": record.name,
        "fields": record.fields,
        "applied": record.applied,
        "secret_versions": record.secret_versions,
        "source": record.source,
        "protect": record.protect,
    }


def spec_of(kind: Kind, entity: Entity, extras: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of an entity, references as ids; members without a value are left out."""
    values = entity.__dict__
    spec: dict[str, Any] = {}
    for name, shared in _compared(kind, type(entity)):
        value = values[name]
        if value is not None:
            shown = plain(value)
            spec[name] = _only_settable(type(value), shown) if shared else shown
    if isinstance(entity, Zone):
        oauth2 = entity.protocols.oauth2
        spec["slug"] = entity.slug
        spec["addresses"] = {name: getattr(oauth2, name) for name in ADDRESSES}
    return {**spec, **extras}


@cache
def _compared(kind: Kind, model: type[Entity]) -> tuple[tuple[str, bool], ...]:
    """The members that a manifest can set, each with whether the service shares in it."""
    beside = kind.extras.model_fields if kind.extras else {}
    found = {
        name: member
        for name, member in spec_members(kind).items()
        if name in model.model_fields and name not in beside and _is_said(kind, model, name)
    }
    return tuple(
        (name, (part := part_of(member.annotation)) is not None and _is_shared(part))
        for name, member in found.items()
        if not member.has(Mark.SEALED)
    )


@cache
def _is_named(kind: Kind, model: type[Entity]) -> bool:
    """Tell whether entities of a variant can be found by their handle: not by one the service decides."""
    return kind.handle is not None and _is_said(kind, model, kind.handle)


def _is_said(kind: Kind, model: type[Entity], name: str) -> bool:
    """Tell whether a variant takes from its caller what another variant of the union may take."""
    return not kind.variants or name in settable(model, Verb.CREATE) or name in settable(model, Verb.UPDATE)


@cache
def _is_shared(part: type[BaseModel]) -> bool:
    """Tell whether the service decides some member of an object, at any depth."""
    return any(
        member.has(Mark.SERVER) or ((inner := part_of(member.annotation)) is not None and _is_shared(inner))
        for member in members(part).values()
    )


def _only_settable(part: type[BaseModel], shown: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, member in members(part).items():
        if name not in shown or member.has(Mark.SERVER):
            continue
        inner = part_of(member.annotation)
        shared = inner is not None and _is_shared(inner)
        kept[name] = _only_settable(inner, shown[name]) if shared and inner else shown[name]
    return kept


@cache
def _sealed(model: type[Entity]) -> tuple[str, ...]:
    return tuple(name for name, member in members(model).items() if member.has(Mark.SEALED))


def _nothing(_: Entity) -> dict[str, Any]:
    return {}


async def extras_of(conn: AsyncConnection, kind: Kind, zone_ids: Collection[str]) -> Extras:
    """What a manifest says beside the members: a function of the entity, with nothing left to query."""
    if kind is APPLICATION:
        dependencies = await changes.dependencies(conn, zone_ids)
        return lambda entity: {"dependencies": dependencies.get(entity.id, [])}
    if kind is GROUP:
        emails = await changes.member_emails(conn, zone_ids)
        return lambda entity: {"members": emails.get(entity.id, [])}
    if kind is POLICY:
        texts = await changes.latest_texts(conn, zone_ids)
        return lambda entity: {"cedar": texts.get(entity.id)}
    if kind is POLICY_SET:
        contents = await changes.set_contents(conn, zone_ids)
        active = await changes.active_sets(conn, zone_ids)
        return lambda entity: {
            "policies": [entry["policy_id"] for entry in contents.get(entity.id, [])],
            "active": entity.id in active,
        }
    if kind is ROLE_ASSIGNMENT:
        users = await changes.assigned_users(conn, zone_ids)
        return lambda entity: assignment_spec(entity, users)
    return _nothing


def assignment_spec(assignment: Entity, users: Mapping[str, str]) -> dict[str, Any]:
    """A role assignment as a manifest writes it. `users`: id -> address of the users who hold roles."""
    if not isinstance(assignment, RoleAssignment):
        raise TypeError(f"{type(assignment).__name__} is no RoleAssignment")
    holder = assignment.principal_id
    principal = {
        PrincipalType.GROUP: {"group_id": holder},
        PrincipalType.APPLICATION: {"application_id": holder},
        PrincipalType.USER: {"user": users.get(holder, holder)},
    }[assignment.principal_type]
    return {"role_id": assignment.role_id, "principal": principal}

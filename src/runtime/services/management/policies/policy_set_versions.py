"""The versions of a policy set: composed once, then activated, or archived."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.domain.errors import Conflict
from runtime.domain.kinds import POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, Entity, Kind, Verb
from runtime.domain.kinds.values import PolicySetMode
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies import policy_texts
from runtime.services.management.policies.activation import activate
from runtime.services.management.policies.composition import compose_version, versions_named
from runtime.services.management.policies.policy_versions import format_of, in_format
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of a policy set's versions."""
    listed = await entities.list_(unit, POLICY_SET_VERSION, parents, query)
    return listed.with_items(await _told(unit, parents, listed.items))


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """One version of a policy set."""
    found = await entities.retrieve(unit, POLICY_SET_VERSION, parents, entity_id)
    return (await _told(unit, parents, [found]))[0]


async def _told(unit: UnitOfWork, parents: Parents, versions: Sequence[Entity]) -> list[Entity]:
    found = await bindings.of_sets(unit.conn, [parents["policy_set_id"]], zone_id=parents["zone_id"])
    active = {one.policy_set_version_id for one in found if one.mode == PolicySetMode.ACTIVE}
    return [version.model_copy(update={"active": version.id in active}) for version in versions]


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Compose a policy set anew; what decides does not change before the version is activated."""
    zone = {"zone_id": parents["zone_id"]}
    await entities.scope_of(unit, POLICY_SET_VERSION, parents)
    _, policy_set = await entities.for_change(unit, POLICY_SET, zone, parents["policy_set_id"], Verb.RETRIEVE)
    entities.require(unit, POLICY_SET_VERSION, Verb.CREATE, zone)
    policy_texts.require_schema(body["schema_version"])
    pairs = [(entry["policy_id"], entry["policy_version_id"]) for entry in body["manifest"]["entries"]]
    versions = await versions_named(unit, zone["zone_id"], pairs)
    return await compose_version(unit, policy_set, versions, body["schema_version"])


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Let a version decide, in place of what decides now. The service's own can be chosen too."""
    scope = await entities.scope_of(unit, POLICY_SET_VERSION, parents)
    found = await storage.get(unit.conn, POLICY_SET_VERSION, entity_id, within=scope)
    entities.require(unit, POLICY_SET_VERSION, Verb.UPDATE, scope)
    policy_set = await storage.get(
        unit.conn, POLICY_SET, parents["policy_set_id"], within={"zone_id": scope["zone_id"]}
    )
    await activate(unit, policy_set, found)
    return (await _told(unit, scope, [found]))[0]


async def archive(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a version of a policy set. Raises Conflict while it is bound."""
    scope, before = await entities.for_change(unit, POLICY_SET_VERSION, parents, entity_id, Verb.ARCHIVE)
    await unit.next_revision()
    present = await bindings.of_sets(unit.conn, [before.policy_set_id], zone_id=scope["zone_id"])
    if before.id in {one.policy_set_version_id for one in present}:
        raise Conflict("this version is bound; activate another one first")
    if before.archived_at is not None:
        return before
    after = before.model_copy(update={"archived_at": unit.now, "archived_by": unit.caller.id})
    return await entities.change(unit, POLICY_SET_VERSION, scope, before, after, action="archive")


async def list_policies(unit: UnitOfWork, parents: Parents, version_id: str, query: ListQuery) -> Listed:
    """One page of the policy versions that a policy set version is made of."""
    version = await entities.retrieve(unit, POLICY_SET_VERSION, parents, version_id)
    entities.require(unit, POLICY_VERSION, Verb.LIST, parents)
    ids = tuple(entry.policy_version_id for entry in version.manifest.entries)
    listed = await entities.page(
        unit, POLICY_VERSION, {"zone_id": parents["zone_id"]}, query, storage.Equals("id", ids)
    )
    return listed.with_items([in_format(one, format_of(query)) for one in listed.items])

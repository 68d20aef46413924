"""Policy versions: immutable, each a text in both of Cedar's notations."""

from collections.abc import Mapping
from typing import Any

from runtime.domain.errors import Conflict
from runtime.domain.kinds import POLICY, POLICY_VERSION, Entity, Kind, Verb
from runtime.domain.kinds.policy import Policy, PolicyVersion
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies import entity_references, policy_texts
from runtime.services.management.policies.versioned import require_not_archived
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of a policy's versions."""
    listed = await entities.list_(unit, POLICY_VERSION, parents, query)
    return listed.with_items([in_format(one, format_of(query)) for one in listed.items])


def format_of(query: ListQuery) -> str | None:
    """The notation of texts that a list asks for."""
    return next(iter(query.special.get("format", ())), None)


def in_format(version: Entity, notation: str | None) -> Entity:
    """The version in one of Cedar's notations; in both when none is asked."""
    if notation is None:
        return version
    return version.model_copy(update={"cedar_json" if notation == "cedar" else "cedar_raw": None})


async def retrieve(
    unit: UnitOfWork,
    kind: Kind,
    parents: Parents,
    entity_id: str,
    expands: frozenset[str] = frozenset(),
    *,
    notation: str | None = None,
) -> Entity:
    """One version of a policy, with what it names and the zone does not have."""
    found = await entities.retrieve(unit, POLICY_VERSION, parents, entity_id)
    policy = await storage.get(
        unit.conn, POLICY, parents["policy_id"], within={"zone_id": parents["zone_id"]}
    )
    return in_format(await _with_unknown_names(unit, policy, found), notation)


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Give a policy a new text. Raises ValidationFailed, Conflict for an archived policy, Forbidden.

    A text may come before what it names, so that is no refusal: the answer tells of it.
    """
    zone = {"zone_id": parents["zone_id"]}
    await entities.scope_of(unit, POLICY_VERSION, parents)
    _, policy = await entities.for_change(unit, POLICY, zone, parents["policy_id"], Verb.RETRIEVE)
    entities.require(unit, POLICY_VERSION, Verb.CREATE, zone)
    text = policy_texts.read(
        cedar_raw=body.get("cedar_raw"),
        cedar_json=body.get("cedar_json"),
        schema_version=body["schema_version"],
    )
    made = await add_version(unit, policy, text, body["schema_version"])
    return await _with_unknown_names(unit, policy, made)


async def _with_unknown_names(unit: UnitOfWork, policy: Policy, version: PolicyVersion) -> PolicyVersion:
    names = await entity_references.unknown(unit, policy, version.cedar_raw or "")
    return version.model_copy(update={"unknown_names": names}) if names else version


async def write_text(
    unit: UnitOfWork, policy: Policy, text: str, *, field: str = "cedar"
) -> PolicyVersion | None:
    """Give a policy this text under the zone's default schema; None when it is its text already.

    Raises: ValidationFailed, Conflict, Forbidden.
    """
    entities.refuse_platform_owned(POLICY, policy)
    await entities.require_in(unit, POLICY_VERSION, Verb.CREATE, policy.zone_id)
    version = await bindings.schema_version(unit.conn, zone_id=policy.zone_id)
    read = policy_texts.read(cedar_raw=text, schema_version=version, field=field)
    latest = await latest_version(unit, policy)
    if latest is not None and latest.sha == read.sha and latest.schema_version == version:
        return None
    return await add_version(unit, policy, read, version)


async def latest_version(unit: UnitOfWork, policy: Policy) -> PolicyVersion | None:
    """The newest version of a policy; None when it has none."""
    if policy.latest_version_id is None:
        return None
    within = {"zone_id": policy.zone_id, "policy_id": policy.id}
    return await storage.get(unit.conn, POLICY_VERSION, policy.latest_version_id, within=within)


async def add_version(
    unit: UnitOfWork, policy: Policy, text: policy_texts.CheckedPolicyText, schema_version: str
) -> PolicyVersion:
    """Give a policy another version; whoever may do that has been decided. Raises Conflict."""
    require_not_archived(policy)
    zone = {"zone_id": policy.zone_id}
    await unit.next_revision()
    # Read again: from here on nobody else of the organization can take the next number.
    current = await storage.get(unit.conn, POLICY, policy.id, within=zone)
    number = (current.latest_version or 0) + 1
    made = await entities.new_entity(
        unit,
        POLICY_VERSION,
        {**zone, "policy_id": policy.id},
        {},
        version=number,
        schema_version=schema_version,
        cedar_raw=text.raw,
        cedar_json=text.as_json,
        sha=text.sha,
        owner_type=policy.owner_type,
        created_by=unit.caller.id,
    )
    await entities.add(unit, POLICY_VERSION, made)
    latest = {
        "latest_version": number,
        "latest_version_id": made.id,
        "latest_schema_version": schema_version,
        "updated_by": unit.caller.id,
    }
    await entities.change(unit, POLICY, zone, current, current.model_copy(update=latest))
    return made


async def archive(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a version: no new policy set version can hold it. Raises Conflict while it is at work."""
    scope, before = await entities.for_change(unit, POLICY_VERSION, parents, entity_id, Verb.ARCHIVE)
    if before.archived_at is not None:
        return before
    await unit.next_revision()
    if before.id in {
        version_id for _, version_id in await bindings.bound_entries(unit.conn, zone_id=scope["zone_id"])
    }:
        raise Conflict("this version is part of a policy set that is bound")
    after = before.model_copy(update={"archived_at": unit.now, "archived_by": unit.caller.id})
    return await entities.change(unit, POLICY_VERSION, scope, before, after, action="archive")

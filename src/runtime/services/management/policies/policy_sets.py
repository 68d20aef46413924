"""Policy sets, their versions, and which one decides."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

import rfc8785

from runtime.domain.errors import BadRequest, Conflict, ValidationFailed
from runtime.domain.kinds import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, Entity, Kind, Verb
from runtime.domain.kinds.policy import (
    Policy,
    PolicySet,
    PolicySetManifest,
    PolicySetManifestEntry,
    PolicySetVersion,
    PolicyVersion,
)
from runtime.domain.kinds.values import PolicySetMode, PolicyTargetType
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies import attestations, policy_texts
from runtime.services.management.policies.policies import for_targets, format_of, in_format, require_match
from runtime.services.management.unit import Unit
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage


async def list_(unit: Unit, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of policy sets, each with its binding."""
    scope = await entities.scope_of(unit, POLICY_SET, parents)
    entities.require(unit, POLICY_SET, Verb.LIST, scope)
    more = []
    if wanted := query.special.get("filter[active]"):
        active = bindings.is_active(scope["zone_id"])
        more.append(active if wanted[0] == "true" else ~active)
    listed = await entities.page(unit, POLICY_SET, scope, for_targets(query), *more)
    return listed.with_items(await bound(unit, scope["zone_id"], listed.items))


async def retrieve(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The policy set with its binding."""
    found = await entities.retrieve(unit, POLICY_SET, parents, entity_id)
    return (await bound(unit, parents["zone_id"], [found]))[0]


async def create(unit: Unit, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a policy set that is bound to nothing and has no version yet."""
    scope = await entities.scope_of(unit, POLICY_SET, parents)
    entities.require(unit, POLICY_SET, Verb.CREATE, scope)
    target, older = body.get("target_type"), body.get("scope_type")
    if target and older and target != older:
        raise ValidationFailed.of("scope_type", "is the older name of `target_type`, and says otherwise")
    given = {"name": body["name"]} | ({"target_type": target or older} if target or older else {})
    made = await entities.new_entity(unit, POLICY_SET, scope, given, created_by=unit.caller.id)
    await entities.add(unit, POLICY_SET, made)
    return (await bound(unit, scope["zone_id"], [made]))[0]


async def update(
    unit: Unit,
    kind: Kind,
    parents: Parents,
    entity_id: str,
    patch: Mapping[str, Any],
    *,
    if_match: str | None = None,
) -> Entity:
    """Change a policy set's name. Raises PreconditionFailed, Conflict for an archived one."""
    scope, before = await entities.for_change(unit, POLICY_SET, parents, entity_id, Verb.UPDATE)
    before = cast(PolicySet, before)
    require_match(before, if_match)
    _require_not_archived(before)
    after = await entities.patched(unit, POLICY_SET, scope, before, patch)
    if after != before:
        after = after.model_copy(update={"updated_by": unit.caller.id})
        after = await entities.change(unit, POLICY_SET, scope, before, after)
    return (await bound(unit, scope["zone_id"], [after]))[0]


async def archive(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a policy set, which frees its name. Raises PreconditionFailed, Conflict while it is bound."""
    scope, before = await entities.for_change(unit, POLICY_SET, parents, entity_id, Verb.ARCHIVE)
    before = cast(PolicySet, before)
    require_match(before, if_match)
    await unit.revision()
    if await bindings.of_sets(unit.conn, [before.id], zone_id=scope["zone_id"]):
        raise Conflict("this policy set is bound; activate another one first")
    after = before
    if before.archived_at is None:
        after = before.model_copy(update={"archived_at": unit.now, "updated_by": unit.caller.id})
        after = await entities.change(unit, POLICY_SET, scope, before, after, action="archive")
    return (await bound(unit, scope["zone_id"], [after]))[0]


async def bound(unit: Unit, zone_id: str, sets: Sequence[Entity]) -> list[Entity]:
    """The policy sets with their bindings, asked in one query."""
    found: dict[str, dict[str, bindings.Binding]] = {}
    for binding in await bindings.of_sets(unit.conn, [one.id for one in sets], zone_id=zone_id):
        found.setdefault(binding.policy_set_id, {})[binding.mode] = binding
    return [_with_bindings(one, found.get(one.id, {})) for one in sets]


def _with_bindings(policy_set: Entity, found: Mapping[str, bindings.Binding]) -> Entity:
    policy_set = cast(PolicySet, policy_set)
    active, shadow = found.get(PolicySetMode.ACTIVE.value), found.get(PolicySetMode.SHADOW.value)
    either = active or shadow
    return policy_set.model_copy(
        update={
            "active": active is not None,
            "active_version": active.version if active else None,
            "active_version_id": active.policy_set_version_id if active else None,
            "shadow_version": shadow.version if shadow else None,
            "shadow_version_id": shadow.policy_set_version_id if shadow else None,
            "mode": PolicySetMode(either.mode) if either else None,
            "target_id": either.target_id if either else None,
            "scope_type": policy_set.target_type,
            "scope_target_id": either.target_id if either else None,
        }
    )


def _require_not_archived(policy_set: PolicySet) -> None:
    if policy_set.archived_at is not None:
        raise Conflict(f"PolicySet `{policy_set.id}` is archived")


# --- versions


async def list_versions(unit: Unit, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """One page of a policy set's versions."""
    listed = await entities.list_(unit, POLICY_SET_VERSION, parents, query)
    return listed.with_items(await _told(unit, parents, listed.items))


async def retrieve_version(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """One version of a policy set."""
    found = await entities.retrieve(unit, POLICY_SET_VERSION, parents, entity_id)
    return (await _told(unit, parents, [found]))[0]


async def _told(unit: Unit, parents: Parents, versions: Sequence[Entity]) -> list[Entity]:
    found = await bindings.of_sets(unit.conn, [parents["policy_set_id"]], zone_id=parents["zone_id"])
    active = {one.policy_set_version_id for one in found if one.mode == PolicySetMode.ACTIVE}
    return [version.model_copy(update={"active": version.id in active}) for version in versions]


async def create_version(unit: Unit, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Compose a policy set anew; what decides does not change before the version is activated."""
    zone = {"zone_id": parents["zone_id"]}
    await entities.scope_of(unit, POLICY_SET_VERSION, parents)
    _, policy_set = await entities.for_change(unit, POLICY_SET, zone, parents["policy_set_id"], Verb.RETRIEVE)
    entities.require(unit, POLICY_SET_VERSION, Verb.CREATE, zone)
    policy_set = cast(PolicySet, policy_set)
    policy_texts.require_schema(body["schema_version"])
    pairs = [(entry["policy_id"], entry["policy_version_id"]) for entry in body["manifest"]["entries"]]
    versions = await _versions(unit, zone["zone_id"], pairs)
    return await compose_version(unit, policy_set, versions, body["schema_version"])


async def _versions(unit: Unit, zone_id: str, pairs: Sequence[tuple[str, str]]) -> list[PolicyVersion]:
    """The policy versions that a manifest names. Raises ValidationFailed."""
    wanted = [version_id for _, version_id in pairs]
    found = {
        one.id: one
        for one in await storage.many(unit.conn, POLICY_VERSION, wanted, within={"zone_id": zone_id})
    }
    versions: list[PolicyVersion] = []
    for position, (policy_id, version_id) in enumerate(pairs):
        field = f"manifest.entries[{position}].policy_version_id"
        version = found.get(version_id)
        if not isinstance(version, PolicyVersion) or version.policy_id != policy_id:
            raise ValidationFailed.of(field, f"`{version_id}` is no version of policy `{policy_id}`")
        if version.archived_at is not None:
            raise ValidationFailed.of(field, f"`{version_id}` is archived")
        if version in versions or any(other.policy_id == policy_id for other in versions):
            raise ValidationFailed.of(field, f"policy `{policy_id}` stands in the manifest already")
        versions.append(version)
    return versions


async def compose_version(
    unit: Unit, policy_set: PolicySet, versions: Sequence[PolicyVersion], schema_version: str
) -> PolicySetVersion:
    """Let a policy set consist of these; whoever may do that has been decided. Raises ValidationFailed."""
    _require_not_archived(policy_set)
    for position, version in enumerate(versions):
        if version.schema_version != schema_version and not policy_texts.check(
            version.cedar_raw or "", schema_version
        ):
            raise ValidationFailed.of(
                f"manifest.entries[{position}]", f"`{version.id}` is not valid under `{schema_version}`"
            )
    zone = {"zone_id": policy_set.zone_id}
    await unit.revision()
    current = await storage.get(unit.conn, POLICY_SET, policy_set.id, within=zone)
    current = cast(PolicySet, current)
    number = (current.latest_version or 0) + 1
    manifest = manifest_of(versions)
    digest = manifest_sha(manifest)
    statement, signature = await attestations.attest(unit, policy_set, version=number, manifest_sha=digest)
    made = await entities.new_entity(
        unit,
        POLICY_SET_VERSION,
        {**zone, "policy_set_id": policy_set.id},
        {},
        version=number,
        schema_version=schema_version,
        manifest=manifest.model_dump(),
        manifest_sha=digest,
        attestation=statement.model_dump(),
        owner_type=policy_set.owner_type,
        created_by=unit.caller.id,
    )
    made = cast(PolicySetVersion, made)
    await entities.add(unit, POLICY_SET_VERSION, made)
    await unit.record(
        "policy_set_versions.attest",
        POLICY_SET_VERSION.name,
        made.id,
        policy_set.zone_id,
        before=None,
        after={"attestation": signature},
    )
    latest = {"latest_version": number, "latest_version_id": made.id, "updated_by": unit.caller.id}
    await entities.change(unit, POLICY_SET, zone, current, current.model_copy(update=latest))
    return made


def manifest_of(versions: Sequence[PolicyVersion]) -> PolicySetManifest:
    """The manifest that lists these versions in this order."""
    return PolicySetManifest(
        entries=[
            PolicySetManifestEntry(policy_id=one.policy_id, policy_version_id=one.id, sha=one.sha)
            for one in versions
        ]
    )


def manifest_sha(manifest: PolicySetManifest) -> str:
    """The hex SHA-256 of the manifest in canonical JSON. Spec: RFC 8785."""
    return sha256(rfc8785.dumps(manifest.model_dump(mode="json"))).hexdigest()


async def activate_version(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Let a version decide, in place of what decides now. The service's own can be chosen too."""
    scope = await entities.scope_of(unit, POLICY_SET_VERSION, parents)
    found = await storage.get(unit.conn, POLICY_SET_VERSION, entity_id, within=scope)
    entities.require(unit, POLICY_SET_VERSION, Verb.UPDATE, scope)
    policy_set = await storage.get(
        unit.conn, POLICY_SET, parents["policy_set_id"], within={"zone_id": scope["zone_id"]}
    )
    found = cast(PolicySetVersion, found)
    policy_set = cast(PolicySet, policy_set)
    await activate(unit, policy_set, found)
    return (await _told(unit, scope, [found]))[0]


async def activate(unit: Unit, policy_set: PolicySet, version: PolicySetVersion) -> None:
    """Bind a version to the zone as the one that decides. Raises BadRequest, Conflict."""
    if policy_set.target_type is not PolicyTargetType.ZONE:
        raise BadRequest("a policy set for a user is bound by its user alone")
    if policy_set.archived_at is not None or version.archived_at is not None:
        raise Conflict("an archived policy set or version cannot be activated")
    zone_id = policy_set.zone_id
    await unit.revision()
    present = await bindings.of_target(unit.conn, PolicyTargetType.ZONE.value, zone_id, zone_id=zone_id)
    by_mode = {one.mode: one for one in present}
    shadow = by_mode.get(PolicySetMode.SHADOW.value)
    if shadow and shadow.policy_set_version_id == version.id:
        raise BadRequest("this version is bound as shadow")
    active = by_mode.get(PolicySetMode.ACTIVE.value)
    if active and active.policy_set_version_id == version.id:
        return
    await _refuse_archived_entries(unit, version)
    await bindings.bind(
        unit.conn,
        zone_id=zone_id,
        target_type=PolicyTargetType.ZONE.value,
        target_id=zone_id,
        mode=PolicySetMode.ACTIVE.value,
        policy_set_id=policy_set.id,
        policy_set_version_id=version.id,
        now=unit.now,
    )
    await unit.record(
        "policy_set_versions.activate",
        POLICY_SET_VERSION.name,
        version.id,
        zone_id,
        before={"policy_set_version_id": active.policy_set_version_id} if active else None,
        after={"policy_set_version_id": version.id},
    )
    for changed in {policy_set.id, *((active.policy_set_id,) if active else ())}:
        await touch(unit, zone_id, changed)


async def _refuse_archived_entries(unit: Unit, version: PolicySetVersion) -> None:
    wanted = [entry.policy_version_id for entry in version.manifest.entries]
    for found in await storage.many(unit.conn, POLICY_VERSION, wanted, within={"zone_id": version.zone_id}):
        if isinstance(found, PolicyVersion) and found.archived_at is not None:
            raise Conflict(f"policy version `{found.id}` in it is archived")


async def touch(unit: Unit, zone_id: str, policy_set_id: str) -> None:
    """Give a policy set whose binding has changed a new ETag."""
    within = {"zone_id": zone_id}
    found = await storage.get(unit.conn, POLICY_SET, policy_set_id, within=within)
    touched = found.model_copy(update={"updated_at": unit.now, "revision": await unit.revision()})
    await storage.replace(unit.conn, POLICY_SET, touched, within=within)


async def archive_version(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a version of a policy set. Raises Conflict while it is bound."""
    scope, before = await entities.for_change(unit, POLICY_SET_VERSION, parents, entity_id, Verb.ARCHIVE)
    before = cast(PolicySetVersion, before)
    await unit.revision()
    present = await bindings.of_sets(unit.conn, [before.policy_set_id], zone_id=scope["zone_id"])
    if before.id in {one.policy_set_version_id for one in present}:
        raise Conflict("this version is bound; activate another one first")
    if before.archived_at is not None:
        return before
    after = before.model_copy(update={"archived_at": unit.now, "archived_by": unit.caller.id})
    return await entities.change(unit, POLICY_SET_VERSION, scope, before, after, action="archive")


async def list_policies(unit: Unit, parents: Parents, version_id: str, query: ListQuery) -> Listed:
    """One page of the policy versions that a policy set version is made of."""
    version = await entities.retrieve(unit, POLICY_SET_VERSION, parents, version_id)
    version = cast(PolicySetVersion, version)
    entities.require(unit, POLICY_VERSION, Verb.LIST, parents)
    ids = tuple(entry.policy_version_id for entry in version.manifest.entries)
    listed = await entities.page(
        unit, POLICY_VERSION, {"zone_id": parents["zone_id"]}, query, storage.Equals("id", ids)
    )
    return listed.with_items([in_format(one, format_of(query)) for one in listed.items])


# --- what a manifest says of a policy set


async def compose(
    unit: Unit, policy_set: PolicySet, policy_ids: Sequence[str], *, active: bool, field: str = "policies"
) -> None:
    """Make a policy set consist of these policies, each at its latest version, and decide or not.

    A new version is made only when the composition differs from the latest one's.
    Raises: ValidationFailed, Conflict, Forbidden.
    """
    entities.refuse_platform_owned(POLICY_SET, policy_set)
    zone = {"zone_id": policy_set.zone_id}
    await entities.require_in(unit, POLICY_SET_VERSION, Verb.CREATE, policy_set.zone_id)
    versions = await _latest_versions(unit, policy_set.zone_id, policy_ids, field)
    current = await storage.get(unit.conn, POLICY_SET, policy_set.id, within=zone)
    current = cast(PolicySet, current)
    latest = await _latest_of(unit, current)
    schema_version = await bindings.schema_version(unit.conn, zone_id=policy_set.zone_id)
    if latest is None or latest.manifest_sha != manifest_sha(manifest_of(versions)):
        latest = await compose_version(unit, current, versions, schema_version)
    if active:
        entities.require(unit, POLICY_SET_VERSION, Verb.UPDATE, zone)
        await activate(unit, current, latest)
        return
    mode = PolicySetMode.ACTIVE.value
    if await bindings.unbind(unit.conn, policy_set.id, zone_id=policy_set.zone_id, mode=mode):
        before = {"policy_set_id": policy_set.id}
        await unit.record(
            "policy_sets.unbind",
            POLICY_SET.name,
            policy_set.id,
            policy_set.zone_id,
            before=before,
            after=None,
        )
        await touch(unit, policy_set.zone_id, policy_set.id)


async def _latest_of(unit: Unit, policy_set: PolicySet) -> PolicySetVersion | None:
    if policy_set.latest_version_id is None:
        return None
    within = {"zone_id": policy_set.zone_id, "policy_set_id": policy_set.id}
    found = await storage.get(unit.conn, POLICY_SET_VERSION, policy_set.latest_version_id, within=within)
    return cast(PolicySetVersion, found)


async def _latest_versions(
    unit: Unit, zone_id: str, policy_ids: Sequence[str], field: str
) -> list[PolicyVersion]:
    within = {"zone_id": zone_id}
    policies = {one.id: one for one in await storage.many(unit.conn, POLICY, policy_ids, within=within)}
    pairs: list[tuple[str, str]] = []
    for policy_id in policy_ids:
        policy = policies.get(policy_id)
        if not isinstance(policy, Policy):
            raise ValidationFailed.of(field, f"`{policy_id}` is no Policy of this zone")
        if policy.latest_version_id is None:
            raise ValidationFailed.of(field, f"policy `{policy.name}` has no text yet")
        pairs.append((policy_id, policy.latest_version_id))
    return await _versions(unit, zone_id, pairs)

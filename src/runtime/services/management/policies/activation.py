"""Activation: binds a version of a policy set to a zone as the active one, or ends that."""

from runtime.domain.errors import BadRequest, Conflict
from runtime.domain.kinds import POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, ZONE, Verb
from runtime.domain.kinds.policy import PolicySet, PolicySetVersion, PolicyVersion
from runtime.domain.kinds.values import OwnerType, PolicySetMode, PolicyTargetType
from runtime.domain.policy.defaults import DEFAULT_SET
from runtime.services.management import credential_scope, entities
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage


async def activate(unit: UnitOfWork, policy_set: PolicySet, version: PolicySetVersion) -> None:
    """Bind a version to the zone as the one that decides. Raises BadRequest, Conflict, Forbidden."""
    if policy_set.target_type is not PolicyTargetType.ZONE:
        raise BadRequest("only a policy set with the target type `zone` can be activated here")
    if policy_set.archived_at is not None or version.archived_at is not None:
        raise Conflict("an archived policy set or version cannot be activated")
    zone_id = policy_set.zone_id
    await unit.next_revision()
    present = await bindings.of_target(unit.conn, PolicyTargetType.ZONE.value, zone_id, zone_id=zone_id)
    by_mode = {one.mode: one for one in present}
    shadow = by_mode.get(PolicySetMode.SHADOW.value)
    if shadow and shadow.policy_set_version_id == version.id:
        raise BadRequest("this version is bound as shadow")
    active = by_mode.get(PolicySetMode.ACTIVE.value)
    if active and active.policy_set_version_id == version.id:
        return
    await _refuse_others(unit, policy_set, *((active.policy_set_id,) if active else ()))
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
    if active is not None and active.policy_set_id != policy_set.id:
        await _record_unbound(unit, zone_id, active.policy_set_id)
    for changed in {policy_set.id, *((active.policy_set_id,) if active else ())}:
        await renew_etag(unit, zone_id, changed)


async def _refuse_others(unit: UnitOfWork, policy_set: PolicySet, *displaced: str) -> None:
    """Raise Forbidden where what decides is for another configuration to say: the zone's, or a set's."""
    await credential_scope.refuse_others_of(unit, ZONE, policy_set.zone_id)
    for one in (policy_set.id, *displaced):
        await credential_scope.refuse_others_of(unit, POLICY_SET, one)


async def _refuse_archived_entries(unit: UnitOfWork, version: PolicySetVersion) -> None:
    wanted = [entry.policy_version_id for entry in version.manifest.entries]
    for found in await storage.many(unit.conn, POLICY_VERSION, wanted, within={"zone_id": version.zone_id}):
        if isinstance(found, PolicyVersion) and found.archived_at is not None:
            raise Conflict(f"policy version `{found.id}` in it is archived")


async def deactivate(unit: UnitOfWork, policy_set: PolicySet) -> None:
    """Deactivate a policy set: where it was active, the default policy set of the zone is activated.

    A zone without any would refuse everything, and what is in force would depend on what was before.
    Raises: Forbidden, where that has to be changed and the caller may not; as `activate`.
    """
    zone_id, mode = policy_set.zone_id, PolicySetMode.ACTIVE.value
    present = await bindings.of_sets(unit.conn, [policy_set.id], zone_id=zone_id)
    if not any(one.mode == mode for one in present):
        return
    await entities.require_in(unit, POLICY_SET_VERSION, Verb.UPDATE, zone_id)
    if (default := await _default_of(unit, zone_id)) is not None:
        await activate(unit, *default)
    elif await bindings.unbind(unit.conn, policy_set.id, zone_id=zone_id, mode=mode):
        await _refuse_others(unit, policy_set)
        await _record_unbound(unit, zone_id, policy_set.id)
        await renew_etag(unit, zone_id, policy_set.id)


async def _default_of(unit: UnitOfWork, zone_id: str) -> tuple[PolicySet, PolicySetVersion] | None:
    """The policy set that a zone is born with, at its latest version; None when that cannot decide."""
    within = {"zone_id": zone_id}
    where = [
        storage.Equals("name", (DEFAULT_SET,)),
        storage.Equals("owner_type", (OwnerType.PLATFORM.value,)),
    ]
    found = [each async for each in storage.all_of(unit.conn, POLICY_SET, within=within, where=where)]
    policy_set = found[0] if found else None
    if policy_set is None or policy_set.archived_at or policy_set.latest_version_id is None:
        return None
    of_set = {**within, "policy_set_id": policy_set.id}
    version = await storage.get(unit.conn, POLICY_SET_VERSION, policy_set.latest_version_id, within=of_set)
    return policy_set, version


async def _record_unbound(unit: UnitOfWork, zone_id: str, policy_set_id: str) -> None:
    before = {"policy_set_id": policy_set_id}
    await unit.record(
        "policy_sets.unbind", POLICY_SET.name, policy_set_id, zone_id, before=before, after=None
    )


async def renew_etag(unit: UnitOfWork, zone_id: str, policy_set_id: str) -> None:
    """Give a policy set whose binding has changed a new ETag."""
    within = {"zone_id": zone_id}
    found = await storage.get(unit.conn, POLICY_SET, policy_set_id, within=within)
    touched = found.model_copy(update={"updated_at": unit.now, "revision": await unit.next_revision()})
    await storage.replace(unit.conn, POLICY_SET, touched, within=within)

"""Policy sets, and their bindings to a zone or a user."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.domain.errors import Conflict, ValidationFailed
from runtime.domain.kinds import POLICY_SET, Entity, Kind, Verb
from runtime.domain.kinds.policy import PolicySet
from runtime.domain.kinds.values import PolicySetMode
from runtime.services.management import entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.policies.versioned import change, for_targets, require_match
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
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
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The policy set with its binding."""
    found = await entities.retrieve(unit, POLICY_SET, parents, entity_id)
    return (await bound(unit, parents["zone_id"], [found]))[0]


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make a policy set that is bound to nothing and has no version yet."""
    scope = await entities.scope_of(unit, POLICY_SET, parents)
    entities.require(unit, POLICY_SET, Verb.CREATE, scope)
    target, older = body.get("target_type"), body.get("scope_type")
    if target and older and target != older:
        raise ValidationFailed.of(
            "scope_type", "is the older name of `target_type` and conflicts with it; send one of them"
        )
    given = {"name": body["name"]} | ({"target_type": target or older} if target or older else {})
    made = await entities.new_entity(unit, POLICY_SET, scope, given, created_by=unit.caller.id)
    await entities.add(unit, POLICY_SET, made)
    return (await bound(unit, scope["zone_id"], [made]))[0]


async def update(
    unit: UnitOfWork,
    kind: Kind,
    parents: Parents,
    entity_id: str,
    patch: Mapping[str, Any],
    *,
    if_match: str | None = None,
) -> Entity:
    """Change a policy set's name. Raises PreconditionFailed, Conflict for an archived one."""
    after = await change(unit, POLICY_SET, parents, entity_id, patch, if_match)
    return (await bound(unit, parents["zone_id"], [after]))[0]


async def archive(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, *, if_match: str | None = None
) -> Entity:
    """Archive a policy set, which frees its name. Raises PreconditionFailed, Conflict while it is bound."""
    scope, before = await entities.for_change(unit, POLICY_SET, parents, entity_id, Verb.ARCHIVE)
    require_match(before, if_match)
    await unit.next_revision()
    if await bindings.of_sets(unit.conn, [before.id], zone_id=scope["zone_id"]):
        raise Conflict("this policy set is bound; activate another one first")
    after = before
    if before.archived_at is None:
        after = before.model_copy(update={"archived_at": unit.now, "updated_by": unit.caller.id})
        after = await entities.store_archived(unit, POLICY_SET, scope, before, after)
    return (await bound(unit, scope["zone_id"], [after]))[0]


async def bound(unit: UnitOfWork, zone_id: str, sets: Sequence[PolicySet]) -> list[PolicySet]:
    """The policy sets with their bindings, asked in one query."""
    found: dict[str, dict[str, bindings.PolicySetBinding]] = {}
    for binding in await bindings.of_sets(unit.conn, [one.id for one in sets], zone_id=zone_id):
        found.setdefault(binding.policy_set_id, {})[binding.mode] = binding
    return [_with_bindings(one, found.get(one.id, {})) for one in sets]


def _with_bindings(policy_set: PolicySet, found: Mapping[str, bindings.PolicySetBinding]) -> PolicySet:
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

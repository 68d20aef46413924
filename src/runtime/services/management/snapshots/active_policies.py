"""The active policies of a snapshot: the active policy set version of each zone, and the texts in it.

A snapshot's `spec` is the latest version. An older version can be active, and the latest need not be
active yet: what is active is reported beside the `spec`, as `in_force`.
"""

from collections.abc import Collection, Mapping
from typing import Any

from runtime.domain.kinds import POLICY, POLICY_SET, Kind
from runtime.domain.kinds.values import rfc3339
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings, changes
from runtime.storage.sql.bindings import ActivePolicySet, ActivePolicyText

InForce = Mapping[str, dict[str, Any]]
"""Entity -> the version of it that is in force, and what `spec` would say of that where it says otherwise."""


async def in_force_of(unit: UnitOfWork, kind: Kind, zone_ids: Collection[str], *, names: bool) -> InForce:
    """What is in force of the entities of a kind; only policies and policy sets have versions.

    Args:
        names: tell who has let it decide.
    """
    if kind is not POLICY and kind is not POLICY_SET:
        return {}
    active = await bindings.active_policy_sets(unit.conn, zone_ids)
    texts = await bindings.texts_of(unit.conn, active)
    stale = [each for each in active if _is_stale(each, texts)]
    ids = [each.policy_set_version_id for each in stale] if names else []
    who = await changes.last_changes(unit.conn, unit.organization_id, ids)
    found: dict[str, dict[str, Any]] = {}
    for each in active:
        activation = who.get(each.policy_set_version_id)
        activated = {} if activation is None else {"activated": last_change(activation)}
        if kind is POLICY_SET:
            found[each.policy_set_id] = _policy_set(each, texts) | activated
            continue
        for text in _texts_in(each, texts):
            found[text.policy_id] = _policy(text) | ({} if text.is_latest else activated)
    return found


def last_change(record: Any) -> dict[str, Any]:
    """What an audit record says of who has written last."""
    return {
        "at": rfc3339(record.at),
        "action": record.action,
        "actor": {"type": record.actor_type, "id": record.actor_id},
        "changeset_id": record.changeset_id,
    }


def _texts_in(active: ActivePolicySet, texts: Mapping[str, ActivePolicyText]) -> list[ActivePolicyText]:
    return [texts[version_id] for _, version_id in active.entries if version_id in texts]


def _is_stale(active: ActivePolicySet, texts: Mapping[str, ActivePolicyText]) -> bool:
    """Tell whether what decides is not what was written last."""
    return _policies(active) != active.latest_policies or not all(
        each.is_latest for each in _texts_in(active, texts)
    )


def _policies(active: ActivePolicySet) -> list[str]:
    return [policy_id for policy_id, _ in active.entries]


def _policy(text: ActivePolicyText) -> dict[str, Any]:
    spec = {} if text.is_latest else {"cedar": text.cedar}
    return {"version": text.version, "latest_version": text.latest_version, "spec": spec}


def _policy_set(active: ActivePolicySet, texts: Mapping[str, ActivePolicyText]) -> dict[str, Any]:
    ids = _policies(active)
    told: dict[str, Any] = {
        "version": active.version,
        "latest_version": active.latest_version,
        "spec": {} if ids == active.latest_policies else {"policies": ids},
    }
    if _is_stale(active, texts):
        told["contents"] = [_part(each) for each in _texts_in(active, texts)]
    return told


def _part(text: ActivePolicyText) -> dict[str, Any]:
    found = {"kind": POLICY.name, "id": text.policy_id, "name": text.name, "version": text.version}
    return {**found, "spec": {"cedar": text.cedar}}

"""What is in force: the policy set version that decides in a zone, and the texts in it.

A snapshot's `spec` is what was written last. Somebody can let an older version decide, and what was written
last need not decide yet: both are told beside it.
"""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import POLICY, POLICY_SET, Kind
from runtime.storage.sql import bindings
from runtime.storage.sql.bindings import Deciding, PolicyText

InForce = Mapping[str, dict[str, Any]]
"""Entity -> the version of it that is in force, and what `spec` would say of that where it says otherwise."""


async def in_force_of(conn: AsyncConnection, kind: Kind, zone_ids: Collection[str]) -> InForce:
    """What is in force of the entities of a kind; only policies and policy sets have versions."""
    if kind is not POLICY and kind is not POLICY_SET:
        return {}
    deciding = await bindings.deciding(conn, zone_ids)
    texts = await bindings.texts_of(conn, deciding)
    if kind is POLICY:
        return {text.policy_id: _policy(text) for text in texts.values()}
    return {each.policy_set_id: _policy_set(each, texts) for each in deciding}


def _policy(text: PolicyText) -> dict[str, Any]:
    spec = {} if text.is_latest else {"cedar": text.cedar}
    return {"version": text.version, "latest_version": text.latest_version, "spec": spec}


def _policy_set(deciding: Deciding, texts: Mapping[str, PolicyText]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "version": deciding.version,
        "latest_version": deciding.latest_version,
        "spec": {},
    }
    ids = [policy_id for policy_id, _ in deciding.entries]
    if ids != deciding.latest_policies:
        said["spec"] = {"policies": ids}
    found = [texts[version_id] for _, version_id in deciding.entries if version_id in texts]
    if said["spec"] or not all(each.is_latest for each in found):
        said["contents"] = [_part(each) for each in found]
    return said


def _part(text: PolicyText) -> dict[str, Any]:
    found = {"kind": POLICY.name, "id": text.policy_id, "name": text.name, "version": text.version}
    return {**found, "spec": {"cedar": text.cedar}}

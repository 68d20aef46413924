"""The composition of a policy set version: the policy versions that it lists."""

from collections.abc import Sequence
from hashlib import sha256

import rfc8785

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, Verb
from runtime.domain.kinds.policy import (
    Policy,
    PolicySet,
    PolicySetManifest,
    PolicySetManifestEntry,
    PolicySetVersion,
    PolicyVersion,
)
from runtime.services.management import entities
from runtime.services.management.policies import attestations, policy_texts
from runtime.services.management.policies.activation import activate, deactivate
from runtime.services.management.policies.versioned import require_not_archived
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage

# What one set may have: every worker keeps it parsed, and every decision of the zone goes through all of it,
# in the process that serves other zones, too.
MAX_POLICIES = 500
MAX_RULES = 2_000  # counted by their semicolons, which is cheap and never too few
MAX_TEXT_BYTES = 256 * 1024


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


async def versions_named(
    unit: UnitOfWork, zone_id: str, pairs: Sequence[tuple[str, str]]
) -> list[PolicyVersion]:
    """The policy versions that a manifest names. Raises ValidationFailed."""
    _require_few(len(pairs))
    wanted = [version_id for _, version_id in pairs]
    found = {
        one.id: one
        for one in await storage.many(unit.conn, POLICY_VERSION, wanted, within={"zone_id": zone_id})
    }
    versions: list[PolicyVersion] = []
    seen: set[str] = set()
    for position, (policy_id, version_id) in enumerate(pairs):
        field = f"manifest.entries[{position}].policy_version_id"
        version = found.get(version_id)
        if not isinstance(version, PolicyVersion) or version.policy_id != policy_id:
            raise ValidationFailed.of(field, f"`{version_id}` is not a version of policy `{policy_id}`")
        if version.archived_at is not None:
            raise ValidationFailed.of(field, f"`{version_id}` is archived")
        if policy_id in seen:
            raise ValidationFailed.of(field, f"policy `{policy_id}` is in the manifest already")
        seen.add(policy_id)
        versions.append(version)
    return versions


def _require_few(policies: int, field: str = "manifest.entries") -> None:
    if policies > MAX_POLICIES:
        raise ValidationFailed.of(field, f"a policy set has at most {MAX_POLICIES} policies")


def _require_little(versions: Sequence[PolicyVersion], field: str) -> None:
    """Check that the policies together are no more than every decision can go through."""
    texts = [version.cedar_raw or "" for version in versions]
    if sum(len(text.encode()) for text in texts) > MAX_TEXT_BYTES:
        raise ValidationFailed.of(
            field, f"the policies of a set have at most {MAX_TEXT_BYTES} bytes together"
        )
    if sum(text.count(";") for text in texts) > MAX_RULES:
        raise ValidationFailed.of(field, f"the policies of a set have at most {MAX_RULES} rules together")


async def compose_version(
    unit: UnitOfWork,
    policy_set: PolicySet,
    versions: Sequence[PolicyVersion],
    schema_version: str,
    *,
    field: str = "manifest.entries",
) -> PolicySetVersion:
    """Let a policy set consist of these; whoever may do that has been decided. Raises ValidationFailed."""
    require_not_archived(policy_set)
    _require_little(versions, field)
    for position, version in enumerate(versions):
        if version.schema_version != schema_version and not policy_texts.check(
            version.cedar_raw or "", schema_version
        ):
            raise ValidationFailed.of(
                f"manifest.entries[{position}]", f"`{version.id}` is not valid under `{schema_version}`"
            )
    zone = {"zone_id": policy_set.zone_id}
    await unit.next_revision()
    current = await storage.get(unit.conn, POLICY_SET, policy_set.id, within=zone)
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


async def compose(
    unit: UnitOfWork,
    policy_set: PolicySet,
    policy_ids: Sequence[str],
    *,
    active: bool,
    field: str = "policies",
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
    latest = await _latest_of(unit, current)
    schema_version = await bindings.schema_version(unit.conn, zone_id=policy_set.zone_id)
    if latest is None or latest.manifest_sha != manifest_sha(manifest_of(versions)):
        latest = await compose_version(unit, current, versions, schema_version, field=field)
    if active:
        entities.require(unit, POLICY_SET_VERSION, Verb.UPDATE, zone)
        await activate(unit, current, latest)
    else:
        await deactivate(unit, policy_set)


async def _latest_of(unit: UnitOfWork, policy_set: PolicySet) -> PolicySetVersion | None:
    if policy_set.latest_version_id is None:
        return None
    within = {"zone_id": policy_set.zone_id, "policy_set_id": policy_set.id}
    return await storage.get(unit.conn, POLICY_SET_VERSION, policy_set.latest_version_id, within=within)


async def _latest_versions(
    unit: UnitOfWork, zone_id: str, policy_ids: Sequence[str], field: str
) -> list[PolicyVersion]:
    within = {"zone_id": zone_id}
    _require_few(len(policy_ids), field)
    policies = {one.id: one for one in await storage.many(unit.conn, POLICY, policy_ids, within=within)}
    pairs: list[tuple[str, str]] = []
    for policy_id in policy_ids:
        policy = policies.get(policy_id)
        if not isinstance(policy, Policy):
            raise ValidationFailed.of(field, f"no Policy with the id `{policy_id}` exists in the zone")
        if policy.latest_version_id is None:
            raise ValidationFailed.of(field, f"policy `{policy.name}` has no text yet")
        pairs.append((policy_id, policy.latest_version_id))
    return await versions_named(unit, zone_id, pairs)

"""The entities that every new zone has. Spec: `conventions.zone_bootstrap` of the management API table."""

from functools import lru_cache

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import POLICY, POLICY_SET, POLICY_SET_VERSION, POLICY_VERSION, PROVIDER, ROLE
from runtime.domain.kinds.policy import Policy, PolicySet, PolicySetVersion, PolicyVersion
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import Role
from runtime.domain.kinds.values import OwnerType, PolicySetMode, PolicyTargetType, ProviderType
from runtime.domain.kinds.zone import Zone
from runtime.domain.policy import schema
from runtime.domain.policy.defaults import DEFAULT_SET, all_defaults
from runtime.services import zone_keys
from runtime.services.management.policies import attestations, policy_texts
from runtime.services.management.policies.composition import manifest_of, manifest_sha
from runtime.services.management.policies.policy_texts import CheckedPolicyText
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import key_changes
from runtime.services.zone_keys import PreparedZone
from runtime.storage.sql import bindings
from runtime.storage.sql import entities as storage

_PROVIDERS = (
    (ProviderType.SERVICE_STS, "service-sts", "Token service of this zone"),
    (ProviderType.SERVICE_VAULT, "service-vault", "Credential vault of this zone"),
)
_ROLES = (
    ("zone_manager", "Manages the zone and what is inside it"),
    ("zone_viewer", "Reads the zone and what is inside it"),
)


async def prepared_zone(unit: UnitOfWork, arn: str | None) -> PreparedZone:
    """The id and the keys of a new zone whose data key is wrapped with that key.

    They were made before the transaction, but for a zone that nobody has foreseen.

    Raises: in a dry run what came of trying the key.
    """
    key_changes.require_usable(unit, arn)
    services = unit.services
    if unit.dry_run:
        tried = await zone_keys.prepare_trial(
            services.data_keys, arn=arn, algorithms=(attestations.ALGORITHM,)
        )
        unit.new_zones.append(tried)  # for as long as the run takes
        return tried
    for prepared in unit.new_zones:
        if prepared.arn == arn:
            unit.new_zones.remove(prepared)
            return prepared
    return await zone_keys.prepare(services.key_encryption, services.data_keys, arn=arn)


async def create_default_entities(unit: UnitOfWork, zone: Zone, prepared: PreparedZone) -> None:
    """Create the keys, built-in providers, platform roles and active default policies of a new zone."""
    await zone_keys.create_zone_keys(unit.conn, prepared, organization_id=zone.organization_id, now=unit.now)
    common = {
        "organization_id": zone.organization_id,
        "zone_id": zone.id,
        "created_at": unit.now,
        "updated_at": unit.now,
        "revision": await unit.next_revision(),
        "owner_type": OwnerType.PLATFORM,
    }
    providers = [
        Provider(id=new_id(), identifier=identifier, slug=identifier, name=name, type=type_, **common)
        for type_, identifier, name in _PROVIDERS
    ]
    roles = [
        Role(id=new_id(), identifier=identifier, description=description, **common)
        for identifier, description in _ROLES
    ]
    await storage.insert_many(unit.conn, PROVIDER, providers)
    await storage.insert_many(unit.conn, ROLE, roles)
    for kind, made in ((PROVIDER, providers), (ROLE, roles)):
        for entity in made:
            unit.cache.existing.add((zone.id, kind.name, entity.id))
    await _policies(unit, zone, common, key_id=prepared.signing[attestations.ALGORITHM].kid)


@lru_cache(maxsize=16)
def _checked(text: str, schema_version: str) -> CheckedPolicyText:
    """A policy that zones begin with: they are the service's own, and checked once in a process."""
    return policy_texts.read(cedar_raw=text, schema_version=schema_version)


async def _policies(unit: UnitOfWork, zone: Zone, common: dict[str, object], *, key_id: str) -> None:
    version = schema.CURRENT_VERSION
    policies, versions = [], []
    for default in all_defaults():
        text = _checked(default.text, version)
        policy_id, version_id = new_id(), new_id()
        policies.append(
            Policy.model_validate(
                {
                    **common,
                    "id": policy_id,
                    "name": default.name,
                    "description": default.description,
                    "created_by": unit.caller.id,
                    "latest_schema_version": version,
                    "latest_version": 1,
                    "latest_version_id": version_id,
                }
            )
        )
        versions.append(
            PolicyVersion.model_validate(
                {
                    **common,
                    "id": version_id,
                    "policy_id": policy_id,
                    "version": 1,
                    "schema_version": version,
                    "cedar_raw": text.raw,
                    "cedar_json": text.as_json,
                    "sha": text.sha,
                    "created_by": unit.caller.id,
                }
            )
        )
    await storage.insert_many(unit.conn, POLICY, policies)
    await storage.insert_many(unit.conn, POLICY_VERSION, versions)
    await _policy_set(unit, zone, common, versions, key_id=key_id)


async def _policy_set(
    unit: UnitOfWork,
    zone: Zone,
    common: dict[str, object],
    versions: list[PolicyVersion],
    *,
    key_id: str,
) -> None:
    set_id, version_id = new_id(), new_id()
    manifest = manifest_of(versions)
    digest = manifest_sha(manifest)
    policy_set = PolicySet.model_validate(
        {
            **common,
            "id": set_id,
            "name": DEFAULT_SET,
            "created_by": unit.caller.id,
            "latest_version": 1,
            "latest_version_id": version_id,
        }
    )
    statement = attestations.statement_of(unit, policy_set, version=1, manifest_sha=digest, key_id=key_id)
    version = PolicySetVersion.model_validate(
        {
            **common,
            "id": version_id,
            "policy_set_id": set_id,
            "version": 1,
            "schema_version": schema.CURRENT_VERSION,
            "manifest": manifest.model_dump(),
            "manifest_sha": digest,
            "attestation": statement.model_dump(),
            "created_by": unit.caller.id,
        }
    )
    await storage.insert(unit.conn, POLICY_SET, policy_set)
    await storage.insert(unit.conn, POLICY_SET_VERSION, version)
    await bindings.bind(
        unit.conn,
        zone_id=zone.id,
        target_type=PolicyTargetType.ZONE.value,
        target_id=zone.id,
        mode=PolicySetMode.ACTIVE.value,
        policy_set_id=set_id,
        policy_set_version_id=version_id,
        now=unit.now,
    )

"""Attestations: the signed statement (JWS) that the service stores with each policy set version."""

from runtime.adapters.keys.signing import Algorithm, SigningKey
from runtime.domain.kinds.policy import AttestationStatement, PolicySet
from runtime.services import zone_keys
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import zone_data

ALGORITHM: Algorithm = "ES256"
ATTESTATION_TYPE = "policy-set-attestation+jwt"


async def attest(
    unit: UnitOfWork, policy_set: PolicySet, *, version: int, manifest_sha: str
) -> tuple[AttestationStatement, str]:
    """The statement about a new version, and that statement as a JWS under the zone's signing key.

    The statement is part of the version; the JWS stands in the audit record of its making.
    """
    key = await _signing_key(unit, policy_set.zone_id)
    statement = statement_of(unit, policy_set, version=version, manifest_sha=manifest_sha, key_id=key.kid)
    return statement, key.sign(statement.model_dump(mode="json"), typ=ATTESTATION_TYPE)


def statement_of(
    unit: UnitOfWork, policy_set: PolicySet, *, version: int, manifest_sha: str, key_id: str
) -> AttestationStatement:
    """The statement about a new version, under the key of that id: of `ALGORITHM`, one of the zone's."""
    return AttestationStatement(
        attested_at=unit.now,
        attested_by=unit.caller.id,
        key_id=key_id,
        manifest_sha=manifest_sha,
        policy_set_id=policy_set.id,
        policy_set_version=version,
        status="created",
        zone_id=policy_set.zone_id,
    )


async def _signing_key(unit: UnitOfWork, zone_id: str) -> SigningKey:
    """The key the zone signs with now, read in this transaction: the zone may be as new as the version."""
    parsed = unit.cache.signing_keys.setdefault(zone_id, {})
    stored = await zone_data.keys(unit.conn, zone_id)
    sealer = await zone_keys.sealer(unit.services.data_keys, unit.conn, zone_id)
    ring = zone_keys.key_ring([one for one in stored if one.algorithm == ALGORITHM], sealer, parsed, unit.now)
    return ring.signing[ALGORITHM]

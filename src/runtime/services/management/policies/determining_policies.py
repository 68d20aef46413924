"""Describes the rules that decided a request: their policy, and the manifest that it was written from."""

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.decisions import DecidingPolicy, ManifestSource
from runtime.domain.kinds import POLICY
from runtime.storage.sql import bindings, ownership
from runtime.storage.sql.ownership import OwnershipRecord


async def describe(
    conn: AsyncConnection, organization_id: str, zone_id: str, names: Iterable[str]
) -> dict[str, DecidingPolicy]:
    """Each rule by its name, `<policy version id>#<rule>`, in two statements however many there are."""
    wanted = sorted(set(names))
    versions = {name: name.partition("#")[0] for name in wanted}
    known = await bindings.policies_of_versions(conn, zone_id, versions.values())
    owned = await ownership.of_entities(
        conn, organization_id, POLICY, {each.policy_id for each in known.values()}
    )
    found = {}
    for name in wanted:
        version_id, _, rule = name.partition("#")
        told = DecidingPolicy(rule=rule, policy_version_id=version_id)
        if (policy := known.get(version_id)) is not None:
            told = told.model_copy(
                update={
                    "policy_id": policy.policy_id,
                    "policy": policy.name,
                    "version": policy.version,
                    "source": source_of(owned.get(policy.policy_id)),
                }
            )
        found[name] = told
    return found


def source_of(record: OwnershipRecord | None) -> ManifestSource | None:
    """The manifest that an object was last written from; None for one that no configuration manages."""
    if record is None:
        return None
    of = record.source
    line = of.get("line")
    return ManifestSource(
        owner=record.owner,
        name=record.name,
        file=of.get("file"),
        line=line if isinstance(line, int) else None,
        commit=of.get("commit"),
        repository=of.get("repository"),
    )

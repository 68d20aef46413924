"""The revision of an organization, its audit log, and zone epochs: what every write of one advances."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import NotFound
from runtime.storage.sql.tables import METADATA

GENESIS = "0" * 64  # the hash before the first audit record

_heads = METADATA.tables["organization_heads"]
_audit = METADATA.tables["audit_events"]
_internals = METADATA.tables["zone_internals"]


@dataclass(frozen=True, slots=True)
class OrganizationHead:
    """The revision of an organization and the end of its audit chain, inside a transaction."""

    revision: int
    audit_sequence: int
    audit_hash: str


async def begin(conn: AsyncConnection, organization_id: str) -> None:
    """Insert the first revision of a new organization."""
    await conn.execute(
        insert(_heads).values(
            organization_id=organization_id, revision=0, audit_sequence=0, audit_hash=GENESIS
        )
    )


async def advance(conn: AsyncConnection, organization_id: str, *, by: int = 1) -> OrganizationHead:
    """Take the next revision. The organization's other writers wait until the transaction ends.

    Args:
        by: 0 keeps the revision, for what is recorded and changes nothing.
    """
    result = await conn.execute(
        update(_heads)
        .where(_heads.c.organization_id == organization_id)
        .values(revision=_heads.c.revision + by)
        .returning(_heads.c.revision, _heads.c.audit_sequence, _heads.c.audit_hash)
    )
    row = result.one_or_none()
    if row is None:
        raise NotFound(f"there is no Organization `{organization_id}`")
    return OrganizationHead(row.revision, row.audit_sequence, row.audit_hash)


async def revision(conn: AsyncConnection, organization_id: str) -> int:
    """The current revision. Raises NotFound."""
    found = await conn.scalar(select(_heads.c.revision).where(_heads.c.organization_id == organization_id))
    if found is None:
        raise NotFound(f"there is no Organization `{organization_id}`")
    return int(found)


async def append(
    conn: AsyncConnection, organization_id: str, head: OrganizationHead, records: Sequence[dict[str, Any]]
) -> OrganizationHead:
    """Add chained audit records, and move the head to the last of them."""
    if not records:
        return head
    await conn.execute(insert(_audit), [{**record, "organization_id": organization_id} for record in records])
    last = records[-1]
    await conn.execute(
        update(_heads)
        .where(_heads.c.organization_id == organization_id)
        .values(audit_sequence=last["sequence"], audit_hash=last["hash"])
    )
    return OrganizationHead(head.revision, last["sequence"], last["hash"])


async def audit_range(
    conn: AsyncConnection, organization_id: str, *, first: int, last: int
) -> list[dict[str, Any]]:
    """The audit records of that range, in order."""
    found = await conn.execute(
        select(_audit)
        .where(_audit.c.organization_id == organization_id, _audit.c.sequence.between(first, last))
        .order_by(_audit.c.sequence)
    )
    return [dict(row) for row in found.mappings()]


async def bump_zone_epochs(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, int]:
    """Add one to the epochs of these zones; the new epochs by zone."""
    bumped = {}
    for zone_id in sorted(zone_ids):
        epoch = await conn.scalar(
            update(_internals)
            .where(_internals.c.zone_id == bindparam("of_zone"))
            .values(epoch=_internals.c.epoch + 1)
            .returning(_internals.c.epoch),
            {"of_zone": zone_id},
        )
        if epoch is not None:
            bumped[zone_id] = int(epoch)
    return bumped

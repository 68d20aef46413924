"""What the deletions of a changeset take along: asked of what is there, which a dry run does not copy."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.domain.kinds import BY_NAME, Verb
from runtime.services.management.changesets.changeset import PackedChangeset
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import deletion_effects as storage


@dataclass(frozen=True)
class DeletionImpact:
    """What goes with one entity: how many of what; and whether it was used within the last thirty days."""

    takes_along: Mapping[str, int]
    in_use: bool


async def of(unit: UnitOfWork, changeset: PackedChangeset) -> dict[int, DeletionImpact]:
    """Index of each deletion -> what goes with what it deletes. What is archived takes nothing along."""
    by_kind: dict[str, dict[str, int]] = {}
    for index, operation in enumerate(changeset.operations):
        if operation.op == "delete" and operation.id is not None and operation.kind in BY_NAME:
            by_kind.setdefault(operation.kind, {})[operation.id] = index
    found: dict[int, DeletionImpact] = {}
    for name, ids in by_kind.items():
        kind = BY_NAME[name]
        if Verb.ARCHIVE in kind.verbs:
            continue
        own = await storage.owned(unit.conn, kind, unit.organization_id, ids)
        for tenant_id, there in own.items():
            counts = await storage.count(unit.conn, kind, tenant_id, there, now=unit.now)
            used = await storage.used(unit.conn, kind, unit.organization_id, tenant_id, there, now=unit.now)
            for entity_id in there:
                numbers = counts.get(entity_id, Counter())
                found[ids[entity_id]] = DeletionImpact(dict(sorted(numbers.items())), entity_id in used)
    return found


def told(answer: dict[str, Any], losses: Mapping[int, DeletionImpact]) -> dict[str, Any]:
    """The answer of a dry run, with what goes with each deletion."""
    for index, loss in losses.items():
        answer["operations"][index] |= {"takes_along": dict(loss.takes_along), "in_use": loss.in_use}
    return answer

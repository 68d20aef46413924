"""What was written since a plan was made: whoever planned has not seen it, so nothing is done."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.contract.changes import Changeset, Operation
from runtime.domain.errors import PreconditionFailed, Problem
from runtime.domain.kinds import ALL, BY_NAME, ZONE, Verb
from runtime.domain.kinds.values import rfc3339
from runtime.services.management.access import permissions
from runtime.services.management.audit import SUBJECT as AUDIT
from runtime.services.management.unit import Unit
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import Standing


async def standing_of(unit: Unit, changeset: Changeset) -> dict[tuple[str, str], Standing]:
    """What stands under the ids that the operations name, asked kind by kind."""
    ids: dict[str, set[str]] = {}
    for operation in changeset.operations:
        if operation.id is not None:
            ids.setdefault(operation.kind, set()).add(operation.id)
    found: dict[tuple[str, str], Standing] = {}
    for name, wanted in ids.items():
        rows = await storage.standing(unit.conn, BY_NAME[name], unit.organization_id, wanted)
        found.update(((name, entity_id), one) for entity_id, one in rows.items())
    return found


async def require_base(
    unit: Unit, changeset: Changeset, standing: Mapping[tuple[str, str], Standing]
) -> None:
    """Raise PreconditionFailed when something that is touched was written after the base revision.

    Who did that, when and how is told to those who may read the audit log.
    """
    base = changeset.base_revision
    if base > await unit.revision() - 1:
        raise PreconditionFailed(f"revision {base} is yet to come; make the plan again")
    stale: dict[int, str] = {}
    for index, operation in enumerate(changeset.operations):
        if operation.id is None:
            continue
        one = standing.get((operation.kind, operation.id))
        if one is not None and one.revision > base:
            stale[index] = operation.id
        elif operation.op == "delete" and operation.kind == ZONE.name and one is not None:
            inside = await _changed_inside(unit, operation.id, base)
            if inside is not None:
                stale[index] = inside
        if len(stale) == MAX_PROBLEMS:
            break
    if not stale:
        return
    last: Mapping[str, Any] = {}
    if permissions.allows(unit.caller.roles_in(None), AUDIT, Verb.LIST):
        last = await storage.last_changes(unit.conn, unit.organization_id, set(stale.values()))
    problems = [
        Problem(
            PreconditionFailed.code,
            _who_changed(changeset.operations[index], entity_id, last.get(entity_id)),
            f"operations[{index}]",
        )
        for index, entity_id in stale.items()
    ]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    raise PreconditionFailed(f"changed since revision {base}: {problems[0].message}{more}", problems=problems)


async def _changed_inside(unit: Unit, zone_id: str, base: int) -> str | None:
    for kind in ALL:
        if kind.zoned and (changed := await storage.changed_in_zone(unit.conn, kind, zone_id, base)):
            return changed[0]
    return None


def _who_changed(operation: Operation, entity_id: str, record: Any) -> str:
    subject = f"{operation.kind} `{operation.name or entity_id}`"
    if record is None:
        return f"{subject} has changed"
    by = f"{record.actor_type} `{record.actor_id}` at {rfc3339(record.at)} ({record.action})"
    through = f" in changeset `{record.changeset_id}`" if record.changeset_id else ""
    return f"{subject} was changed by {by}{through}"

"""Phase: check staleness. A changeset fails when what it touches was written after its base revision."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.errors import PreconditionFailed, Problem
from runtime.domain.identifiers import slug_of
from runtime.domain.kinds import ALL, BY_NAME, ZONE, Kind, Verb
from runtime.domain.kinds.values import rfc3339
from runtime.services.management.access import permissions
from runtime.services.management.audit import SUBJECT as AUDIT
from runtime.services.management.changesets.changeset import (
    CreateOperation,
    DeleteOperation,
    DeliveredOperation,
    PackedChangeset,
    PackedOperation,
)
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import CurrentRevision


async def current_revisions(
    unit: UnitOfWork, changeset: PackedChangeset
) -> dict[tuple[str, str], CurrentRevision]:
    """(kind, id) -> the entity as it is before the changeset, with its revision; one query for each kind."""
    ids: dict[str, set[str]] = {}
    for operation in changeset.operations:
        if operation.id is not None:
            ids.setdefault(operation.kind, set()).add(operation.id)
    found: dict[tuple[str, str], CurrentRevision] = {}
    for name, wanted in ids.items():
        rows = await storage.current_revisions(unit.conn, BY_NAME[name], unit.organization_id, wanted)
        found.update(
            ((name, entity_id), one)
            for entity_id, one in rows.items()
            if unit.caller.scope.reaches(one.zone_id)
        )
    return found


async def require_base_revision(
    unit: UnitOfWork, changeset: PackedChangeset, current: Mapping[tuple[str, str], CurrentRevision]
) -> None:
    """Raise PreconditionFailed when something that is touched was written after the base revision.

    A changeset that only says that secrets were delivered is never stale: they were, whatever came after.

    What is to be created counts as touched where it was made meanwhile; and so does the whole of a
    configuration that was itself applied meanwhile, by another run. Who did that, when and how is told to
    those who may read the audit log.
    """
    base, newest = changeset.base_revision, await unit.next_revision() - 1
    if base > newest:
        raise PreconditionFailed(f"the base revision {base} does not exist: the newest is {newest}")
    if base == newest or all(isinstance(each, DeliveredOperation) for each in changeset.operations):
        return
    stale = await _made_meanwhile(unit, changeset)
    for index, operation in enumerate(changeset.operations):
        if operation.id is None:
            continue
        one = current.get((operation.kind, operation.id))
        if one is not None and one.revision > base:
            stale[index] = operation.id
        elif isinstance(operation, DeleteOperation) and operation.kind == ZONE.name and one is not None:
            inside = await _changed_inside(unit, operation.id, base)
            if inside is not None:
                stale[index] = inside
        if len(stale) == MAX_PROBLEMS:
            break
    if not stale:
        await _refuse_two_runs(unit, changeset)
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


async def _refuse_two_runs(unit: UnitOfWork, changeset: PackedChangeset) -> None:
    """Raise PreconditionFailed when the same configuration was applied after the base revision."""
    base, owner = changeset.base_revision, changeset.owner
    other = await storage.applied_since(unit.conn, unit.organization_id, owner, base)
    if other is not None:
        message = (
            f"`{owner}` was applied meanwhile: changeset `{other.id}` at {rfc3339(other.created_at)},"
            f" now at revision {other.revision}"
        )
        raise PreconditionFailed(
            f"changed since revision {base}: {message}",
            problems=[Problem(PreconditionFailed.code, message, "base_revision")],
        )


async def _made_meanwhile(unit: UnitOfWork, changeset: PackedChangeset) -> dict[int, str]:
    """What creations would make, and was made after the base revision: index -> id of what is there now."""
    wanted: dict[tuple[str, str | None], dict[str, int]] = {}
    for index, operation in enumerate(changeset.operations):
        if not isinstance(operation, CreateOperation) or (kind := BY_NAME[operation.kind]).handle is None:
            continue
        zone_id = operation.zone.id if kind.zoned and operation.zone is not None else None
        if kind.zoned and zone_id is None:
            continue  # in a zone that is yet to be made
        handle = _handle(kind, operation)
        if handle is not None:
            wanted.setdefault((kind.name, zone_id), {}).setdefault(handle, index)
    found: dict[int, str] = {}
    for (name, zone_id), handles in wanted.items():
        made = await storage.made_since(
            unit.conn,
            BY_NAME[name],
            unit.organization_id,
            zone_id=zone_id,
            handles=handles,
            since=changeset.base_revision,
        )
        found.update((handles[handle], entity_id) for handle, entity_id in made.items())
    return dict(sorted(found.items())[:MAX_PROBLEMS])


def _handle(kind: Kind, operation: PackedOperation) -> str | None:
    """The handle that a creation asks for; that of a zone follows from its name."""
    value = operation.spec.get("name" if kind is ZONE else str(kind.handle))
    if not isinstance(value, str):
        return None
    return slug_of(value) if kind is ZONE else value


async def _changed_inside(unit: UnitOfWork, zone_id: str, base: int) -> str | None:
    for kind in ALL:
        if kind.zoned and (changed := await storage.changed_in_zone(unit.conn, kind, zone_id, base)):
            return changed[0]
    return None


def _who_changed(operation: PackedOperation, entity_id: str, record: Any) -> str:
    subject = f"{operation.kind} `{operation.name or entity_id}`"
    if record is None:
        return f"{subject} has changed"
    by = f"{record.actor_type} `{record.actor_id}` at {rfc3339(record.at)} ({record.action})"
    through = f" in changeset `{record.changeset_id}`" if record.changeset_id else ""
    return f"{subject} was changed by {by}{through}"

"""Changesets: a list of operations that happens wholly or not at all, in one transaction."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.answers import part_answer
from runtime.contract.changes import AuditRange, Changeset, ChangesetResult, Operation, OperationResult
from runtime.domain.errors import Conflict, ManagementError, NotFound, Problem, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ALL, BY_NAME, Verb
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changes import receipts
from runtime.services.management.changes.extras import Later
from runtime.services.management.changes.ownership import Owners
from runtime.services.management.changes.pointers import has_pointers, resolved, stand_in
from runtime.services.management.changes.receipts import SUBJECT
from runtime.services.management.changes.references import Target
from runtime.services.management.changes.specs import Parts as SpecParts
from runtime.services.management.changes.specs import located, take_apart
from runtime.services.management.changes.staleness import require_base, standing_of
from runtime.services.management.changes.steps import Steps
from runtime.services.management.unit import Unit, unit_of_work
from runtime.services.parts import Parts
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import Applied

MANIFEST_KINDS = {kind.name: kind for kind in ALL if kind.manifest}
_PROGRESS_EVERY = 100

Progress = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True)
class Outcome:
    """The answer of a changeset, and whether it is that of an earlier one with the same plan."""

    answer: dict[str, Any]
    replayed: bool = False


class _AppliedBefore(Exception):
    """Leaves the transaction: another request has applied the same plan in the meantime."""

    def __init__(self, applied: Applied) -> None:
        super().__init__(applied.id)
        self.applied = applied


async def apply(
    parts: Parts,
    caller: Caller,
    organization: str,
    changeset: Changeset,
    *,
    request_id: str,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Apply a changeset, or with `dry_run` do everything and then undo it.

    Args:
        organization: id or label.
        progress: told how many operations are done, of how many.

    Returns:
        The answer; of the first time, when the same plan is sent again.
    Raises:
        ValidationFailed, Forbidden, NotFound, Conflict: as a single call would, with the operation's place.
        PreconditionFailed: something has changed since the base; the problems say what, and who did it.
        Conflict: another body under the same plan digest.
    """
    digest = body_digest(parts, changeset)
    checked = await _check(changeset, dry_run=dry_run)
    acting = _acting(caller, changeset, dry_run=dry_run)
    changeset_id = None if dry_run else new_id()
    try:
        async with unit_of_work(
            parts, acting, request_id, changeset_id=changeset_id, dry_run=dry_run
        ) as unit:
            found = await entities.organization_of(unit, organization)
            await unit.revision()  # from here on nobody else of the organization writes
            if not dry_run:
                await _stop_if_applied(unit.conn, found.id, changeset)
            results = await _run(unit, changeset, checked, progress)
            answer = _answer(unit, changeset, results)
            if not dry_run:
                await receipts.keep(unit, changeset, digest, answer, caller)
    except _AppliedBefore as before:
        return _replayed(before.applied, digest)
    return Outcome(_with_secrets(unit, answer))


def body_digest(parts: Parts, changeset: Changeset) -> str:
    """What tells two bodies apart. It is keyed: the secrets in a body cannot be guessed from it."""
    canonical = json.dumps(changeset.model_dump(mode="json"), sort_keys=True)
    return parts.hasher.hash(canonical).hex()


def _acting(caller: Caller, changeset: Changeset, *, dry_run: bool) -> Caller:
    """Who the operations run as. A dry run changes nothing, so seeing everything it mentions is enough."""
    permissions.require(caller.roles_anywhere, SUBJECT, Verb.RETRIEVE if dry_run else Verb.CREATE)
    if not dry_run:
        return caller  # each operation asks for what it needs, where it needs it
    for index, operation in enumerate(changeset.operations):
        roles = (caller.role, *caller.zone_roles.get((operation.zone and operation.zone.id) or "", ()))
        if not permissions.allows(roles, BY_NAME[operation.kind].operations, Verb.RETRIEVE):
            refused = NotFound(f"there is nothing called `{operation.kind}` here")
            raise _placed(refused, index, operation, in_spec=False)
    return replace(caller, role="org_admin")


async def _check(changeset: Changeset, *, dry_run: bool) -> dict[int, SpecParts]:
    """Check every spec; the parts of those that nothing is left to find out about.

    Raises: ValidationFailed, with the problems of all operations.
    """
    problems: list[Problem] = []
    checked: dict[int, SpecParts] = {}
    for index, operation in enumerate(changeset.operations):
        if index % _PROGRESS_EVERY == 0:
            await asyncio.sleep(0)  # other requests are served in between
        if operation.kind not in MANIFEST_KINDS:
            known = ", ".join(f"`{name}`" for name in MANIFEST_KINDS)
            message = f"unknown kind `{operation.kind}`; there are {known}"
            problems.append(Problem("validation_error", message, f"operations[{index}].kind"))
        elif operation.op in ("create", "update", "adopt"):
            try:
                _check_spec(index, operation, checked, dry_run=dry_run)
            except ValidationFailed as refused:
                problems.extend(located(refused, index, operation))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ValidationFailed(f"`{problems[0].field}`: {problems[0].message}{more}", problems=problems)
    return checked


def _check_spec(index: int, operation: Operation, checked: dict[int, SpecParts], *, dry_run: bool) -> None:
    spec = resolved(operation.spec, stand_in)
    if BY_NAME[operation.kind].variants and operation.op != "create":
        return  # which variant it is, only the entity knows
    if has_pointers(operation.spec):
        take_apart(operation, spec, dry_run=dry_run)
    else:
        checked[index] = take_apart(operation, operation.spec, dry_run=dry_run)


async def _stop_if_applied(conn: AsyncConnection, organization_id: str, changeset: Changeset) -> None:
    if applied := await storage.find_by_plan(conn, organization_id, changeset.plan_digest):
        raise _AppliedBefore(applied)


def _replayed(applied: Applied, digest: str) -> Outcome:
    if applied.body_digest != digest:
        raise Conflict(
            f"changeset `{applied.id}` has applied another body under this plan digest",
            problems=[Problem("conflict", "names a plan that is applied already", "plan_digest")],
        )
    return Outcome(applied.result, replayed=True)


async def _run(
    unit: Unit, changeset: Changeset, checked: Mapping[int, SpecParts], progress: Progress | None
) -> list[Target]:
    standing = await standing_of(unit, changeset)
    await require_base(unit, changeset, standing)
    owners = Owners(changeset.owner, changeset.source.model_dump(exclude_none=True))
    await owners.load(unit, changeset.operations)
    steps = Steps(unit, owners, checked, standing)
    total = len(changeset.operations)
    results: list[Target] = []
    for index, operation in enumerate(changeset.operations):
        try:
            results.append(await steps.run(index, operation))
        except ManagementError as refused:
            raise _placed(refused, index, operation) from refused
        if progress is not None and (index + 1) % _PROGRESS_EVERY == 0:
            await progress(index + 1, total)
    await _finish(steps.extras.remaining(), steps.extras.finish)
    await steps.extras.refresh_active_sets()
    await _finish(steps.removals(), steps.remove)
    await owners.flush(unit)
    if progress is not None:
        await progress(total, total)
    return results


async def _finish(waiting: Iterable[Later], finish: Callable[[Later], Awaitable[None]]) -> None:
    """Do what has waited for the end. Raises ManagementError, which says which operation it is about."""
    for later in waiting:
        try:
            await finish(later)
        except ManagementError as refused:
            raise _placed(refused, later.index, later.operation) from refused


def _placed(
    refused: ManagementError, index: int, operation: Operation, *, in_spec: bool = True
) -> ManagementError:
    """The same refusal, which says which operation it is about."""
    name = operation.name or operation.id or operation.local_id or ""
    detail = f"operation {index} ({operation.op} {operation.kind} `{name}`): {refused.detail}"
    problems = located(refused, index, operation, in_spec=in_spec)
    return type(refused)(detail, problems=problems, internal=refused.internal)


def _answer(unit: Unit, changeset: Changeset, results: list[Target]) -> ChangesetResult:
    head = unit.head
    revision = head.revision if head else changeset.base_revision
    audit = None
    if head is not None and unit.records and not unit.dry_run:
        audit = AuditRange(first=head.audit_sequence + 1, last=head.audit_sequence + unit.records)
    return ChangesetResult(
        id=unit.changeset_id,
        base_revision=changeset.base_revision,
        revision=revision,
        dry_run=unit.dry_run,
        operations=[
            OperationResult(index=index, op=done.op, kind=done.kind, id=target.id, name=done.name)
            for index, (done, target) in enumerate(zip(changeset.operations, results, strict=True))
        ],
        audit=audit,
    )


def _with_secrets(unit: Unit, result: ChangesetResult) -> dict[str, Any]:
    """The answer with what is shown once; nothing of it is kept, and a dry run shows nothing."""
    answer = part_answer(result)
    if unit.dry_run:
        return answer
    for done in answer["operations"]:
        if done["op"] == "create" and (secrets := unit.shown_once.get(done["id"])):
            done["shown_once"] = secrets
    return answer

"""Changesets: a list of operations that happens wholly or not at all, in one transaction."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.keys.sealing import SecretHasher
from runtime.contract.answers import part_answer
from runtime.contract.bodies import MAX_PROBLEMS
from runtime.contract.changes import AuditRange, ChangesetResult, OperationResult
from runtime.domain.errors import (
    Conflict,
    ManagementError,
    NotFound,
    Problem,
    TooLarge,
    ValidationFailed,
)
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ALL, APPLICATION, BY_NAME, ZONE
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import authorization, deletion_impact, dry_run_budget, receipts
from runtime.services.management.changesets.changeset import PackedChangeset, PackedOperation
from runtime.services.management.changesets.execution import Execution
from runtime.services.management.changesets.ownership import OwnershipRecords
from runtime.services.management.changesets.pointers import has_pointers, resolved, stand_in
from runtime.services.management.changesets.problems import CollectedProblems
from runtime.services.management.changesets.references import EntityRef
from runtime.services.management.changesets.relations import DeferredStep
from runtime.services.management.changesets.specs import located, split_spec
from runtime.services.management.changesets.staleness import require_base, standing_of
from runtime.services.management.operations import zones_made
from runtime.services.management.time_slices import TimeSlice
from runtime.services.management.unit_of_work import UnitOfWork, read_only, unit_of_work
from runtime.services.management.unit_of_work import dry_run as dry_run_unit
from runtime.storage.sql import changes as storage
from runtime.storage.sql import insert_batches
from runtime.storage.sql.changes import ChangesetRecord

# How long a dry run may take: a minute, and for each operation many times what one takes.
DRY_RUN_SECONDS, OPERATION_SECONDS = 60.0, 0.015
MANIFEST_KINDS = {kind.name: kind for kind in ALL if kind.manifest}
_PROGRESS_EVERY = 100

Progress = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True)
class AppliedChangeset:
    """The answer of a changeset, and whether it is that of an earlier one with the same plan."""

    answer: dict[str, Any]
    replayed: bool = False


class _AppliedBefore(Exception):
    """Leaves the transaction: another request has applied the same plan in the meantime."""

    def __init__(self, applied: ChangesetRecord) -> None:
        super().__init__(applied.id)
        self.applied = applied


async def apply_changeset(
    services: Services,
    caller: Caller,
    organization: str,
    changeset: PackedChangeset,
    *,
    request_id: str,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> AppliedChangeset:
    """Apply a changeset, or with `dry_run` find out what that would come to.

    Args:
        organization: id or label.
        progress: told how many operations are done, of how many.

    Returns:
        The answer; of the first time, when the same plan is sent again.
    Raises:
        ValidationFailed, Forbidden, NotFound, Conflict: as a single call would, with the operation's place.
        PreconditionFailed: something has changed since the base; the problems say what, and who did it.
        Conflict: another body under the same plan digest.
        TooLarge: a dry run takes longer than one may.
    """
    acting = authorization.acting(caller, dry_run=dry_run)
    authorization.require_bound(acting, changeset)
    if dry_run:
        dry_run_budget.require(services, caller)
    checked = await _check(acting, changeset, dry_run=dry_run)
    if dry_run:
        return await _tried(services, acting, organization, changeset, checked, request_id, progress)
    digest = await body_digest(services.hasher, changeset)
    try:
        new_zones = await _new_zones(services, acting, organization, changeset, request_id)
        async with unit_of_work(
            services, acting, request_id, changeset_id=new_id(), new_zones=new_zones
        ) as unit:
            found = await entities.organization_of(unit, organization)
            await unit.revision()  # from here on nobody else of the organization writes
            await _stop_if_applied(unit.conn, found.id, changeset)
            results = await _run(unit, changeset, checked, progress)
            answer = await _answer(unit, changeset, results)
            await receipts.keep(unit, changeset, digest, answer, caller)
    except _AppliedBefore as before:
        return _replayed(before.applied, digest)
    return AppliedChangeset(_with_secrets(unit, answer))


async def _tried(
    services: Services,
    acting: Caller,
    organization: str,
    changeset: PackedChangeset,
    checked: dict[int, bytes],
    request_id: str,
    progress: Progress | None,
) -> AppliedChangeset:
    """What a changeset would come to, tried out where nobody sees it and nobody waits for it."""
    seconds = DRY_RUN_SECONDS + OPERATION_SECONDS * len(changeset.operations)
    try:
        async with asyncio.timeout(seconds):
            async with read_only(services, acting, request_id) as unit:
                own_zone = (await entities.organization_of(unit, organization)).zone_id
                zone_ids = await _zones_of(unit, changeset) | ({own_zone} if own_zone else set())
                gone = await deletion_impact.of(unit, changeset)
            names = _names_in(changeset)
            try:
                async with dry_run_unit(services, acting, request_id, zone_ids, names) as unit:
                    with dry_run_budget.spending(services, acting):
                        async with insert_batches.batched(unit.conn):
                            results = await _run(unit, changeset, checked, progress)
                        answer = await _answer(unit, changeset, results)
                    return AppliedChangeset(deletion_impact.told(answer, gone))
            except (ValidationFailed, Conflict, NotFound, insert_batches.BatchRejected):
                pass
            # One by one: somebody is going to mend it, and hears of everything at once.
            async with dry_run_unit(services, acting, request_id, zone_ids, names) as unit:
                with dry_run_budget.spending(services, acting):
                    results = await _run(unit, changeset, checked, None, CollectedProblems())
                    answer = await _answer(unit, changeset, results)
                return AppliedChangeset(deletion_impact.told(answer, gone))
    except TimeoutError:
        raise TooLarge(
            f"trying out {len(changeset.operations)} operations takes longer than {seconds:.0f} seconds;"
            " plan fewer zones at a time"
        ) from None


async def _new_zones(
    services: Services, acting: Caller, organization: str, changeset: PackedChangeset, request_id: str
) -> int:
    """How many zones a changeset makes. Raises _AppliedBefore, for which none have to be ready."""
    created = sum(each.op == "create" and each.kind == ZONE.name for each in changeset.operations)
    if created:
        async with read_only(services, acting, request_id) as unit:
            found = await entities.organization_of(unit, organization)
            await _stop_if_applied(unit.conn, found.id, changeset)
    return zones_made(acting, ZONE, create=created)


async def _zones_of(unit: UnitOfWork, changeset: PackedChangeset) -> set[str]:
    """The ids of the zones that a changeset is about, as far as they are there."""
    zone_ids = {
        operation.id if operation.kind == ZONE.name else operation.zone and operation.zone.id
        for operation in changeset.operations
    }
    standing = await standing_of(unit, changeset)
    return {zone_id for zone_id in zone_ids | {one.zone_id for one in standing.values()} if zone_id}


def _names_in(changeset: PackedChangeset) -> set[str]:
    """What applications are going to be called."""
    applications = [each for each in changeset.operations if each.kind == APPLICATION.name]
    names = {name for each in applications for name in (each.name, each.spec.get(APPLICATION.handle or ""))}
    return {name for name in names if isinstance(name, str)}


async def body_digest(hasher: SecretHasher, changeset: PackedChangeset) -> str:
    """What tells two bodies apart. It is keyed: the secrets in a body cannot be guessed from it."""
    pace, digest = TimeSlice(), hasher.begin()
    rest = {
        "base_revision": changeset.base_revision,
        "owner": changeset.owner,
        "plan_digest": changeset.plan_digest,
        "source": changeset.source.model_dump(mode="json"),
        "operations": [],
    }
    before, place, after = json.dumps(rest, sort_keys=True).partition('"operations": [')
    digest.update(f"{before}{place}".encode())
    for index, operation in enumerate(changeset.operations):
        text = json.dumps(operation.as_json(), sort_keys=True)
        digest.update(f"{', ' if index else ''}{text}".encode())
        await pace.rest()
    digest.update(after.encode())
    return digest.hexdigest()


async def _check(acting: Caller, changeset: PackedChangeset, *, dry_run: bool) -> dict[int, bytes]:
    """Check every operation by itself; the parts of the specs that nothing is left to find out about.

    Raises:
        ValidationFailed: with the problems of all operations, up to a hundred of them.
        NotFound, Forbidden: for the first operation that is not for the caller to send.
    """
    pace = TimeSlice()
    problems: list[Problem] = []
    checked: dict[int, bytes] = {}
    for index, operation in enumerate(changeset.operations):
        await pace.rest()
        if operation.kind not in MANIFEST_KINDS:
            known = ", ".join(f"`{name}`" for name in MANIFEST_KINDS)
            message = f"unknown kind `{operation.kind}`; there are {known}"
            problems.append(Problem("validation_error", message, f"operations[{index}].kind"))
        else:
            problems += _problems_of(acting, index, operation, checked, dry_run=dry_run)
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise wrong(problems)
    return checked


def wrong(problems: list[Problem]) -> ValidationFailed:
    """The refusal of a changeset for problems of its operations; no more of them than anybody reads."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if len(problems) >= MAX_PROBLEMS:
        problems, more = problems[:MAX_PROBLEMS], " (and more than can be told)"
    return ValidationFailed(f"`{problems[0].field}`: {problems[0].message}{more}", problems=problems)


def _problems_of(
    acting: Caller, index: int, operation: PackedOperation, checked: dict[int, bytes], *, dry_run: bool
) -> list[Problem]:
    try:
        authorization.require(acting, operation)
        if operation.op in ("create", "update", "adopt"):
            _check_spec(index, operation, checked, dry_run=dry_run)
    except ValidationFailed as refused:
        return located(refused, index, operation)
    except ManagementError as refused:
        raise _placed(refused, index, operation, in_spec=False) from refused
    return []


def _check_spec(index: int, operation: PackedOperation, checked: dict[int, bytes], *, dry_run: bool) -> None:
    spec = operation.spec
    if points := has_pointers(spec):
        spec = resolved(spec, stand_in)
    if BY_NAME[operation.kind].variants and operation.op != "create":
        return  # which variant it is, only the entity knows
    parts = split_spec(operation, spec, dry_run=dry_run)
    if not points:
        checked[index] = parts.packed()


async def _stop_if_applied(conn: AsyncConnection, organization_id: str, changeset: PackedChangeset) -> None:
    if applied := await storage.find_by_plan(conn, organization_id, changeset.owner, changeset.plan_digest):
        raise _AppliedBefore(applied)


def _replayed(applied: ChangesetRecord, digest: str) -> AppliedChangeset:
    if applied.body_digest != digest:
        raise Conflict(
            f"changeset `{applied.id}` has applied another body under this plan digest",
            problems=[Problem("conflict", "names a plan that is applied already", "plan_digest")],
        )
    return AppliedChangeset(applied.result, replayed=True)


async def _run(
    unit: UnitOfWork,
    changeset: PackedChangeset,
    checked: dict[int, bytes],
    progress: Progress | None,
    refusals: CollectedProblems | None = None,
) -> list[EntityRef]:
    """Do all operations. Raises ManagementError: the first refusal, or with *refusals* all of them."""
    standing = await standing_of(unit, changeset)
    await require_base(unit, changeset, standing)
    owners = OwnershipRecords(
        changeset.owner, changeset.source.model_dump(exclude_none=True), trying=unit.dry_run
    )
    await owners.load(unit, changeset.operations)
    steps = Execution(unit, owners, checked, standing)
    try:
        await steps.handles.load(changeset.operations, standing)
        return await _steps(steps, changeset, progress, refusals)
    finally:
        steps.handles.end()


async def _steps(
    steps: Execution,
    changeset: PackedChangeset,
    progress: Progress | None,
    refusals: CollectedProblems | None,
) -> list[EntityRef]:
    total, pace = len(changeset.operations), TimeSlice()
    results: list[EntityRef] = []
    for index, operation in enumerate(changeset.operations):
        await pace.rest()
        if refusals is not None and not refusals.holds(operation):
            continue
        async with _aside(steps, refusals, operation):
            with _at(index, operation):
                results.append(await steps.run(index, operation))
        if progress is not None and (index + 1) % _PROGRESS_EVERY == 0:
            await progress(index + 1, total)
    await _finish(steps, steps.extras.remaining(), steps.extras.finish, refusals)
    await steps.extras.refresh_active_sets()
    await _finish(steps, steps.removals(), steps.remove, refusals)
    await _finish(steps, steps.named(), steps.require_apart, refusals)
    if problems := await steps.names.problems():
        raise wrong(problems)
    await steps.owners.flush(steps.unit, base=changeset.base_revision)
    if progress is not None:
        await progress(total, total)
    return results


async def _finish(
    steps: Execution,
    waiting: Iterable[DeferredStep],
    finish: Callable[[DeferredStep], Awaitable[None]],
    refusals: CollectedProblems | None,
) -> None:
    """Do what has waited for the end. Raises ManagementError, also for what was refused before."""
    if refusals is not None:
        refusals.stop()
    pace = TimeSlice()
    for later in waiting:
        await pace.rest()
        async with _aside(steps, refusals, later.operation):
            with _at(later.index, later.operation):
                await finish(later)
    if refusals is not None:
        refusals.stop()


def _aside(
    steps: Execution, refusals: CollectedProblems | None, operation: PackedOperation
) -> AbstractAsyncContextManager[None]:
    return nullcontext() if refusals is None else refusals.aside(steps.unit.conn, operation)


@contextmanager
def _at(index: int, operation: PackedOperation) -> Iterator[None]:
    """A refusal within says which operation it is about."""
    try:
        yield
    except ManagementError as refused:
        raise _placed(refused, index, operation) from refused


def _placed(
    refused: ManagementError, index: int, operation: PackedOperation, *, in_spec: bool = True
) -> ManagementError:
    """The same refusal, which says which operation it is about."""
    name = operation.name or operation.id or operation.local_id or ""
    detail = f"operation {index} ({operation.op} {operation.kind} `{name}`): {refused.detail}"
    problems = located(refused, index, operation, in_spec=in_spec)
    return type(refused)(detail, problems=problems, internal=refused.internal)


async def _answer(unit: UnitOfWork, changeset: PackedChangeset, results: list[EntityRef]) -> dict[str, Any]:
    """What a changeset is answered with. It may be long: others are served in between."""
    pace, head = TimeSlice(), unit.head
    revision = head.revision if head else changeset.base_revision
    audit = None
    if (sequences := unit.audit_range) is not None and not unit.dry_run:
        audit = AuditRange(first=sequences[0], last=sequences[1])
    result = ChangesetResult(
        id=unit.changeset_id,
        base_revision=changeset.base_revision,
        revision=revision,
        dry_run=unit.dry_run,
        operations=[],
        audit=audit,
    )
    answer = part_answer(result)
    for index, (done, target) in enumerate(zip(changeset.operations, results, strict=True)):
        one = OperationResult(index=index, op=done.op, kind=done.kind, id=target.id, name=done.name)
        answer["operations"].append(part_answer(one))
        await pace.rest()
    return answer


def _with_secrets(unit: UnitOfWork, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with what is shown once; nothing of that is kept."""
    for done in answer["operations"]:
        if done["op"] == "create" and (secrets := unit.shown_once.get(done["id"])):
            done["shown_once"] = secrets
    return answer

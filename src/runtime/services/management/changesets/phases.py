"""The phases of a changeset inside its transaction, in order, the same for an apply and a dry run."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from runtime.services.management.changesets import deletion_groups
from runtime.services.management.changesets.changeset import PackedChangeset, PackedOperation
from runtime.services.management.changesets.operations import OperationRunner
from runtime.services.management.changesets.ownership import OwnershipRecords
from runtime.services.management.changesets.problems import (
    CollectedProblems,
    at_operation,
    invalid_changeset,
)
from runtime.services.management.changesets.references import EntityRef
from runtime.services.management.changesets.relations import DeferredStep
from runtime.services.management.changesets.staleness import current_revisions, require_base_revision
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.time_slices import TimeSlice

_PROGRESS_EVERY = 100

Progress = Callable[[int, int], Awaitable[None]]
"""Receives how many operations are done, of how many."""


async def execute(
    unit: UnitOfWork,
    changeset: PackedChangeset,
    parsed_specs: dict[int, bytes],
    progress: Progress | None,
    collected: CollectedProblems | None = None,
) -> list[EntityRef]:
    """Carry a changeset out; the entity that each operation was about.

    Args:
        parsed_specs: as `validation.check_operations` returns them; taken out one by one.
        collected: of a dry run that reports all problems; otherwise the first error ends it.
    Raises: ManagementError, which names its operation.
    """
    current = await current_revisions(unit, changeset)
    await require_base_revision(unit, changeset, current)
    owners = await _load_ownership(unit, changeset)
    runner = OperationRunner(unit, owners, parsed_specs, current)
    phases = _Phases(runner, collected)
    try:
        await runner.handle_swaps.load(changeset.operations, current)
        results = await phases.apply_operations(changeset, progress)
        await phases.write_relations()
        await phases.remove_policies()
        await phases.require_unique_names()
        await phases.require_policy_references()
        await owners.flush(unit, base=changeset.base_revision)
    finally:
        runner.handle_swaps.close()
    if progress is not None:
        await progress(len(changeset.operations), len(changeset.operations))
    return results


async def _load_ownership(unit: UnitOfWork, changeset: PackedChangeset) -> OwnershipRecords:
    source = changeset.source.model_dump(exclude_none=True)
    owners = OwnershipRecords(changeset.owner, source, dry_run=unit.dry_run)
    await owners.load(unit, changeset.operations)
    return owners


@dataclass(frozen=True)
class _Phases:
    """The phases that go through operations: each error names its operation, and is raised or collected."""

    runner: OperationRunner
    collected: CollectedProblems | None

    async def apply_operations(
        self, changeset: PackedChangeset, progress: Progress | None
    ) -> list[EntityRef]:
        """Apply every operation in its order."""
        total, time_slice = len(changeset.operations), TimeSlice()
        results: list[EntityRef] = []
        together = self.runner.unit.dry_run and self.collected is None
        told = 0
        for first, group in deletion_groups.split(changeset.operations, together=together):
            await time_slice.yield_if_due()
            results += await self._apply_group(first, group)
            done = first + len(group)
            if progress is not None and done >= told + _PROGRESS_EVERY:
                told = done - done % _PROGRESS_EVERY
                await progress(told, total)
        return results

    async def _apply_group(self, index: int, group: Sequence[PackedOperation]) -> Sequence[EntityRef]:
        if len(group) > 1:
            return await deletion_groups.delete(self.runner, index, group)
        (operation,) = group
        if self.collected is not None and not self.collected.can_run(operation):
            await self._check_skipped(self.collected, index, operation)
            return ()
        async with self._collecting(operation):
            with at_operation(index, operation):
                return [await self.runner.run(index, operation)]
        return ()  # its problems have been collected

    async def _check_skipped(
        self, collected: CollectedProblems, index: int, operation: PackedOperation
    ) -> None:
        """Collect what an operation refers to in vain by itself, where it depends on a refused one."""
        collected.skip(operation)
        async with self._collecting(operation):
            with at_operation(index, operation):
                await self.runner.check_references(operation, absent=collected.missing)

    async def write_relations(self) -> None:
        """Write the relations between entities, now that all of these exist."""
        relations = self.runner.relations
        await self._each(relations.deferred(), relations.write)
        await relations.activate_rewritten_policies()

    async def remove_policies(self) -> None:
        """Archive policies and policy sets, once what replaces them is active."""
        await self._each(self.runner.removals(), self.runner.remove)

    async def require_unique_names(self) -> None:
        """Check that names in git and identifiers of resources are unique."""
        await self._each(self.runner.named_steps(), self.runner.require_unique_name)

    async def require_policy_references(self) -> None:
        """Check that the entities which policies name exist."""
        if problems := await self.runner.policy_references.problems():
            raise invalid_changeset(problems)

    async def _each(
        self, steps: Iterable[DeferredStep], do: Callable[[DeferredStep], Awaitable[None]]
    ) -> None:
        """Do the deferred part of operations; errors of the phases before are raised first."""
        if self.collected is not None:
            self.collected.raise_first()
        time_slice = TimeSlice()
        for step in steps:
            await time_slice.yield_if_due()
            async with self._collecting(step.operation):
                with at_operation(step.index, step.operation):
                    await do(step)
        if self.collected is not None:
            self.collected.raise_first()

    def _collecting(self, operation: PackedOperation) -> AbstractAsyncContextManager[None]:
        if self.collected is None:
            return nullcontext()
        return self.collected.collecting(self.runner.unit.conn, operation)

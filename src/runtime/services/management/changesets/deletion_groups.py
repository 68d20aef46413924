"""Deletions of a dry run in groups: a few statements for a hundred entities, where each would take ten.

Only a dry run has groups, and only while nothing is refused: what is wrong with a deletion is found out
one by one, so that the answer says which.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from runtime.domain.errors import Conflict, Forbidden, NotFound, ValidationFailed
from runtime.services.management.changesets.changeset import DeleteOperation, PackedOperation
from runtime.services.management.changesets.references import EntityRef
from runtime.services.management.kind_handlers import DELETES_MANY
from runtime.storage.sql.insert_batches import BatchRejected

SIZE = 100  # as often, other requests have their turn and progress is told

Group = tuple[int, Sequence[PackedOperation]]
"""Operations that are next to each other, with the place of the first."""


def split(operations: Sequence[PackedOperation], *, together: bool) -> Iterator[Group]:
    """The operations in order: one by one, but for deletions of entities of one kind that follow each other.

    Args:
        together: False where each operation is to be by itself.
    """
    start, ids = 0, set[str | None]()
    for place, operation in enumerate(operations):
        joins = together and place > start and _same_kind(operations[place - 1], operation)
        if place > start and not (joins and operation.id not in ids and len(ids) < SIZE):
            yield start, operations[start:place]
            start, ids = place, set()
        ids.add(operation.id)
    if operations:
        yield start, operations[start:]


def _same_kind(before: PackedOperation, operation: PackedOperation) -> bool:
    return operation.kind in DELETES_MANY and all(
        isinstance(each, DeleteOperation) and each.kind == operation.kind and each.id is not None
        for each in (before, operation)
    )


class _Runner(Protocol):
    async def delete_many(self, first: int, operations: Sequence[PackedOperation]) -> list[EntityRef]: ...


async def delete(runner: _Runner, first: int, group: Sequence[PackedOperation]) -> list[EntityRef]:
    """Apply a group; the entities that it was about. Raises BatchRejected when one of them is refused."""
    try:
        return await runner.delete_many(first, group)
    except (Conflict, Forbidden, NotFound, ValidationFailed) as refused:
        raise BatchRejected from refused

"""All that is wrong with a changeset at once: a refused dry run goes on where it would have stopped."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.errors import Forbidden, ManagementError, Problem
from runtime.services.management.changesets.changeset import PackedOperation


@dataclass
class CollectedProblems:
    """What was refused so far. What rests on something refused is not tried: it would be refused for that."""

    _first: ManagementError | None = None
    _problems: list[Problem] = field(default_factory=list)
    _missing: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def aside(self, conn: AsyncConnection, operation: PackedOperation) -> AsyncIterator[None]:
        """Note a refusal, and undo what came before it in the block. Raises Forbidden."""
        try:
            async with conn.begin_nested():
                yield
        except Forbidden:
            raise
        except ManagementError as refused:
            self._first = self._first or refused
            self._problems += refused.problems
            if operation.local_id is not None:
                self._missing.add(operation.local_id)
            if len(self._problems) >= MAX_PROBLEMS:
                self.stop()

    def holds(self, operation: PackedOperation) -> bool:
        """Tell whether an operation can be tried: all that it names from this changeset was made."""
        return not self._missing or self._missing.isdisjoint(_named(operation))

    def stop(self) -> None:
        """Raise the first refusal, with the problems of all."""
        if self._first is not None:
            problems = self._problems[:MAX_PROBLEMS]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            first = self._first
            raise type(first)(f"{first.detail}{more}", problems=problems, internal=first.internal)


def _named(operation: PackedOperation) -> set[str]:
    """The local ids that an operation names."""
    found = {operation.local_id} if operation.op != "create" else set()
    found.add(operation.zone.local_id if operation.zone is not None else None)
    waiting: list[Any] = [operation.spec]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(local_id := value.get("local_id"), str):
                found.add(local_id)
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return {each for each in found if each is not None}

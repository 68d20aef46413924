"""Errors of a changeset: each names its operation, and a refused dry run reports them all at once."""

from collections.abc import AsyncIterator, Iterator, Set
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.errors import Forbidden, ManagementError, Problem, ValidationFailed
from runtime.services.management.changesets.changeset import CreateOperation, PackedOperation

_MESSAGE_CHARS = 2_000


def invalid_changeset(problems: list[Problem]) -> ValidationFailed:
    """The error of a changeset whose operations have these problems; it carries the first hundred."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if len(problems) >= MAX_PROBLEMS:
        problems, more = problems[:MAX_PROBLEMS], f" (only the first {MAX_PROBLEMS} are listed)"
    return ValidationFailed(f"`{problems[0].field}`: {problems[0].message}{more}", problems=problems)


def located(
    refused: ManagementError, index: int, operation: PackedOperation, *, in_spec: bool = True
) -> list[Problem]:
    """The problems of an operation's refusal, with the operation's place in the changeset."""
    at = f"operations[{index}]"
    if not refused.problems:
        return [Problem(refused.code, _short(refused.detail), at)]
    return [
        Problem(
            problem.code,
            _short(problem.message),
            _short(f"{at}.spec.{problem.field}") if problem.field and in_spec else at,
        )
        for problem in refused.problems
    ]


def _short(text: str) -> str:
    """A text of bounded length: it may repeat names of the caller's, of any length."""
    return text if len(text) <= _MESSAGE_CHARS else f"{text[:_MESSAGE_CHARS]}..."


@contextmanager
def at_operation(index: int, operation: PackedOperation) -> Iterator[None]:
    """Errors raised within name the operation."""
    try:
        yield
    except ManagementError as refused:
        raise located_error(refused, index, operation) from refused


def located_error(
    refused: ManagementError, index: int, operation: PackedOperation, *, in_spec: bool = True
) -> ManagementError:
    """The same error, which names the operation in its message and in each problem."""
    name = operation.name or operation.id or operation.local_id or ""
    detail = f"operation {index} ({operation.op} {operation.kind} `{name}`): {refused.detail}"
    problems = located(refused, index, operation, in_spec=in_spec)
    return type(refused)(detail, problems=problems, internal=refused.internal)


@dataclass
class CollectedProblems:
    """The errors of a dry run so far. Operations that refer to a refused one are skipped."""

    _first: ManagementError | None = None
    _problems: list[Problem] = field(default_factory=list)
    _missing: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def collecting(self, conn: AsyncConnection, operation: PackedOperation) -> AsyncIterator[None]:
        """Collect an error of the block, and roll back to its beginning. Raises Forbidden."""
        try:
            async with conn.begin_nested():
                yield
        except Forbidden:
            raise
        except ManagementError as refused:
            self._first = self._first or refused
            self._problems += refused.problems
            self.skip(operation)
            if len(self._problems) >= MAX_PROBLEMS:
                self.raise_first()

    @property
    def missing(self) -> Set[str]:
        """The local ids of what was not created, because its operation was refused or skipped."""
        return self._missing

    def skip(self, operation: PackedOperation) -> None:
        """Let operations that refer to this one be skipped, too: it was not carried out."""
        if operation.local_id is not None:
            self._missing.add(operation.local_id)

    def can_run(self, operation: PackedOperation) -> bool:
        """Tell whether everything that an operation refers to in this changeset was created."""
        return not self._missing or self._missing.isdisjoint(_local_ids_in(operation))

    def raise_first(self) -> None:
        """Raise the first error, with the problems of all; nothing where there was none."""
        if self._first is not None:
            problems = self._problems[:MAX_PROBLEMS]
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            first = self._first
            raise type(first)(f"{first.detail}{more}", problems=problems, internal=first.internal)


def _local_ids_in(operation: PackedOperation) -> set[str]:
    """The local ids that an operation refers to."""
    found = {operation.local_id} if not isinstance(operation, CreateOperation) else set()
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

"""Phase: check every operation by itself: its kind, the caller's rights, its spec. Nothing is looked up."""

from runtime.contract.bodies import MAX_PROBLEMS
from runtime.domain.errors import ManagementError, Problem, ValidationFailed
from runtime.domain.kinds import ALL, BY_NAME
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import authorization
from runtime.services.management.changesets.changeset import (
    CreateOperation,
    PackedChangeset,
    PackedOperation,
    SpecOperation,
)
from runtime.services.management.changesets.problems import invalid_changeset, located, located_error
from runtime.services.management.changesets.references import has_references, placeholder, resolved
from runtime.services.management.changesets.specs import split_spec
from runtime.services.time_slices import TimeSlice

MANIFEST_KINDS = {kind.name: kind for kind in ALL if kind.manifest}


async def check_operations(acting: Caller, changeset: PackedChangeset, *, dry_run: bool) -> dict[int, bytes]:
    """Index -> the parsed spec of each operation without references, as JSON text.

    Raises:
        ValidationFailed: with the problems of all operations, up to a hundred of them.
        NotFound, Forbidden: for the first operation that the caller may not send.
    """
    time_slice = TimeSlice()
    problems: list[Problem] = []
    parsed_specs: dict[int, bytes] = {}
    for index, operation in enumerate(changeset.operations):
        await time_slice.yield_if_due()
        if operation.kind not in MANIFEST_KINDS:
            known = ", ".join(f"`{name}`" for name in MANIFEST_KINDS)
            message = f"unknown kind `{operation.kind}`; there are {known}"
            problems.append(Problem("validation_error", message, f"operations[{index}].kind"))
        else:
            problems += _problems_of(acting, index, operation, parsed_specs, dry_run=dry_run)
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise invalid_changeset(problems)
    return parsed_specs


def _problems_of(
    acting: Caller,
    index: int,
    operation: PackedOperation,
    parsed_specs: dict[int, bytes],
    *,
    dry_run: bool,
) -> list[Problem]:
    try:
        authorization.require_operation(acting, operation)
        if isinstance(operation, SpecOperation):
            _parse_spec(index, operation, parsed_specs, dry_run=dry_run)
    except ValidationFailed as refused:
        return located(refused, index, operation)
    except ManagementError as refused:
        raise located_error(refused, index, operation, in_spec=False) from refused
    return []


def _parse_spec(
    index: int, operation: SpecOperation, parsed_specs: dict[int, bytes], *, dry_run: bool
) -> None:
    """Parse a spec; one with references is parsed again once they are resolved."""
    spec = operation.spec
    if refers := has_references(spec):
        spec = resolved(spec, placeholder)
    if BY_NAME[operation.kind].variants and not isinstance(operation, CreateOperation):
        return  # which variant it is, only the entity knows
    parts = split_spec(operation, spec, dry_run=dry_run)
    if not refers:
        parsed_specs[index] = parts.packed()

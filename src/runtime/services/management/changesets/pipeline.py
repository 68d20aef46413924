"""Changesets: a list of operations that is applied wholly or not at all, in one transaction.

`apply_changeset` is the path of a changeset from top to bottom. Its body has been parsed by then
(`api.management.changeset_bodies`), and it holds a slot (`concurrency_limits`). An apply and a dry run take
the same phases; those from staleness to ownership are in one transaction (`phases.execute`):

    phase                    module               refuses
    authorize                authorization        a credential that does not reach the changeset's zones
    check each operation     validation           an unknown kind, a kind that the caller may not change
    parse specs              specs                a spec that is no body of a create or an update
    apply once               idempotency          another body under the digest of a plan that was applied
    wrap data keys           encryption_keys      a key of a zone that may not be used
    check staleness          staleness            entities that were written after the base revision
    apply each operation     operations           what a single call of the management API would refuse
    resolve references       references           a local id that no earlier operation has created
    write relations          relations            texts, dependencies and members that do not fit
    check names in policies  policy_references    a name that no entity of the zone has
    record ownership         ownership            entities of another owner; two with one name in git
    answer and receipt       receipts             nothing
"""

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets import authorization, concurrency_limits, receipts
from runtime.services.management.changesets.changeset import CreateOperation, PackedChangeset
from runtime.services.management.changesets.dry_run import dry_run_changeset
from runtime.services.management.changesets.encryption_keys import prepare_keys, zones_of
from runtime.services.management.changesets.idempotency import (
    AlreadyApplied,
    body_digest,
    replayed,
    require_not_applied,
)
from runtime.services.management.changesets.phases import Progress, execute
from runtime.services.management.changesets.receipts import AppliedChangeset
from runtime.services.management.changesets.validation import check_operations
from runtime.services.management.unit_of_work import read_only, unit_of_work


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
    """Apply a changeset, or with `dry_run` check it and answer what applying it would.

    Args:
        organization: id or label.
        progress: receives how many operations are done, of how many.

    Returns:
        The answer; of the first time, when the same plan is sent again.
    Raises:
        ValidationFailed, Forbidden, NotFound, Conflict: as a single call would, with the operation's place.
        PreconditionFailed: something has changed since the base; the problems say what, and who did it.
        Conflict: another body under the same plan digest.
        TooLarge: a dry run takes longer than one may.
    """
    acting = authorization.acting_caller(caller, dry_run=dry_run)
    authorization.require_credential_scope(acting, changeset)
    if dry_run:
        concurrency_limits.require_dry_run_budget(services, caller)
    parsed_specs = await check_operations(acting, changeset, dry_run=dry_run)
    if dry_run:
        return await dry_run_changeset(
            services, acting, organization, changeset, parsed_specs, request_id, progress
        )
    digest = await body_digest(services.hasher, changeset)
    try:
        await _require_new(services, acting, organization, changeset, request_id)
        prepared = await prepare_keys(services, acting, changeset)
        async with unit_of_work(
            services,
            acting,
            request_id,
            changeset_id=new_id(),
            prepared=prepared,
            zone_ids=zones_of(changeset),
        ) as unit:
            found = await entities.organization_of(unit, organization)
            await unit.next_revision()  # from here on nobody else of the organization writes
            await require_not_applied(unit.conn, found.id, changeset)
            results = await execute(unit, changeset, parsed_specs, progress)
            answer = await receipts.changeset_answer(unit, changeset, results)
            await receipts.record_receipt(unit, changeset, digest, answer, caller)
    except AlreadyApplied as before:
        return replayed(before.applied, digest)
    return AppliedChangeset(receipts.with_secrets(unit, answer))


async def _require_new(
    services: Services, acting: Caller, organization: str, changeset: PackedChangeset, request_id: str
) -> None:
    """Raise AlreadyApplied before keys are made in vain, where a changeset creates zones."""
    if any(isinstance(each, CreateOperation) and each.kind == ZONE.name for each in changeset.operations):
        async with read_only(services, acting, request_id) as unit:
            found = await entities.organization_of(unit, organization)
            await require_not_applied(unit.conn, found.id, changeset)

"""Dry runs: the phases of a changeset in a transaction that is rolled back, and what deletions end."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from runtime.contract.answers import part_answer
from runtime.contract.changes import DecisionImpact
from runtime.domain.errors import Conflict, NotFound, TooLarge, ValidationFailed
from runtime.domain.kinds import APPLICATION, BY_NAME, POLICY, POLICY_SET, USER, ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services
from runtime.services.management import decisions, entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import DeleteOperation, PackedChangeset
from runtime.services.management.changesets.concurrency_limits import metered_dry_run
from runtime.services.management.changesets.encryption_keys import keys_given, try_keys
from runtime.services.management.changesets.phases import Progress, execute
from runtime.services.management.changesets.problems import CollectedProblems
from runtime.services.management.changesets.receipts import AppliedChangeset, changeset_answer
from runtime.services.management.changesets.staleness import current_revisions
from runtime.services.management.unit_of_work import UnitOfWork, dry_run_unit, read_only
from runtime.services.replay import decision_impact, zone_records
from runtime.services.replay.decision_impact import DecisionReplay
from runtime.storage.sql import deletion_effects as storage
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import insert_batches

# How long a dry run may take: a minute, and for each operation many times what one takes.
DRY_RUN_SECONDS, OPERATION_SECONDS = 60.0, 0.015


@dataclass(frozen=True)
class DeletionImpact:
    """What ends with one deleted entity: thing -> count; and whether it was used in the last 30 days."""

    takes_along: Mapping[str, int]
    in_use: bool


async def dry_run_changeset(
    services: Services,
    acting: Caller,
    organization: str,
    changeset: PackedChangeset,
    parsed_specs: dict[int, bytes],
    request_id: str,
    progress: Progress | None,
) -> AppliedChangeset:
    """What applying a changeset would answer. No write of others waits for it.

    Raises: ManagementError with the problems of all operations; TooLarge when it takes too long.
    """
    seconds = DRY_RUN_SECONDS + OPERATION_SECONDS * len(changeset.operations)
    try:
        async with asyncio.timeout(seconds) as deadline, AsyncExitStack() as turn:
            async with read_only(services, acting, request_id) as unit:
                home_zone = (await entities.organization_of(unit, organization)).zone_id
                kinds = await _kinds_by_zone(unit, changeset)
                zone_ids = kinds.keys() | ({home_zone} if home_zone else set())
                impact = await deletion_impact(unit, changeset)
                zones = await _zones_with_decisions(unit, kinds)
                given = await keys_given(unit, changeset)
            has_turn = await _turn(services, zones, turn, deadline)
            with metered_dry_run(services, acting):
                records = await zone_records.records_of(
                    services,
                    [zone for zone, _ in zones],
                    emails_of={zone.id for zone, reads_users in zones if reads_users},
                    now=services.clock(),
                    has_turn=has_turn,
                )
                if not any(each.recorded for each in records):
                    await turn.aclose()
                prepared = await try_keys(services, acting, changeset, given)
            names, replay = _application_names(changeset), DecisionReplay(services, records, services.clock())
            try:
                async with dry_run_unit(services, acting, request_id, zone_ids, names, prepared) as unit:
                    with metered_dry_run(services, acting):
                        await replay.decide_before(unit.conn)
                        async with insert_batches.batched(unit.conn):
                            results = await execute(unit, changeset, parsed_specs, progress)
                        answer = await changeset_answer(unit, changeset, results)
                        return AppliedChangeset(_with_impact(answer, impact, await replay.impact(unit.conn)))
            except (ValidationFailed, Conflict, NotFound, insert_batches.BatchRejected):
                pass
            # Again, one statement at a time: whoever corrects the changeset gets all of its problems at once.
            async with dry_run_unit(services, acting, request_id, zone_ids, names, prepared) as unit:
                with metered_dry_run(services, acting):
                    results = await execute(unit, changeset, parsed_specs, None, CollectedProblems())
                    answer = await changeset_answer(unit, changeset, results)
                    return AppliedChangeset(_with_impact(answer, impact, await replay.impact(unit.conn)))
    except TimeoutError:
        raise TooLarge(
            f"a dry run of {len(changeset.operations)} operations takes longer than {seconds:.0f} seconds;"
            " plan fewer zones at a time"
        ) from None


async def _turn(
    services: Services,
    zones: Sequence[tuple[Zone, bool]],
    turn: AsyncExitStack,
    deadline: asyncio.Timeout,
) -> bool:
    """Wait for the organization's turn to replay decisions, which ends with the dry run."""
    if not zones or not services.settings.replayed_decisions:
        return False
    began = asyncio.get_running_loop().time()
    has_turn = await turn.enter_async_context(services.replay_turns.turn(zones[0][0].organization_id))
    # Waiting for others is no work of this one.
    deadline.reschedule((deadline.when() or began) + asyncio.get_running_loop().time() - began)
    return has_turn


async def _kinds_by_zone(unit: UnitOfWork, changeset: PackedChangeset) -> dict[str, set[str]]:
    """The ids of the existing zones that a changeset writes to, with the kinds of what it writes there."""
    kinds: dict[str, set[str]] = {}
    current = await current_revisions(unit, changeset)
    for operation in changeset.operations:
        known = current.get((operation.kind, operation.id)) if operation.id is not None else None
        zone_ids = {
            operation.id if operation.kind == ZONE.name else operation.zone and operation.zone.id,
            known.zone_id if known is not None else None,
        }
        for zone_id in zone_ids:
            if zone_id:
                kinds.setdefault(zone_id, set()).add(operation.kind)
    return kinds


async def _zones_with_decisions(unit: UnitOfWork, kinds: Mapping[str, set[str]]) -> list[tuple[Zone, bool]]:
    """Zones where a changeset writes to what decisions are made from, of which the caller may list these.

    Those in which policies are written are first. Each with whether the caller may read its users.
    """
    wanted = [zone_id for zone_id, written in kinds.items() if written & decision_impact.KINDS]
    within = {"organization_id": unit.organization_id}
    zones = await entity_storage.many(unit.conn, ZONE, wanted, within=within)

    def may(zone: Zone, subject: str, verb: Verb) -> bool:
        reached = unit.caller.scope.reaches(zone.id)
        return reached and permissions.allows(unit.caller.roles_in(zone), subject, verb)

    shown = [each for each in zones if may(each, decisions.SUBJECT, Verb.LIST)]
    shown.sort(key=lambda each: (not kinds[each.id] & {POLICY.name, POLICY_SET.name}, each.id))
    return [(each, may(each, USER.operations, Verb.RETRIEVE)) for each in shown]


def _application_names(changeset: PackedChangeset) -> set[str]:
    """The identifiers that applications get, which a dry run holds against those of users."""
    applications = [each for each in changeset.operations if each.kind == APPLICATION.name]
    names = {name for each in applications for name in (each.name, each.spec.get(APPLICATION.handle or ""))}
    return {name for name in names if isinstance(name, str)}


async def deletion_impact(unit: UnitOfWork, changeset: PackedChangeset) -> dict[int, DeletionImpact]:
    """Index of each deletion -> what ends with it, counted outside the dry run, which copies none of that.

    Entities of kinds that are archived end nothing.
    """
    by_kind: dict[str, dict[str, int]] = {}
    for index, operation in enumerate(changeset.operations):
        if isinstance(operation, DeleteOperation) and operation.id is not None and operation.kind in BY_NAME:
            by_kind.setdefault(operation.kind, {})[operation.id] = index
    found: dict[int, DeletionImpact] = {}
    for name, ids in by_kind.items():
        kind = BY_NAME[name]
        if Verb.ARCHIVE in kind.verbs:
            continue
        own = await storage.owned(unit.conn, kind, unit.organization_id, ids)
        for tenant_id, there in own.items():
            counts = await storage.count(unit.conn, kind, tenant_id, there, now=unit.now)
            used = await storage.used(unit.conn, kind, unit.organization_id, tenant_id, there, now=unit.now)
            for entity_id in there:
                numbers = counts.get(entity_id, Counter())
                found[ids[entity_id]] = DeletionImpact(dict(sorted(numbers.items())), entity_id in used)
    return found


def _with_impact(
    answer: dict[str, Any], impact: Mapping[int, DeletionImpact], replayed: Sequence[DecisionImpact]
) -> dict[str, Any]:
    """The answer of a dry run, with what ends with each deletion, and who would be refused or allowed."""
    for index, one in impact.items():
        answer["operations"][index] |= {"takes_along": dict(one.takes_along), "in_use": one.in_use}
    if replayed:
        answer["decision_impact"] = [part_answer(each) for each in replayed]
    return answer

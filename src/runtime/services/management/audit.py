"""Reads and verifies the audit log."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.changes import AuditActor, AuditEvent
from runtime.domain.errors import NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION, Verb
from runtime.logs import log
from runtime.services.container import Services
from runtime.services.jobs.turns import Turns
from runtime.services.management import entities
from runtime.services.management.access.caller import SERVICE, Actor
from runtime.services.management.audit_chain import chained, record_hash
from runtime.services.management.listing import Listed, ListQuery, Position
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work
from runtime.storage.sql import audit as storage
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import organization_revision
from runtime.storage.sql.audit import AuditAnchor, AuditExtent, AuditFilter

SUBJECT = "audit_events"
PRUNED = "audit_events.prune"  # the action that says where the trail begins since then
_BATCH = 500
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """What became of proving one organization's chain.

    Attributes:
        records: the sequence number of the last record that holds.
        hash: of the last of them; kept elsewhere, it shows later that nothing up to here has been rewritten.
        broken_at: the first sequence number that does not hold; None when all do.
        reason: what is wrong there.
        pruned: how many records were pruned: the trail begins with the next.
    """

    organization_id: str
    records: int
    hash: str
    broken_at: int | None = None
    reason: str = ""
    pruned: int = 0


# --- reading


async def list_(unit: UnitOfWork, organization: str, query: ListQuery) -> Listed:
    """One page of the caller's organization's audit records, newest first."""
    found = await entities.organization_of(unit, organization)
    entities.require(unit, SUBJECT, Verb.LIST, {})
    page = await storage.page(
        unit.conn,
        found.id,
        _selection(query.special),
        limit=query.limit,
        after=query.after.value if query.after else None,
        before=query.before.value if query.before else None,
    )
    places = [Position(record["sequence"], record["id"]) for record in page.items]
    return Listed(
        [_event(record) for record in page.items],
        page.has_next,
        page.has_previous,
        edges=(places[0], places[-1]) if places else None,
    )


def _selection(special: Mapping[str, tuple[str, ...]]) -> AuditFilter:
    filters = {name: special[f"filter[{name}]"] for name in storage.FILTERS if f"filter[{name}]" in special}
    return AuditFilter(filters, time_of(special, "since"), time_of(special, "until"))


def time_of(special: Mapping[str, tuple[str, ...]], name: str) -> datetime | None:
    """The time that a parameter says. Raises ValidationFailed."""
    if name not in special:
        return None
    given = special[name][0]
    try:
        if _TIME.fullmatch(given):
            return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValidationFailed.of(name, "must be an RFC 3339 time, such as `2026-01-31T08:00:00Z`")


def _event(record: Mapping[str, Any]) -> AuditEvent:
    told = {name: record[name] for name in AuditEvent.model_fields if name in record}
    actor = AuditActor(type=record["actor_type"], id=record["actor_id"])
    return AuditEvent(actor=actor, **told)


# --- writing, where there is no unit of work


async def record_database(
    conn: AsyncConnection,
    action: str,
    *,
    by: Actor,
    now: datetime,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
) -> None:
    """Record with every organization what was done to the whole database, in the transaction that does it."""
    request_id = new_id()
    for organization_id in await storage.present_organizations(conn):
        record = {
            "id": new_id(),
            "at": now,
            "actor_type": by.kind,
            "actor_id": by.name,
            "action": action,
            "kind": "Database",
            "entity_id": "tables",
            "zone_id": None,
            "changeset_id": None,
            "request_id": request_id,
            "before": before,
            "after": after,
        }
        head = await organization_revision.advance(conn, organization_id, by=0)
        await organization_revision.append(conn, organization_id, head, chained(head, [record]))


# --- pruning


async def prune(services: Services, *, before: datetime) -> int:
    """Let each trail begin with its first record of the UTC day of an instant; of how many trails.

    The records in front of that are deleted afterwards, by `storage.forget_pruned`. The trail itself records
    where it begins, so nobody can shorten it without a trace. One that would lose such records alone is left.
    So is that of an organization which cannot be written to now: the next run, an hour later, looks again.
    """
    day = before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    async with services.database.querying() as conn:
        waiting = await storage.organizations_to_prune(conn, before=day)
    turns = Turns(services, PRUNED)
    pruned = [await turns.take(each, partial(_prune, services, each, day)) for each in waiting]
    return sum(filter(None, pruned))


async def _prune(services: Services, organization_id: str, before: datetime) -> bool:
    """Prune one trail; False where there is nothing to prune, and where it does not hold: it is evidence."""
    async with services.database.reading() as conn:
        start = await storage.anchor(conn, organization_id)
        end, wrong = await _end_of_old(conn, organization_id, start, before)
    if wrong:
        log.error(
            "audit trail not pruned", organization=organization_id, sequence=end.sequence + 1, reason=wrong
        )
    if wrong or end == start:
        return False
    try:
        async with unit_of_work(services, SERVICE.within(organization_id), new_id()) as unit:
            await unit.lock_organization()
            if await storage.anchor(unit.conn, organization_id) != start:
                return False  # another process was here
            await storage.move_anchor(unit.conn, organization_id, end, now=unit.now)
            await unit.audit.append(
                PRUNED, "AuditTrail", organization_id, None, before=None, after=_told(end)
            )
    except (IntegrityError, NotFound) as failure:  # its head is not what the trail says
        log.error("audit trail not pruned", organization=organization_id, reason=repr(failure))
        return False
    return True


async def _end_of_old(
    conn: AsyncConnection, organization_id: str, start: AuditAnchor, before: datetime
) -> tuple[AuditAnchor, str]:
    """The last of the records from before an instant that come first, and what is wrong with the next."""
    end, is_worth_it = start, False
    while True:
        records, unreadable = await _batch(conn, organization_id, end.sequence + 1)
        for record in records:
            if wrong := _wrong(record, end.sequence + 1, end.hash):
                return end, wrong
            if record["at"] >= before:
                return end if is_worth_it else start, ""
            is_worth_it = is_worth_it or record["action"] != PRUNED
            end = AuditAnchor(record["sequence"], record["hash"])
        if unreadable or not records:
            return end if is_worth_it else start, "the record cannot be read" if unreadable else ""


def _told(anchor: AuditAnchor) -> dict[str, Any]:
    """What the record of a pruning says of it."""
    return {"pruned_through": anchor.sequence, "hash": anchor.hash}


# --- proving


async def verify(services: Services, organization: str | None = None) -> AsyncIterator[ChainVerification]:
    """Prove the chain of one organization, by id or label, or of each in turn. Raises NotFound."""
    async with services.database.reading() as conn:
        wanted = await storage.organizations(conn)
        if organization is not None:
            wanted = [await _named(conn, organization, wanted)]
    for organization_id in wanted:
        async with services.database.reading() as conn:
            verdict = await _proven(conn, organization_id)
        yield verdict


async def _named(conn: AsyncConnection, organization: str, known: list[str]) -> str:
    if organization in known:
        return organization
    found = await entity_storage.find_by(conn, ORGANIZATION, "label", organization, within={})
    if found is None:
        raise NotFound(f"there is no Organization `{organization}`")
    return found.id


async def _proven(conn: AsyncConnection, organization_id: str) -> ChainVerification:
    """Walk the chain from its first record to its head, some hundred records at a time."""
    extent, anchor = await storage.extent(conn, organization_id), await storage.anchor(conn, organization_id)
    previous, proven, pruned = anchor.hash, anchor.sequence, anchor.sequence
    is_recorded = not pruned
    while True:
        records, unreadable = await _batch(conn, organization_id, proven + 1)
        for record in records:
            if wrong := _wrong(record, proven + 1, previous):
                return ChainVerification(organization_id, proven, previous, proven + 1, wrong, pruned)
            previous, proven = record["hash"], proven + 1
            is_recorded = is_recorded or (record["action"] == PRUNED and record["after"] == _told(anchor))
        if unreadable:
            wrong = "the record cannot be read"
            return ChainVerification(organization_id, proven, previous, proven + 1, wrong, pruned)
        if not records:
            break
    broken_at, reason = _wrong_end(extent, proven, previous)
    if broken_at is None and not is_recorded:
        broken_at, reason = pruned, "the trail does not record that it was pruned up to here"
    return ChainVerification(organization_id, proven, previous, broken_at, reason, pruned)


async def _batch(
    conn: AsyncConnection, organization_id: str, first: int
) -> tuple[list[dict[str, Any]], bool]:
    """The next records, up to one that is not even well-formed, and whether there is such a one."""
    try:
        last = first + _BATCH - 1
        return await organization_revision.audit_range(conn, organization_id, first=first, last=last), False
    except (ValueError, TypeError):
        records: list[dict[str, Any]] = []
    try:
        while len(records) < _BATCH:
            place = first + len(records)
            one = await organization_revision.audit_range(conn, organization_id, first=place, last=place)
            if not one:
                break
            records.extend(one)
    except (ValueError, TypeError):
        return records, True
    return records, False


def _wrong(record: dict[str, Any], sequence: int, previous: str) -> str:
    """What is wrong with a record; nothing when it holds."""
    if record["sequence"] != sequence:
        return "the record is missing"
    if record["previous_hash"] != previous:
        return "the record does not follow from the one before it"
    try:
        holds = record["hash"] == record_hash(record)
    except (ValueError, TypeError):
        holds = False
    return "" if holds else "the record does not match its hash"


def _wrong_end(extent: AuditExtent, proven: int, hash_: str) -> tuple[int | None, str]:
    """What is wrong around a chain that holds: where it begins, where it ends, and its head."""
    if extent.first is not None and extent.first < 1:
        return extent.first, "the record has a sequence number below 1"
    if extent.last is not None and extent.last > proven:
        return proven + 1, "the record is missing"
    if extent.head is None:
        return proven, "the audit chain has no head"
    sequence, head_hash = extent.head
    if sequence > proven:
        return proven + 1, "the record is missing: the head has a higher sequence number"
    if sequence < proven:
        return sequence + 1, "the record has a higher sequence number than the head"
    if head_hash != hash_:
        return proven, "the head does not match the hash of the last record"
    return None, ""

"""Phase: answer and receipt. The answer of a changeset, what is stored of it, and the history."""

from dataclasses import asdict, dataclass
from typing import Any

from runtime.contract.answers import part_answer
from runtime.contract.changes import AuditRange, ChangesetResult, OperationResult, Receipt, Source
from runtime.domain.errors import NotFound
from runtime.domain.kinds import Verb
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import PackedChangeset
from runtime.services.management.changesets.references import EntityRef
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork, read_only
from runtime.services.time_slices import TimeSlice
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import ChangesetRecord
from runtime.storage.sql.paging import Position

SUBJECT = "changesets"


@dataclass(frozen=True)
class AppliedChangeset:
    """The answer of a changeset, and whether it is that of an earlier request with the same plan."""

    answer: dict[str, Any]
    replayed: bool = False


async def changeset_answer(
    unit: UnitOfWork, changeset: PackedChangeset, results: list[EntityRef]
) -> dict[str, Any]:
    """The answer of a changeset as JSON, without secrets; other requests are served while it is made."""
    time_slice, head = TimeSlice(), unit.lock.head
    revision = head.revision if head else changeset.base_revision
    audit = None
    if (sequences := unit.audit.sequence_range) is not None and not unit.dry_run:
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
        await time_slice.yield_if_due()
    return answer


def with_secrets(unit: UnitOfWork, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with the secrets that are shown once; they are kept nowhere."""
    for done in answer["operations"]:
        if done["op"] == "create" and (secrets := unit.shown_once.get(done["id"])):
            done["shown_once"] = secrets
    return answer


async def record_receipt(
    unit: UnitOfWork, changeset: PackedChangeset, digest: str, answer: dict[str, Any], caller: Caller
) -> None:
    """Store the changeset in the history, with the answer for a request that sends the same plan again."""
    audit = answer.get("audit", {})
    await storage.insert_changeset(
        unit.conn,
        ChangesetRecord(
            id=answer["id"],
            organization_id=unit.organization_id,
            owner=changeset.owner,
            plan_digest=changeset.plan_digest,
            body_digest=digest,
            base_revision=changeset.base_revision,
            revision=answer["revision"],
            operations=len(changeset.operations),
            source=changeset.source.model_dump(exclude_none=True),
            result=answer,
            audit_first=audit.get("first"),
            audit_last=audit.get("last"),
            created_at=unit.now,
            created_by=caller.id,
        ),
    )


async def history(
    services: Services, caller: Caller, organization: str, query: ListQuery, *, request_id: str
) -> Listed:
    """One page of receipts, newest first."""
    async with read_only(services, caller, request_id) as unit:
        found = await entities.organization_of(unit, organization)
        entities.require(unit, SUBJECT, Verb.LIST, {})
        page = await storage.history(
            unit.conn, found.id, limit=query.limit, after=query.after, before=query.before, **_seen_by(caller)
        )
        total = await storage.count(unit.conn, found.id, **_seen_by(caller)) if query.total else None
    places = [Position(one.created_at, one.id) for one in page.items]
    return Listed(
        [receipt(one) for one in page.items],
        page.has_next,
        page.has_previous,
        total,
        edges=(places[0], places[-1]) if places else None,
    )


async def retrieve(
    services: Services, caller: Caller, organization: str, changeset_id: str, *, request_id: str
) -> Receipt:
    """The receipt of one changeset. Raises NotFound."""
    async with read_only(services, caller, request_id) as unit:
        found = await entities.organization_of(unit, organization)
        entities.require(unit, SUBJECT, Verb.RETRIEVE, {})
        applied = await storage.find(unit.conn, found.id, changeset_id)
        if any(value not in (None, getattr(applied, name)) for name, value in _seen_by(caller).items()):
            raise NotFound(f"there is no changeset `{changeset_id}`")
        return receipt(applied)


def _seen_by(caller: Caller) -> dict[str, str | None]:
    """The changesets that a caller sees, as filters: all, one owner's, or those they applied themselves."""
    bound = caller.scope
    return {"owner": bound.owner, "created_by": caller.id if bound and bound.owner is None else None}


def receipt(applied: ChangesetRecord) -> Receipt:
    """The receipt of a changeset in the history."""
    has_audit = applied.audit_first is not None and applied.audit_last is not None
    values = asdict(applied)
    kept = {name: values[name] for name in Receipt.model_fields if name in values and name != "source"}
    audit = {"first": applied.audit_first, "last": applied.audit_last} if has_audit else None
    return Receipt.model_validate({**kept, "source": Source(**applied.source), "audit": audit})

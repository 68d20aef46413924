"""The history of changesets: what is kept of each that was applied, and told as a receipt."""

from dataclasses import asdict
from typing import Any

from runtime.contract.changes import Receipt, Source
from runtime.domain.errors import NotFound
from runtime.domain.kinds import Verb
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import PackedChangeset
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork, read_only
from runtime.storage.sql import changes as storage
from runtime.storage.sql.changes import ChangesetRecord
from runtime.storage.sql.paging import Position

SUBJECT = "changesets"


async def keep(
    unit: UnitOfWork, changeset: PackedChangeset, digest: str, answer: dict[str, Any], caller: Caller
) -> None:
    """Keep what was applied, with the answer for whoever sends the same plan again."""
    audit = answer.get("audit", {})
    await storage.keep(
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
    """What of history a caller sees: all of it, one owner's, or what they have applied themselves."""
    bound = caller.scope
    return {"owner": bound.owner, "created_by": caller.id if bound and bound.owner is None else None}


def receipt(applied: ChangesetRecord) -> Receipt:
    """What history tells of a changeset."""
    has_audit = applied.audit_first is not None and applied.audit_last is not None
    values = asdict(applied)
    kept = {name: values[name] for name in Receipt.model_fields if name in values and name != "source"}
    audit = {"first": applied.audit_first, "last": applied.audit_last} if has_audit else None
    return Receipt.model_validate({**kept, "source": Source(**applied.source), "audit": audit})

"""The status of sessions and delegated grants by time: that one has expired is not stored."""

from typing import cast

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import Entity
from runtime.domain.kinds.session import DelegatedGrant, Session
from runtime.services.management.listing import ListQuery
from runtime.services.management.unit_of_work import UnitOfWork


def with_current_status(unit: UnitOfWork, entity: Entity) -> Entity:
    """The session or the grant, with `expired` as its status where its time is over."""
    stored = cast(Session | DelegatedGrant, entity)
    status = stored.status
    if status == "active" and stored.expires_at <= unit.now:
        status = type(status)("expired")
    return stored.model_copy(update={"status": status, "active": status == "active"})


def status_filter(query: ListQuery) -> str | None:
    """The status that a list is limited to, under its name or the older one. Raises ValidationFailed."""
    status = next(iter(query.special.get("status", ())), None)
    if "active" not in query.special:
        return status
    if status not in (None, "active"):
        raise ValidationFailed.of("active", "conflicts with `status`; send one of them")
    return "active"

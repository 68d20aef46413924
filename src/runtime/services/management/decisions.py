"""Lists decision records: what became of sign-ins and token requests, with the policies that decided."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from runtime.contract.decisions import DecidingPolicy, DecisionRecord
from runtime.domain.errors import ServerError, TemporarilyUnavailable, ValidationFailed
from runtime.domain.kinds import APPLICATION, RESOURCE, USER, Kind, Verb
from runtime.domain.oauth.decision_events import event_named, stored_names
from runtime.domain.oauth.exchange_steps import STEP_LABELS
from runtime.services.management import audit, entities, names
from runtime.services.management.access import permissions
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery, Position
from runtime.services.management.names import UnresolvedName
from runtime.services.management.policies import determining_policies
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as entity_storage
from runtime.storage.sql import token_events as storage
from runtime.storage.sql.token_events import TokenEvent, TokenEventFilter

SUBJECT = "decisions"
# What fails in the service itself is for those who run it: their log has it, by the request id.
_OPERATORS_ONLY = frozenset({ServerError.code, TemporarilyUnavailable.code})
# Where clocks differ. A list that has an end needs no look at partitions that are made for later.
_AHEAD = timedelta(days=1)
_NAMED: tuple[tuple[Kind[Any], str], ...] = (
    (USER, "user_id"),
    (APPLICATION, "application_id"),
    (RESOURCE, "resource_id"),
)


async def list_(unit: UnitOfWork, parents: Parents, query: ListQuery) -> Listed:
    """One page of a zone's decision records, newest first; a short one need not be the last.

    Raises: NotFound, Forbidden, ValidationFailed.
    """
    zone = await entities.zone_of(unit, parents["zone_id"])
    entities.require(unit, SUBJECT, Verb.LIST, {"zone_id": zone.id})
    page = await storage.page(
        unit.conn,
        unit.organization_id,
        zone.id,
        await _selection(unit, zone.id, query.special),
        limit=query.limit,
        after=(query.after.value, query.after.id) if query.after else None,
        before=(query.before.value, query.before.id) if query.before else None,
    )
    names = {name for event in page.items for name in event.determining}
    policies = await determining_policies.describe(unit.conn, unit.organization_id, zone.id, names)
    named = {
        kind.name: await _named(unit, kind, zone.id, {getattr(each, member) for each in page.items})
        for kind, member in _NAMED
    }
    shows_emails = permissions.allows(unit.caller.roles_in(zone), USER.operations, Verb.RETRIEVE)
    places = [Position(event.at, event.id) for event in page.items]
    if page.seen_to is not None:
        seen_to = Position(*page.seen_to)
        places = [seen_to, *places] if query.before else [*places, seen_to]
    return Listed(
        [_record(event, policies, named, shows_emails=shows_emails) for event in page.items],
        page.has_next,
        page.has_previous,
        edges=(places[0], places[-1]) if places else None,
    )


async def _selection(
    unit: UnitOfWork, zone_id: str, special: Mapping[str, tuple[str, ...]]
) -> TokenEventFilter:
    """What the query selects; names stand for the ids that they mean.

    Raises: ValidationFailed; NotFound, Forbidden where the caller may not read what a name is of: it would
        tell whether there is one.
    """
    filters = {name: special[f"filter[{name}]"] for name in storage.FILTERS if f"filter[{name}]" in special}
    if "event" in filters:
        filters["event"] = stored_names(filters["event"])
    for kind, member in _NAMED:
        parameter = f"filter[{member.removesuffix('_id')}]"
        for name in special.get(parameter, ()):
            entities.require(unit, kind, Verb.RETRIEVE, {"zone_id": zone_id})
            may_list = partial(permissions.may_list, unit.caller.roles_in(unit.cache.zones[zone_id]))
            try:
                found = await names.find(unit.conn, kind, name, zone_id=zone_id, may_list=may_list)
            except UnresolvedName as unresolved:
                raise ValidationFailed.of(parameter, unresolved.text) from None
            filters[member] = (*filters.get(member, ()), found.id)
    until = audit.time_of(special, "until") or unit.now + _AHEAD
    return TokenEventFilter(filters, audit.time_of(special, "since"), until)


async def _named(unit: UnitOfWork, kind: Kind[Any], zone_id: str, ids: set[str | None]) -> dict[str, Any]:
    """Those that are still there, by id."""
    wanted = [each for each in ids if each is not None]
    found = await entity_storage.many(unit.conn, kind, wanted, within={"zone_id": zone_id})
    return {each.id: each for each in found}


def _record(
    event: TokenEvent,
    policies: Mapping[str, DecidingPolicy],
    named: Mapping[str, Mapping[str, Any]],
    *,
    shows_emails: bool,
) -> DecisionRecord:
    user = named[USER.name].get(event.user_id or "")
    application = named[APPLICATION.name].get(event.application_id or "")
    resource = named[RESOURCE.name].get(event.resource_id or "")
    error, _, reason = (event.reason or "").partition(": ")
    return DecisionRecord(
        id=event.id,
        at=event.at,
        request_id=event.request_id,
        event=event_named(event.event),
        outcome=event.outcome,
        error=error or None,
        reason=None if error in _OPERATORS_ONLY else reason or None,
        step=event.step,
        step_name=STEP_LABELS.get(event.step) if event.step is not None else None,
        user_id=event.user_id,
        application_id=event.application_id,
        user_agent_id=event.user_agent_id,
        credential_id=event.credential_id,
        resource_id=event.resource_id,
        user=user.identifier if user else None,
        user_email=user.email if user and shows_emails else None,
        application=application.identifier if application else None,
        resource=resource.identifier if resource else None,
        actors=list(event.actors),
        policies=[policies[name] for name in event.determining],
        requests=event.requests or 1,
    )

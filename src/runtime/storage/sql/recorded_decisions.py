"""Recorded decisions of policies, summed up by who asked for what, and the users that they are about.

What may be very many rows is given as rows: whoever reads them gives up the event loop in between.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row, Select, String, and_, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.domain.oauth.exchange_steps import Step
from runtime.storage.sql.batches import among
from runtime.storage.sql.organization_tables import token_events as _events
from runtime.storage.sql.tables import METADATA, TABLES

_users = TABLES["User"]
_groups = TABLES["Group"]
_assignments = TABLES["RoleAssignment"]
_members = METADATA.tables["group_members"]
_bindings = METADATA.tables["policy_set_bindings"]

# The requests in which policies are asked about a resource.
_EVENTS = (
    DecisionEvent.AUTHORIZATION_CODE,
    DecisionEvent.CLIENT_CREDENTIALS,
    DecisionEvent.REFRESH_TOKEN,
    DecisionEvent.TOKEN_EXCHANGE,
)


class RecordedRequest(NamedTuple):
    """What policies were asked, as far as records tell.

    Attributes:
        actors: identifiers of the chain, the asking application first.
    """

    event: DecisionEvent
    user_id: str | None
    application_id: str | None
    user_agent_id: str | None
    credential_id: str | None
    resource_id: str
    actors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordedDecisions:
    """Records of one request that policies decided alike.

    Attributes:
        number: of the records.
        last_at: when the newest was made.
    """

    request: RecordedRequest
    allowed: bool
    number: int
    last_at: datetime


Rows = Sequence[Row[*tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Looked:
    """The newest records of a zone.

    Attributes:
        rows: for `recorded`, the most frequent requests first.
        since: from when on all decisions of policies are among them.
        is_cut: there may be older ones.
    """

    rows: Rows
    since: datetime
    is_cut: bool


async def decisions(
    conn: AsyncConnection, organization_id: str, zone_id: str, *, since: datetime, records: int, most: int
) -> Looked:
    """The decisions of policies among a zone's newest records.

    Args:
        records: how many of the newest records are looked at, whatever they are of.
        most: how many decisions.
    """
    own = [_events.c.organization_id == organization_id, _events.c.zone_id == zone_id]
    in_order = select(_events).where(*own, _events.c.at >= since).order_by(_events.c.at.desc())
    edge: datetime | None = await conn.scalar(
        in_order.with_only_columns(_events.c.at).offset(records - 1).limit(1)
    )
    column = in_order.limit(records).subquery().c
    is_issued = column.outcome == DecisionOutcome.ISSUED
    chosen = (
        select(*column)
        .where(
            column.event.in_(_EVENTS),
            column.resource_id.is_not(None),
            or_(is_issued, and_(column.outcome == DecisionOutcome.REFUSED, column.step == int(Step.POLICY))),
        )
        .order_by(column.at.desc())
        .limit(most)
        .subquery()
        .c
    )
    asked = (
        chosen.event,
        chosen.user_id,
        chosen.application_id,
        chosen.user_agent_id,
        chosen.credential_id,
        chosen.resource_id,
        cast(chosen.actors, String).label("actors"),
        (chosen.outcome == DecisionOutcome.ISSUED).label("allowed"),
    )
    number, oldest = func.count(), func.min(chosen.at)
    found = await conn.execute(
        select(*asked, number.label("number"), func.max(chosen.at).label("last_at"))
        .add_columns(func.sum(number).over().label("all"), func.min(oldest).over().label("oldest"))
        .group_by(*asked)
        .order_by(number.desc(), *asked)
    )
    rows: Rows = found.all()
    if rows and int(rows[0].all) == most:
        edge = max(rows[0].oldest, edge) if edge is not None else rows[0].oldest
    return Looked(rows, edge or since, edge is not None)


def recorded(row: Row[Any]) -> RecordedDecisions:
    """What a row of `decisions` says."""
    request = RecordedRequest(
        DecisionEvent(row.event),
        _shared(row.user_id),
        _shared(row.application_id),
        _shared(row.user_agent_id),
        _shared(row.credential_id),
        intern(row.resource_id),
        tuple(map(intern, orjson.loads(row.actors))),
    )
    return RecordedDecisions(request, bool(row.allowed), row.number, row.last_at)


def _shared(text: str | None) -> str | None:
    """The one text of that value: a hundred thousand records name the same few things."""
    return intern(text) if text is not None else None


async def groups(conn: AsyncConnection, zone_id: str) -> Rows:
    """`id`, `identifier` and `name` of the groups of a zone."""
    found = await conn.execute(
        select(_groups.c.id, _groups.c.identifier, _groups.c.name).where(_groups.c.zone_id == zone_id)
    )
    rows: Rows = found.all()
    return rows


async def roles_of_groups(conn: AsyncConnection, zone_id: str) -> Rows:
    """`principal_id` and `role_identifier` of each role that a group of a zone hands down."""
    found = await conn.execute(_roles(zone_id, "group"))
    rows: Rows = found.all()
    return rows


async def users(conn: AsyncConnection, zone_id: str, user_ids: Collection[str]) -> Rows:
    """`id`, `identifier`, `email`, `email_verified`, `status` and `own_policies` of users that there are.

    `own_policies` is the id of the policy set version that the user has made.
    """
    is_own = and_(
        _bindings.c.zone_id == _users.c.zone_id,
        _bindings.c.target_type == "user",
        _bindings.c.mode == "active",
        _bindings.c.target_id == _users.c.id,
    )
    own = _bindings.c.policy_set_version_id.label("own_policies")
    asked = (_users.c.id, _users.c.identifier, _users.c.email, _users.c.email_verified, _users.c.status, own)
    found = await conn.execute(
        select(*asked)
        .select_from(_users.outerjoin(_bindings, is_own))
        .where(_users.c.zone_id == zone_id, among(_users.c.id, user_ids))
    )
    rows: Rows = found.all()
    return rows


async def memberships(conn: AsyncConnection, zone_id: str, user_ids: Collection[str]) -> Rows:
    """`user_id` and `group_id` of the memberships of users."""
    found = await conn.execute(
        select(_members.c.user_id, _members.c.group_id).where(
            _members.c.zone_id == zone_id, among(_members.c.user_id, user_ids)
        )
    )
    rows: Rows = found.all()
    return rows


async def roles_of_users(conn: AsyncConnection, zone_id: str, user_ids: Collection[str]) -> Rows:
    """`principal_id` and `role_identifier` of the roles that users have themselves."""
    found = await conn.execute(_roles(zone_id, "user").where(among(_assignments.c.principal_id, user_ids)))
    rows: Rows = found.all()
    return rows


def _roles(zone_id: str, principal_type: str) -> Select[Any]:
    return select(_assignments.c.principal_id, _assignments.c.role_identifier).where(
        _assignments.c.zone_id == zone_id,
        _assignments.c.scope_id.is_(None),
        _assignments.c.principal_type == principal_type,
    )

"""Recorded decisions of policies, summed up by who asked for what, and the users that they are about."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import NamedTuple

import orjson
from sqlalchemy import String, and_, cast, func, literal, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.domain.oauth.exchange_steps import Step
from runtime.storage.sql.batches import among
from runtime.storage.sql.organization_tables import token_events as _events
from runtime.storage.sql.session_roots import Memberships
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


@dataclass(frozen=True, slots=True)
class RecordedUser:
    """What policies know of a user.

    Attributes:
        own_policies: id of the policy set version that the user has made; None without one.
    """

    identifier: str
    email: str
    is_email_verified: bool
    is_active: bool
    own_policies: str | None
    memberships: Memberships


async def decisions(
    conn: AsyncConnection, organization_id: str, zone_id: str, *, since: datetime, records: int
) -> list[RecordedDecisions]:
    """The decisions of policies among a zone's newest records, the most frequent first.

    Args:
        records: how many of the newest are looked at.
    """
    newest = (
        select(_events)
        .where(
            _events.c.organization_id == organization_id,
            _events.c.zone_id == zone_id,
            _events.c.at >= since,
        )
        .order_by(_events.c.at.desc())
        .limit(records)
        .subquery()
    )
    column = newest.c
    is_issued = column.outcome == DecisionOutcome.ISSUED
    asked = (
        column.event,
        column.user_id,
        column.application_id,
        column.user_agent_id,
        column.credential_id,
        column.resource_id,
        cast(column.actors, String).label("actors"),
        is_issued.label("allowed"),
    )
    number = func.count()
    rows = await conn.execute(
        select(*asked, number.label("number"), func.max(column.at).label("last_at"))
        .where(
            column.event.in_(_EVENTS),
            column.resource_id.is_not(None),
            or_(is_issued, and_(column.outcome == DecisionOutcome.REFUSED, column.step == int(Step.POLICY))),
        )
        .group_by(*asked)
        .order_by(number.desc(), *asked)
    )
    found = []
    chains: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if (actors := chains.get(row.actors)) is None:
            actors = chains[row.actors] = tuple(orjson.loads(row.actors))
        request = RecordedRequest(
            DecisionEvent(row.event),
            _shared(row.user_id),
            _shared(row.application_id),
            _shared(row.user_agent_id),
            _shared(row.credential_id),
            intern(row.resource_id),
            actors,
        )
        found.append(RecordedDecisions(request, bool(row.allowed), row.number, row.last_at))
    return found


def _shared(text: str | None) -> str | None:
    """The one text of that value: a hundred thousand records name the same few things."""
    return intern(text) if text is not None else None


async def users(conn: AsyncConnection, zone_id: str, user_ids: Collection[str]) -> Mapping[str, RecordedUser]:
    """The users of these ids that there are, by id, in three statements."""
    memberships = await _memberships(conn, zone_id, user_ids)
    own = await conn.execute(
        select(_bindings.c.target_id, _bindings.c.policy_set_version_id).where(
            _bindings.c.zone_id == zone_id,
            _bindings.c.target_type == "user",
            _bindings.c.mode == "active",
            among(_bindings.c.target_id, user_ids),
        )
    )
    own_policies = {row.target_id: row.policy_set_version_id for row in own}
    found = await conn.execute(
        select(
            _users.c.id, _users.c.identifier, _users.c.email, _users.c.email_verified, _users.c.status
        ).where(_users.c.zone_id == zone_id, among(_users.c.id, user_ids))
    )
    return {
        row.id: RecordedUser(
            row.identifier,
            row.email,
            row.email_verified,
            row.status == "active",
            own_policies.get(row.id),
            memberships.get(row.id, Memberships((), ())),
        )
        for row in found
    }


async def _memberships(
    conn: AsyncConnection, zone_id: str, user_ids: Collection[str]
) -> Mapping[str, Memberships]:
    held = and_(_assignments.c.zone_id == zone_id, _assignments.c.scope_id.is_(None))
    of_groups = (
        select(_members.c.user_id, _groups.c.identifier, _groups.c.name, _assignments.c.role_identifier)
        .select_from(
            _members.join(
                _groups, and_(_groups.c.id == _members.c.group_id, _groups.c.zone_id == _members.c.zone_id)
            ).outerjoin(
                _assignments,
                and_(
                    _assignments.c.principal_type == "group",
                    _assignments.c.principal_id == _groups.c.id,
                    held,
                ),
            )
        )
        .where(_members.c.zone_id == zone_id, among(_members.c.user_id, user_ids))
    )
    direct = select(
        _assignments.c.principal_id, literal(None), literal(None), _assignments.c.role_identifier
    ).where(held, _assignments.c.principal_type == "user", among(_assignments.c.principal_id, user_ids))
    names: dict[str, dict[str, tuple[str, set[str]]]] = {}
    roles: dict[str, set[str]] = {}
    for user_id, identifier, name, role in await conn.execute(union_all(of_groups, direct)):
        if identifier is None:
            roles.setdefault(user_id, set()).add(role)
            continue
        group = names.setdefault(user_id, {}).setdefault(identifier, (name, set()))
        group[1].update({role} if role else ())
    return {
        user_id: Memberships(
            tuple(
                (identifier, name, tuple(sorted(held_by)))
                for identifier, (name, held_by) in sorted(names.get(user_id, {}).items())
            ),
            tuple(sorted(roles.get(user_id, ()))),
        )
        for user_id in names.keys() | roles.keys()
    }

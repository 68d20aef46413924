"""Recorded decisions of policies, and the users that they are about.

What may be very many rows is given as rows: whoever reads them gives up the event loop in between.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from datetime import datetime
from sys import intern
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Row, Select, String, and_, cast, or_, select
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
Rows = Sequence[Row[*tuple[Any, ...]]]
_AT_A_TIME = 500


async def time_of(
    conn: AsyncConnection, organization_id: str, zone_id: str, *, since: datetime, number: int
) -> datetime | None:
    """When a record was made, of any sort: the newest is number 1; None where there are fewer."""
    found: datetime | None = await conn.scalar(
        select(_events.c.at)
        .where(*_recorded(organization_id, zone_id, since))
        .order_by(_events.c.at.desc())
        .offset(number - 1)
        .limit(1)
    )
    return found


async def decisions(
    conn: AsyncConnection, organization_id: str, zone_id: str, *, since: datetime, most: int
) -> AsyncGenerator[Rows]:
    """The decisions of policies in a zone, the newest first, some rows at a time.

    Columns: `event`, `user_id`, `application_id`, `user_agent_id`, `credential_id`, `resource_id`, `actors`
    (JSON), `allowed`, `at`.
    """
    is_issued = _events.c.outcome == DecisionOutcome.ISSUED
    asked = (
        select(
            _events.c.event,
            _events.c.user_id,
            _events.c.application_id,
            _events.c.user_agent_id,
            _events.c.credential_id,
            _events.c.resource_id,
            cast(_events.c.actors, String).label("actors"),
            is_issued.label("allowed"),
            _events.c.at,
        )
        .where(
            *_recorded(organization_id, zone_id, since),
            _events.c.event.in_(_EVENTS),
            _events.c.resource_id.is_not(None),
            or_(
                is_issued,
                and_(_events.c.outcome == DecisionOutcome.REFUSED, _events.c.step == int(Step.POLICY)),
            ),
        )
        .order_by(_events.c.at.desc())
        .limit(most)
    )
    async with conn.stream(asked, execution_options={"yield_per": _AT_A_TIME}) as result:
        async for rows in result.partitions():
            yield rows


def actors(column: str) -> tuple[str, ...]:
    """What the column `actors` of a decision says."""
    return tuple(map(intern, orjson.loads(column)))


def _recorded(organization_id: str, zone_id: str, since: datetime) -> list[ColumnElement[bool]]:
    return [
        _events.c.organization_id == organization_id,
        _events.c.zone_id == zone_id,
        _events.c.at >= since,
    ]


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

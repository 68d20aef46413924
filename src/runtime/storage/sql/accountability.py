"""Applications and the user or group that is accountable for them: is that active, and which ones are ended?

A user is active by their status, a group by a member who is. What was deleted is active no more: an id that
leads nowhere, or the address of somebody who has not signed in yet, is nobody.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.application import Application
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.domain.oauth.zone_settings import ZoneSettings
from runtime.storage.sql.batches import among, batches
from runtime.storage.sql.tables import METADATA, TABLES

_applications = TABLES["Application"]
_users = TABLES["User"]
_members = METADATA.tables["group_members"]
_internals = METADATA.tables["zone_internals"]

_NAMES_SOMEBODY = or_(
    _applications.c.accountable_user_id.is_not(None), _applications.c.accountable_group_id.is_not(None)
)


def _is_active(zone_id: Any, user_id: Any, group_id: Any) -> ColumnElement[bool]:
    """Whether that user is active, or an active user is a member of that group."""
    active = _users.c.status == UserStatus.ACTIVE.value
    the_user = exists().where(_users.c.zone_id == zone_id, _users.c.id == user_id, active)
    a_member = exists().where(
        _members.c.zone_id == zone_id,
        _members.c.group_id == group_id,
        _users.c.zone_id == _members.c.zone_id,
        _users.c.id == _members.c.user_id,
        active,
    )
    return or_(the_user, a_member)


_ANSWERS = select(_is_active(bindparam("zone"), bindparam("user"), bindparam("group")))


async def is_answered_for(conn: AsyncConnection, application: Application) -> bool:
    """Tell whether an active user or group is accountable for an application, or it names neither."""
    user_id, group_id = application.accountable_user_id, application.accountable_group_id
    if user_id is None and group_id is None:
        return True
    names = {"zone": application.zone_id, "user": user_id, "group": group_id}
    return bool(await conn.scalar(_ANSWERS, names))


async def is_required(conn: AsyncConnection, zone_id: str) -> bool:
    """Tell whether applications of a zone end with who is accountable for them: the zone setting."""
    written = await conn.scalar(select(_internals.c.switches).where(_internals.c.zone_id == zone_id))
    return bool(written) and ZoneSettings.model_validate(written).require_active_accountable


async def ended(
    conn: AsyncConnection, zone_id: str, application_ids: Collection[str] | None = None
) -> list[str]:
    """The applications of a zone that are ended because nobody active is accountable for them.

    Args:
        application_ids: those that are asked about; all of the zone without them.
    """
    chosen = () if application_ids is None else (among(_applications.c.id, application_ids),)
    columns = _applications.c
    found = await conn.scalars(
        select(columns.id)
        .where(
            columns.zone_id == zone_id,
            _NAMES_SOMEBODY,
            ~_is_active(columns.zone_id, columns.accountable_user_id, columns.accountable_group_id),
            *chosen,
        )
        .order_by(columns.id)
    )
    named = list(found)
    return named if named and await is_required(conn, zone_id) else []


async def of_user(conn: AsyncConnection, zone_id: str, user_id: str) -> list[str]:
    """The applications that a user is accountable for, by themselves or as a member of a group."""
    groups = select(_members.c.group_id).where(_members.c.zone_id == zone_id, _members.c.user_id == user_id)
    return await _ids(
        conn,
        _of_zone(zone_id).where(
            or_(
                _applications.c.accountable_user_id == user_id,
                _applications.c.accountable_group_id.in_(groups),
            )
        ),
    )


async def of_groups(conn: AsyncConnection, zone_id: str, group_ids: Sequence[str]) -> list[str]:
    """The applications that one of these groups is accountable for."""
    found: list[str] = []
    for batch in batches(group_ids):
        found += await _ids(conn, _of_zone(zone_id).where(_applications.c.accountable_group_id.in_(batch)))
    return found


async def bind_address(conn: AsyncConnection, user: User) -> int:
    """Make a user accountable for what their verified address was named for; how many applications."""
    taken = await conn.execute(
        update(_applications)
        .where(
            _applications.c.zone_id == user.zone_id,
            _applications.c.accountable_user_id == user.email.lower(),
        )
        .values(accountable_user_id=user.id)
    )
    return int(taken.rowcount)


async def addresses(conn: AsyncConnection, zone_ids: Collection[str]) -> dict[str, str]:
    """The users of these zones who are accountable for an application themselves: id -> e-mail address."""
    found = await conn.execute(
        select(_users.c.id, _users.c.email)
        .join(
            _applications,
            and_(
                _applications.c.zone_id == _users.c.zone_id,
                _applications.c.accountable_user_id == _users.c.id,
            ),
        )
        # Once for each of several applications: a dictionary has it once.
        .where(among(_applications.c.zone_id, zone_ids))
    )
    return {row.id: row.email for row in found}


def _of_zone(zone_id: str) -> Select[tuple[str]]:
    return select(_applications.c.id).where(_applications.c.zone_id == zone_id)


async def _ids(conn: AsyncConnection, query: Select[tuple[str]]) -> list[str]:
    return list(await conn.scalars(query.order_by(_applications.c.id)))

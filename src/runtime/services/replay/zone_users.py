"""The users whom recorded requests are of, as policies see them in one state of a zone.

There may be a hundred thousand, in as many groups as somebody likes who only tries that out: so they are read
some at a time, each group once, and as long as there is time.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.values import UserStatus
from runtime.domain.policy.requests import PolicyGroup, PolicyUser
from runtime.services.authority.active import may_user_act
from runtime.services.time_slices import TimeSlice
from runtime.services.zones.principals import policy_user
from runtime.storage.sql import recorded_decisions as storage

# Groups and roles of one user: the engine reads all of them for each question, and cannot be interrupted.
MOST_ENTITIES = 1_000
_AT_A_TIME = 100


class Numbering:
    """Numbers for facts: equal facts have the same, also in another state of the zone."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, facts: Hashable) -> int:
        """The number of these facts."""
        return self._known.setdefault(facts, len(self._known))


@dataclass(frozen=True, slots=True)
class SeenUser:
    """A user of a recorded request.

    Attributes:
        seen: as policies see them.
        email: proved or not.
        own_policies: id of the policy set version that the user has made; None without one.
        shared: the number of everybody with the same groups and roles.
        own: the number of all that is known of this user alone.
        is_too_large: has more groups and roles than are replayed.
    """

    seen: PolicyUser
    email: str
    is_active: bool
    own_policies: str | None
    shared: int
    own: int
    is_too_large: bool


async def read(
    conn: AsyncConnection,
    zone_id: str,
    user_ids: Sequence[str],
    numbering: Numbering,
    time_slice: TimeSlice,
    *,
    seconds: float,
) -> Mapping[str, SeenUser | None]:
    """The users of these ids by id; None for one who is not there. Those there is no time for are left out.

    Args:
        seconds: that may be spent.
    """
    found = dict[str, SeenUser | None]()
    groups = await _groups(conn, zone_id, numbering, time_slice) if user_ids else {}
    for first in range(0, len(user_ids), _AT_A_TIME):
        if time_slice.spent > seconds:
            break
        some = user_ids[first : first + _AT_A_TIME]
        found.update(await _some(conn, zone_id, some, groups, numbering, time_slice))
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    group: PolicyGroup
    number: int


async def _groups(
    conn: AsyncConnection, zone_id: str, numbering: Numbering, time_slice: TimeSlice
) -> Mapping[str, _Group]:
    """All groups of the zone, by id: as many as its configuration has."""
    roles: dict[str, list[str]] = defaultdict(list)
    for row in await storage.roles_of_groups(conn, zone_id):
        roles[row.principal_id].append(row.role_identifier)
        await time_slice.yield_if_due()
    found = {}
    for row in await storage.groups(conn, zone_id):
        group = PolicyGroup(row.identifier, row.name, tuple(sorted(set(roles[row.id]))))
        found[row.id] = _Group(group, numbering.of(group))
        await time_slice.yield_if_due()
    return found


async def _some(
    conn: AsyncConnection,
    zone_id: str,
    user_ids: Sequence[str],
    groups: Mapping[str, _Group],
    numbering: Numbering,
    time_slice: TimeSlice,
) -> Mapping[str, SeenUser | None]:
    theirs: dict[str, list[_Group]] = defaultdict(list)
    for row in await storage.memberships(conn, zone_id, user_ids):
        if (group := groups.get(row.group_id)) is not None:
            theirs[row.user_id].append(group)
        await time_slice.yield_if_due()
    roles: dict[str, set[str]] = defaultdict(set)
    for row in await storage.roles_of_users(conn, zone_id, user_ids):
        roles[row.principal_id].add(row.role_identifier)
        await time_slice.yield_if_due()
    found: dict[str, SeenUser | None] = dict.fromkeys(user_ids)
    for row in await storage.users(conn, zone_id, user_ids):
        own = sorted(theirs[row.id], key=lambda each: each.group.identifier)
        direct = tuple(sorted(roles[row.id]))
        seen = policy_user(
            row.identifier,
            tuple(each.group for each in own),
            direct,
            email=row.email,
            is_email_verified=row.email_verified,
        )
        shared = numbering.of((tuple(each.number for each in own), direct))
        found[row.id] = SeenUser(
            seen,
            row.email,
            may_user_act(UserStatus(row.status)),
            row.own_policies,
            shared,
            numbering.of((shared, row.identifier, seen.email, row.own_policies)),
            sum(1 + len(each.group.roles) for each in own) + len(direct) > MOST_ENTITIES,
        )
        await time_slice.yield_if_due()
    return found

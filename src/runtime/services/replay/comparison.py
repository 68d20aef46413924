"""Compares what recorded requests come to by two states of a zone: who loses, and who gains."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import NamedTuple

from runtime.contract.changes import DecidingRule, DecisionChange, DecisionChanges, DecisionImpact
from runtime.services.replay.replayed_zone import ReplayedZone
from runtime.services.replay.zone_decisions import RefusedBy
from runtime.services.replay.zone_records import ZoneRecords
from runtime.services.time_slices import TimeSlice

EXAMPLES = 20
NOTHING = DecisionChanges(decisions=0, of_scopes=0, users=0, applications=0, resources=0, examples=[])


def not_replayed(records: ZoneRecords, why: str) -> DecisionImpact:
    """The answer for a zone of which nothing was replayed."""
    number = sum(each.number for each in records.recorded)
    return DecisionImpact(
        zone_id=records.zone.id,
        since=records.since,
        complete=records.is_complete,
        recorded=number,
        replayed=0,
        reproduced=0,
        not_replayed={why: number} if number else {},
        unrecorded=[],
        loses=NOTHING,
        gains=NOTHING,
    )


async def compared(
    records: ZoneRecords, before: ReplayedZone, after: ReplayedZone, time_slice: TimeSlice
) -> DecisionImpact:
    """What has changed between two states of a zone, for what it has recorded."""
    loses, gains = _Changes(records, before, after), _Changes(records, after, before)
    gone = replayed = reproduced = 0
    unrecorded: set[str] = set()
    for index, each in enumerate(records.recorded[: len(after.asked)]):
        await time_slice.yield_if_due()
        asked, asked_now = before.asked[index], after.asked[index]
        if isinstance(asked, RefusedBy):
            gone += each.number
            continue
        if asked is None or asked_now is None:
            continue
        replayed += each.number
        reproduced += each.number if (before.came_to[index].scopes is not None) == each.allowed else 0
        unrecorded |= asked.target.unrecorded
        if not isinstance(asked_now, RefusedBy):
            unrecorded |= asked_now.target.unrecorded
        loses.add_if_lost(index, was_allowed=True)
        gains.add_if_lost(index, was_allowed=False)
    number = sum(each.number for each in records.recorded)
    left_out = {"gone": gone, "too_many": number - replayed - gone}
    return DecisionImpact(
        zone_id=records.zone.id,
        since=records.since,
        complete=records.is_complete,
        recorded=number,
        replayed=replayed,
        reproduced=reproduced,
        not_replayed={why: count for why, count in left_out.items() if count},
        unrecorded=sorted(unrecorded),
        loses=await loses.summary(lambda allowing, refusing: (allowing, refusing)),
        gains=await gains.summary(lambda allowing, refusing: (refusing, allowing)),
    )


class _ChangedRequest(NamedTuple):
    """What records have in common that are told together.

    Attributes:
        scopes: that are lost; None for everything at the resource.
    """

    user_id: str | None
    client_id: str | None
    resource_id: str
    actors: tuple[str, ...]
    scopes: tuple[str, ...] | None


@dataclass
class _Sum:
    """Records of one changed request.

    Attributes:
        index: of one of them, by which it is described.
    """

    index: int
    last_at: datetime
    number: int = 0


_Rules = list[DecidingRule]
_InOrder = Callable[[_Rules, _Rules], tuple[_Rules, _Rules]]


class _Changes:
    """Requests that one state of a zone allows and the other does not, summed up."""

    def __init__(self, records: ZoneRecords, allowing: ReplayedZone, refusing: ReplayedZone) -> None:
        self._records, self._allowing, self._refusing = records, allowing, refusing
        self._sums: dict[_ChangedRequest, _Sum] = {}

    def add_if_lost(self, index: int, *, was_allowed: bool) -> None:
        """Add the records of the request at that place, where something of it is refused.

        Args:
            was_allowed: what records say of requests that are refused as a whole; those of which only some
                scopes are refused were allowed.
        """
        allowed, left = self._allowing.came_to[index].scopes, self._refusing.came_to[index].scopes
        if allowed is None or (left is not None and allowed <= left):
            return
        recorded = self._records.recorded[index]
        if recorded.allowed != (was_allowed or left is not None):
            return
        request = recorded.request
        changed = _ChangedRequest(
            request.user_id,
            request.application_id or request.user_agent_id,
            request.resource_id,
            request.actors,
            None if left is None else tuple(sorted(allowed - left)),
        )
        found = self._sums.setdefault(changed, _Sum(index, recorded.last_at))
        found.number += recorded.number
        found.last_at = max(found.last_at, recorded.last_at)

    async def summary(self, in_order: _InOrder) -> DecisionChanges:
        """Their numbers, and those with most records.

        Args:
            in_order: which of the allowing and the refusing rules decide before, and which afterwards.
        """
        most = nsmallest(EXAMPLES, self._sums.items(), key=lambda each: (-each[1].number, each[1].index))
        return DecisionChanges(
            decisions=sum(each.number for each in self._sums.values()),
            of_scopes=sum(each.number for key, each in self._sums.items() if key.scopes is not None),
            users=len({each.user_id for each in self._sums} - {None}),
            applications=len({each.client_id for each in self._sums}),
            resources=len({each.resource_id for each in self._sums}),
            examples=[await self._example(*each, in_order) for each in most],
        )

    async def _example(self, changed: _ChangedRequest, found: _Sum, in_order: _InOrder) -> DecisionChange:
        asked, allowed = self._allowing.asked[found.index], self._allowing.came_to[found.index]
        if asked is None or isinstance(asked, RefusedBy):
            raise TypeError("an allowed request resolves every entity that it names")
        user = self._allowing.decisions.users.get(changed.user_id or "")
        refused_by, refusing = await self._refusal(changed, found.index, allowed.scopes or frozenset())
        before, after = in_order(self._allowing.rules(allowed.rules), refusing)
        return DecisionChange(
            user=user.seen.identifier if user else None,
            user_email=user.email if user and self._records.shows_emails else None,
            application=asked.target.client.identifier,
            resource=asked.target.resource.identifier,
            actors=list(asked.question.actors),
            scopes=list(changed.scopes) if changed.scopes is not None else None,
            decisions=found.number,
            last_at=found.last_at,
            refused_by=refused_by,
            before=before,
            after=after,
        )

    async def _refusal(
        self, changed: _ChangedRequest, index: int, allowed: frozenset[str]
    ) -> tuple[RefusedBy, _Rules]:
        """What refuses that, and the rules that do; none where no rule permits it.

        Args:
            allowed: the scopes that are allowed otherwise: of the others, nobody says that they are lost.
        """
        decision, asked = self._refusing.came_to[index], self._refusing.asked[index]
        if asked is None or isinstance(asked, RefusedBy):
            return decision.refused_by or RefusedBy.POLICY, []
        offered = frozenset(asked.target.resource.scopes or ())
        if changed.scopes is not None and not offered & set(changed.scopes):
            return RefusedBy.SCOPE, []
        if changed.scopes is not None:
            return RefusedBy.POLICY, self._refusing.rules(decision.forbidding)
        if decision.refused_by is RefusedBy.POLICY and allowed & offered not in (offered, frozenset()):
            decision = await self._refusing.decisions.decide_anew(asked, allowed & offered)
        return decision.refused_by or RefusedBy.POLICY, self._refusing.rules(decision.rules)

"""The decisions that the recorded requests of a zone come to by one state of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.changes import DecidingRule
from runtime.services.replay.zone_decisions import (
    AskedRequest,
    RefusedBy,
    ReplayedDecision,
    Target,
    ZoneDecisions,
)
from runtime.services.time_slices import TimeSlice
from runtime.services.zones import Policies
from runtime.storage.sql import bindings
from runtime.storage.sql.recorded_decisions import RecordedDecisions

_NOT_REPLAYED = ReplayedDecision(None)


@dataclass
class ReplayedZone:
    """What the recorded requests of a zone come to, in their order, by one state of it.

    Attributes:
        asked, came_to: of the first of them; of all, where there was time for that. None was asked for what
            takes too long by itself.
    """

    zone_id: str
    decisions: ZoneDecisions
    asked: list[AskedRequest | RefusedBy | None] = field(default_factory=list)
    came_to: list[ReplayedDecision] = field(default_factory=list)
    _policy_names: Mapping[str, str] = field(default_factory=dict)  # by version

    async def name_policies(self, conn: AsyncConnection) -> None:
        """Read what people call the policies."""
        policies = self.decisions.policies
        versions = policies.rules.keys() if policies is not None else ()
        named = await bindings.policies_of_versions(conn, self.zone_id, versions)
        self._policy_names = {version_id: each.name for version_id, each in named.items()}

    async def decide(
        self,
        recorded: Sequence[RecordedDecisions],
        before: "ReplayedZone | None",
        time_slice: TimeSlice,
        *,
        seconds: float,
    ) -> None:
        """Decide as many as there is time for; what has not changed since *before* as it was decided then.

        Args:
            seconds: that may be spent.
        """
        unchanged = _Unchanged(before, self) if before is not None else None
        for index, each in enumerate(recorded if before is None else recorded[: len(before.asked)]):
            asked = self.decisions.question(each.request, each.last_at)
            decision = _NOT_REPLAYED
            if isinstance(asked, RefusedBy):
                decision = ReplayedDecision(None, refused_by=asked)
            elif asked is not None:
                former = unchanged.decision(index, asked) if unchanged is not None else None
                decision = former or await self.decisions.decide(asked)
            self.asked.append(asked)
            self.came_to.append(decision)
            await time_slice.yield_if_due()
            if time_slice.spent > seconds:
                break

    def rules(self, names: Iterable[str]) -> list[DecidingRule]:
        """Rules as the engine has them, by what people call them."""
        split = (name.partition("#") for name in names)
        return [
            DecidingRule(policy=self._policy_names.get(version_id, version_id), rule=rule)
            for version_id, _, rule in split
        ]


class _Unchanged:
    """The requests for which nothing has changed between two states of a zone."""

    def __init__(self, before: ReplayedZone, after: ReplayedZone) -> None:
        self._before = before
        self._concerned = _concerned(before.decisions.policies, after.decisions.policies)
        self._same: dict[tuple[str, str], bool] = {}

    def decision(self, index: int, asked: AskedRequest) -> ReplayedDecision | None:
        """What the request at that place came to before; None where that has to be found out anew."""
        former = self._before.asked[index]
        if former is None or isinstance(former, RefusedBy) or former.question != asked.question:
            return None
        key = asked.question.target
        if (same := self._same.get(key)) is None:
            same = self._same[key] = self._is_same(former.target, asked.target)
        return self._before.came_to[index] if same else None

    def _is_same(self, former: Target, target: Target) -> bool:
        if self._concerned is None or target.resource.identifier in self._concerned:
            return False
        return (former.participants, former.is_dependency) == (target.participants, target.is_dependency)


def _concerned(before: Policies | None, after: Policies | None) -> frozenset[str] | None:
    """The resources to which a rule may apply that only one of two policy sets has; None for any resource."""
    if before is None or after is None:  # without a set everything is refused
        return frozenset() if before is after else None
    sets = [Counter(rule.text for rules in each.rules.values() for rule in rules) for each in (before, after)]
    changed = (sets[0] - sets[1]) + (sets[1] - sets[0])
    about = {
        rule.reads.resource_id
        for each in (before, after)
        for rules in each.rules.values()
        for rule in rules
        if rule.text in changed
    }
    return None if None in about else frozenset(each for each in about if each is not None)

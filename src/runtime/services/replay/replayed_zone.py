"""The decisions that the recorded requests of a zone come to by one state of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.changes import DecidingRule
from runtime.services.replay.changed_rules import ChangedRules
from runtime.services.replay.zone_decisions import (
    AskedRequest,
    Question,
    RefusedBy,
    ReplayedDecision,
    Target,
    ZoneDecisions,
)
from runtime.services.replay.zone_records import RecordedDecisions, RecordedRequest
from runtime.services.time_slices import TimeSlice
from runtime.storage.sql import bindings

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
                former = unchanged.decision(index, each.request, asked) if unchanged is not None else None
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
        self._before, self._after = before, after
        self._changed_rules = ChangedRules(before.decisions.policies, after.decisions.policies)
        self._same: dict[tuple[str, str], bool] = {}

    def decision(self, index: int, request: RecordedRequest, asked: AskedRequest) -> ReplayedDecision | None:
        """What the request at that place came to before; None where that has to be found out anew."""
        former = self._before.asked[index]
        if former is None or isinstance(former, RefusedBy):
            return None
        key = asked.question.target
        if (is_same := self._same.get(key)) is None:
            is_same = self._same[key] = _is_same_target(former.target, asked.target)
        if not is_same or not self._is_same_question(former.question, asked.question, request.user_id):
            return None
        may_apply = self._changed_rules.may_apply(
            asked.target.resource.identifier,
            self._after.decisions.users[request.user_id] if request.user_id is not None else None,
            partial(self._after.decisions.policy_request, asked),
        )
        return None if may_apply else self._before.came_to[index]

    def _is_same_question(self, former: Question, question: Question, user_id: str | None) -> bool:
        """Tell whether the same is asked of the same user, however much of them policies look at."""
        if former == question:
            return True
        if user_id is None or former._replace(principal=question.principal) != question:
            return False
        users = (each.decisions.users.get(user_id) for each in (self._before, self._after))
        return len({user.own if user is not None else None for user in users}) == 1


def _is_same_target(former: Target, target: Target) -> bool:
    return (former.participants, former.is_dependency) == (target.participants, target.is_dependency)

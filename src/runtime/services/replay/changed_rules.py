"""The rules that only one of two policy sets has: a request to which none of them applies stays as it was."""

from collections import Counter
from collections.abc import Callable

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, PolicyRule
from runtime.domain.policy.context_usage import told_apart
from runtime.domain.policy.requests import PolicyRequest
from runtime.services.replay.zone_users import SeenUser
from runtime.services.zones import Policies

# Of rules that the engine is asked about by themselves: parsing them keeps the event loop.
_MOST_CHARACTERS = 20_000


class ChangedRules:
    """The rules that two states of a zone do not have in common."""

    def __init__(self, before: Policies | None, after: Policies | None) -> None:
        """Args:
        before, after: None without a policy set, which refuses everything.
        """
        self._is_everything = (before is None) is not (after is None)
        rules = _of_one(before, after) if before is not None and after is not None else []
        self._resources = {rule.reads.resource_id for rule in rules} - {None}
        general = [rule for rule in rules if rule.reads.resource_id is None]
        self._is_general = bool(general)
        self._told_apart = told_apart([rule.reads for rule in general], "")
        self._compiled: CompiledPolicies | None = None
        if (
            after is not None
            and sum(len(each.text) for each in general) <= _MOST_CHARACTERS
            and all(each.reads.is_about_principal for each in general)
        ):
            self._compiled = cedar.compile_policies({"": general}, after.compiled.schema)
        self._applies: dict[int, bool] = {}

    def may_apply(
        self, resource_id: str, user: SeenUser | None, question: Callable[[SeenUser], PolicyRequest]
    ) -> bool:
        """Tell whether one of them may decide a request, or fail in it.

        Args:
            resource_id: the identifier of the resource.
            user: whose authority is used; None where it is an application's.
            question: what policies are asked about that user.
        """
        if self._is_everything or resource_id in self._resources:
            return True
        if not self._is_general or user is None or self._compiled is None:
            return self._is_general
        is_apart = self._told_apart is None or user.seen.identifier in self._told_apart
        key = user.own if is_apart else user.shared
        if (applies := self._applies.get(key)) is None:
            decision = cedar.decide(self._compiled, question(user))
            applies = self._applies[key] = bool(decision.determining or decision.errors)
        return applies


def _of_one(before: Policies, after: Policies) -> list[PolicyRule]:
    sets = [[rule for rules in each.rules.values() for rule in rules] for each in (before, after)]
    texts = [Counter(rule.text for rule in each) for each in sets]
    changed = (texts[0] - texts[1]) + (texts[1] - texts[0])
    return list({rule.text: rule for each in sets for rule in each if rule.text in changed}.values())

"""Verifies a saved plan against the server: whatever it says beside its operations is computed again.

How many objects there are, what goes with a zone, what is there before, what widens: zonectl works it out
from a snapshot and writes it down. Somebody else may have written something less harmful, or more soothing,
with a digest that fits. So nothing of a plan from a file is believed that can be found out:

- `operations` say what is done. They are sent as they are, and the server judges them as anybody's.
- `summary`, the digest and the tool's name follow from the rest, and `moved_from` and `moved_to` from the
  actions: a file in which they do not is none that zonectl made (`read_plan`, `with_zone_moves`).
- `actions`: `inconsistencies` finds whether they tell what the operations do, whether ids fit the names
  `misidentified_objects`; and all else that they say of an object `ActionChecker`: its members before,
  drift and conflicts, protection, secrets, handles and names, and what others have deleted.
- `deciding`, `widened` and `exempt`, what goes with a zone, and what stands against a plan whatever is
  consented to are worked out here. What `refused` says is not shown: that there is something is enough.
- `owner`, `organization_id`, `server` and `base_revision` are compared with whoever applies, and `owned` is
  counted again. `delete_budgets` only ever ask for more consents.

What cannot be found out without the manifests is no part of what happens, and is told as the file's word or
not at all: `reason` has the form of a place in a file, and the text says whose word that is; `place` is shown
as the line of the policy's text; `wanted`, the number of manifests, is not shown; `source` goes to receipts,
where it is the caller's word from any plan. What stands beside a plan, such as `guards`, is not read.

As long as nothing was written since, a plan says exactly what there is. Afterwards it may say more: what it
is about may be done already, by this very plan. That asks for more consents, and the server refuses what
has changed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from reconciler.kinds import Snapshot

from .model import BY_OTHERS, FieldChange, Op, Plan
from .plan_consistency import PLAN_AGAIN
from .policy_impact import PolicyImpact, WidenedAccess
from .policy_preview import ACTIVE, POLICY_SET, PolicyPreview
from .saved_action_check import ActionChecker
from .zone_moves import with_zone_moves


def with_server_facts(plan: Plan, snapshot: Snapshot) -> Plan:
    """The same plan, as the server tells of it: how many objects its owner has, and where policies widen.

    What it deletes and is gone counts: this plan may have been applied before.
    """
    _ = plan.digest  # it keeps it
    there = {each.id for each in snapshot.entities}
    owned = Counter(each.kind for each in plan.destroying if each.id not in there)
    owned.update(
        each.kind for each in snapshot.entities if each.ownership and each.ownership.owner == plan.owner
    )
    places = {_unplaced(each): each.place for each in _Recount(plan, snapshot).foreseen.widened}
    told = tuple(replace(each, place=places.get(_unplaced(each), "")) for each in plan.widened)
    return replace(plan, owned=dict(sorted(owned.items())), widened=tuple(dict.fromkeys(told)))


def saved_plan_discrepancies(plan: Plan, snapshot: Snapshot) -> Iterator[str]:
    """What a saved plan does not say of the server as it is, or says otherwise; one message each.

    Objects that have changed since the plan was made are left to the server, which refuses it for them.
    """
    return _Recount(plan, snapshot).problems()


def _unplaced(found: WidenedAccess) -> WidenedAccess:
    return replace(found, place="")


class _Recount(ActionChecker):
    """The same of the whole plan."""

    def __init__(self, plan: Plan, snapshot: Snapshot) -> None:
        super().__init__(plan, snapshot)
        self.snapshot = snapshot

    def problems(self) -> Iterator[str]:
        """What the plan hides; one message each."""
        yield from self._of_server()
        yield from self._everything_goes()
        if self.plan.actions != tuple(with_zone_moves(self.plan.actions)):
            yield f"the saved plan marks moves between zones wrongly{PLAN_AGAIN}"
        for action in self.plan.actions:
            for problem in self.problems_of(action):
                yield f"{action.title}: {problem}{PLAN_AGAIN}"
        yield from self._consequences()

    def _of_server(self) -> Iterator[str]:
        if self.plan.organization_id != self.snapshot.organization_id:
            yield f"the plan was made for another organization, `{self.plan.organization_id}`"
        if self.plan.base_revision > self.snapshot.revision:
            now = self.snapshot.revision
            yield f"the base revision of the plan is newer than the server, which is at {now}{PLAN_AGAIN}"

    def _everything_goes(self) -> Iterator[str]:
        """Without a manifest a plan is refused; one manifest leaves something, makes it or lets it go."""
        ops = Counter(action.op for action in self.plan.actions)
        missing = sum(
            action.op is Op.DELETE and action.id not in self.index.by_id for action in self.plan.actions
        )
        owned = len(self.index.owned) + missing
        if ops[Op.DELETE] and ops.keys() == {Op.DELETE} and ops[Op.DELETE] >= owned:
            yield f"the plan removes everything that `{self.plan.owner}` manages{PLAN_AGAIN}"

    # --- what follows

    def _consequences(self) -> Iterator[str]:
        deciding, widened, exempt = self.foreseen
        here = {each.zone for each in deciding}
        more = {each for each in self.plan.deciding if not self.moved or each.zone in here}
        if not set(deciding) <= {*self.plan.deciding} or not more <= {*deciding}:
            said = "the change of the active policies"
            zones = sorted({each.zone for each in {*self.plan.deciding} ^ {*deciding}})
            yield from (f"the saved plan does not match {said} in zone {each}{PLAN_AGAIN}" for each in zones)
        told, there = ({_unplaced(each) for each in found} for found in (self.plan.widened, widened))
        differing = there - told if self.moved else there ^ told
        for zone in sorted({each.zone for each in differing}):
            yield f"the saved plan lists the wrong widened access in zone {zone}{PLAN_AGAIN}"

        apart = {*exempt} - {*self.plan.exempt} if self.moved else {*exempt} ^ {*self.plan.exempt}
        for prefix in sorted({each.prefix for each in apart}):
            yield f"the saved plan lists the wrong resources below the prefix `{prefix}`{PLAN_AGAIN}"

    @cached_property
    def foreseen(self) -> PolicyImpact:
        """What follows from the operations."""
        return PolicyPreview(
            self.kinds,
            self.index.in_zone,
            self.names.zone,
            dict(self._same()),
            {},
            frozenset(self._out_of_force()),
            lambda key: self.made_label(key) if key in self.made else self.names.shown(key),
        ).of(self.plan.operations)

    def _same(self) -> Iterator[tuple[str, str]]:
        """What is made in place of something that is there; or is there, made by this very plan."""
        for local_id, action in self.made.items():
            if action.id in self.index.by_id:
                yield local_id, str(action.id)
                continue
            for zone_id in self.zones_of(action):
                there = self.index.owned.get((zone_id, action.kind, action.name))
                if there is not None and there.revision > self.plan.base_revision:
                    yield local_id, there.id

    def _out_of_force(self) -> Iterator[str]:
        """Policy sets that decided as git says, until somebody deleted them or let others decide."""
        local_ids = {id(action): local_id for local_id, action in self.made.items()}
        for action in self.plan.actions:
            if action.kind == POLICY_SET and (action.deleted or any(map(_is_displaced, action.changes))):
                yield action.id or local_ids[id(action)]


def _is_displaced(change: FieldChange) -> bool:
    return change.path == ACTIVE and change.after is True and change.state in BY_OTHERS

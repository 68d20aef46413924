"""Verifies a saved plan against the server: every member besides its operations is computed again.

zonectl computes object counts, cascades of a zone, values before and widened access from a snapshot, and
writes them into the plan. Whoever edits the file can understate them and recompute the digest. So every
member of a saved plan that can be verified is verified:

- `operations` are what is applied. They are sent unchanged, and the server authorizes them as any others.
- `summary`, the digest and the tool's name are derived from other members, and `moved_from` and `moved_to`
  from the actions: a file in which they differ was not made by zonectl (`read_plan`, `with_zone_moves`).
- `actions`: `inconsistencies` checks them against the operations, `misidentified_objects` checks ids against
  names, and `ActionChecker` checks the rest against the object: its members before, drift and conflicts,
  protection, secrets, handles and names, and deletions by others.
- `deciding`, `widened` and `exempt`, the cascade of a zone, and problems that no consent lifts are computed
  here. Of `refused` only whether it is empty is used; its texts are not shown.
- `source` of an operation, the place that its ownership record gets, is the `reason` of its action
  (`inconsistencies`).
- `owner`, `organization_id`, `server` and `base_revision` are compared with those of the apply, and `owned`
  is counted again. `delete_budgets` can only require more consents.

Members that cannot be verified without the manifests do not affect what is applied. They are shown as claims
of the file, or not at all: `reason` has the form of a place in a file, and the text says that the file claims
it; `place` is shown as the line of the policy's text; `wanted`, the number of manifests, is not shown;
`source` is copied into receipts, as a claim of the caller. Members that are not part of a plan, such as
`guards`, are ignored.

While the server is unchanged, a plan matches it exactly. After later writes it may describe changes that are
made already, possibly by this very plan. That only requires more consents, and the server rejects operations
on objects that have changed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from reconciler.kinds import Snapshot
from reconciler.kinds.policy_lists import ACTIVE, POLICY_SET

from .model import BY_OTHERS, FieldChange, Op, Plan
from .plan_consistency import PLAN_AGAIN
from .policy_impact import PolicyImpact, WidenedAccess
from .policy_preview import PolicyPreview
from .saved_action_check import ActionChecker
from .zone_moves import with_zone_moves


def with_server_facts(plan: Plan, snapshot: Snapshot) -> Plan:
    """The same plan with what the server knows: how many objects its owner has, which policies widen, zones.

    Objects that it deletes and that are gone already are counted: the plan may have been applied before.
    """
    _ = plan.digest  # caches the digest of the file's content
    there = {each.id for each in snapshot.entities}
    owned = Counter(each.kind for each in plan.destroying if each.id not in there)
    owned.update(
        each.kind for each in snapshot.entities if each.ownership and each.ownership.owner == plan.owner
    )
    recount = _Recount(plan, snapshot)
    places = {_unplaced(each): each.place for each in recount.foreseen.widened}
    placed = tuple(replace(each, place=places.get(_unplaced(each), "")) for each in plan.widened)
    return replace(
        plan,
        owned=dict(sorted(owned.items())),
        widened=tuple(dict.fromkeys(placed)),
        zone_names=recount.names.zones(),
    )


def saved_plan_discrepancies(plan: Plan, snapshot: Snapshot) -> Iterator[str]:
    """Every difference between a saved plan and the server's state; one message each.

    Objects that changed since the plan was made are left to the server, which rejects operations on them.
    """
    return _Recount(plan, snapshot).problems()


def _unplaced(found: WidenedAccess) -> WidenedAccess:
    return replace(found, place="")


class _Recount(ActionChecker):
    """The checks that concern the plan as a whole."""

    def __init__(self, plan: Plan, snapshot: Snapshot) -> None:
        super().__init__(plan, snapshot)
        self.snapshot = snapshot

    def problems(self) -> Iterator[str]:
        """Every change that the plan does not show; one message each."""
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
        """A plan without manifests is refused; with one manifest something is kept, created or released."""
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
            subject = "the change of the active policies"
            zones = sorted({each.zone for each in {*self.plan.deciding} ^ {*deciding}})
            yield from (
                f"the saved plan does not match {subject} in zone {each}{PLAN_AGAIN}" for each in zones
            )
        planned, there = ({_unplaced(each) for each in found} for found in (self.plan.widened, widened))
        differing = there - planned if self.moved else there ^ planned
        for zone in sorted({each.zone for each in differing}):
            yield f"the saved plan lists the wrong widened access in zone {zone}{PLAN_AGAIN}"

        apart = {*exempt} - {*self.plan.exempt} if self.moved else {*exempt} ^ {*self.plan.exempt}
        for prefix in sorted({each.prefix for each in apart}):
            yield f"the saved plan lists the wrong resources below the prefix `{prefix}`{PLAN_AGAIN}"

    @cached_property
    def foreseen(self) -> PolicyImpact:
        """The policy impact of the operations."""
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
        """What replaces an existing object, or exists already because this very plan was applied."""
        for local_id, action in self.made.items():
            if action.id in self.index.by_id:
                yield local_id, str(action.id)
                continue
            for zone_id in self.zones_of(action):
                there = self.index.owned.get((zone_id, action.kind, action.name))
                if there is not None and there.revision > self.plan.base_revision:
                    yield local_id, there.id

    def _out_of_force(self) -> Iterator[str]:
        """Policy sets of git that were active until somebody deleted them or activated others."""
        local_ids = {id(action): local_id for local_id, action in self.made.items()}
        for action in self.plan.actions:
            if action.kind == POLICY_SET and (action.deleted or any(map(_is_displaced, action.changes))):
                yield action.id or local_ids[id(action)]


def _is_displaced(change: FieldChange) -> bool:
    return change.path == ACTIVE and change.after is True and change.state in BY_OTHERS

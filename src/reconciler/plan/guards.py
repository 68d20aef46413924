"""The guards: reasons to refuse a plan before anything is sent, and the consents that lift them.

A consent names one guard and the exact count: `--consent deletes=3`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler.kinds import load_kinds

from .cascade import Cascades, cascade_of
from .delete_budget import delete_budget
from .model import Action, ChangeState, Op, Plan
from .plan_consistency import inconsistencies

ALWAYS_REFUSED: Final = "refused"  # no consent lifts it
INCONSISTENT: Final = "inconsistent"
CONSENTS: Final = ("deletes", "in-use", "conflicts", "unowned")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan is refused. `stale`: because the server has changed, and not because of a guard."""

    code: str
    message: str
    stale: bool = False


def check_guards(plan: Plan, consents: Mapping[str, int], cascades: Cascades | None = None) -> list[Refusal]:
    """Every refusal of the plan; empty when it may be applied.

    Args:
        consents: name (one of `CONSENTS`) -> the count consented to.
        cascades: what the server deletes along, from the dry run; None without a dry run.
    """
    if plan.empty:
        consents = {}  # they are left over when a finished job runs again
    # Whoever edited a saved plan wrote its texts, too: only whether there are any counts.
    refused = ["the saved plan was refused when it was made; plan again"] if plan.saved else plan.refused
    found = [Refusal(ALWAYS_REFUSED, message) for message in (refused if plan.refused else ())]
    found.extend(_inconsistent(plan))
    found.extend(_empty_source(plan))
    found.extend(_protection(plan))
    found.extend(_reused_handles(plan))
    found.extend(_delete_budget(plan, consents))
    if cascades is not None:
        found.extend(_in_use(plan, consents, cascades))
    found.extend(_unowned(plan, consents))
    found.extend(_conflicts(plan, consents))
    return found


def _inconsistent(plan: Plan) -> Iterator[Refusal]:
    """Changes by the operations that no action shows: guards and reviewers read the actions only.

    zonectl makes both together, but a saved plan may have been edited by somebody else, with its digest
    recomputed.
    """
    if plan.saved:
        yield from (Refusal(INCONSISTENT, each) for each in inconsistencies(plan))
    sent = {
        (action.kind, action.name, change.path, str(change.after))
        for action in plan.actions
        for change in action.changes
    }
    for operation in plan.operations:
        kind, name = operation["kind"], operation.get("name")
        for path, reference in _secrets(operation.get("spec")):
            known = load_kinds().by_name.get(kind)
            if known is None or not known.leaf(path).secret:
                yield Refusal(
                    INCONSISTENT, f"{kind} `{name}`: `{path}` is not a secret, and the plan writes one to it"
                )
            elif (kind, name, path, str({"secret": reference})) not in sent:
                message = f"{kind} `{name}`: the plan does not show the secret written to `{path}`"
                yield Refusal(INCONSISTENT, message)


def _secrets(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The references to secrets in a spec, each with its dotted path."""
    if isinstance(value, dict):
        if value.keys() == {"secret"} and isinstance(value["secret"], dict):
            yield path, value["secret"]
            return
        for name, each in value.items():
            yield from _secrets(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _secrets(each, f"{path}[]")


def _empty_source(plan: Plan) -> Iterator[Refusal]:
    if plan.manifest_count == 0:
        managed = sum(plan.owned.values())
        yield Refusal(
            "empty-source",
            f"no manifest was found, and `{plan.owner}` manages {managed} objects; check the path. "
            "No consent allows deleting everything: keep at least one manifest",
        )


def _protection(plan: Plan) -> Iterator[Refusal]:
    for action in plan.destroying:
        if action.protected:
            verb = "deleted" if action.op is Op.DELETE else "replaced"
            yield Refusal(
                "protected",
                f"{action.title} is protected and would be {verb} ({action.reason}); "
                "apply `lifecycle: {protect: false}` first",
            )


def _reused_handles(plan: Plan) -> Iterator[Refusal]:
    deleted: dict[tuple[str, str | None, str | None], Action] = {
        (action.kind, action.zone, action.handle): action
        for action in plan.actions
        if action.op is Op.DELETE and action.handle is not None
    }
    for action in plan.actions:
        before = deleted.get((action.kind, action.zone, action.handle))
        if action.op is Op.CREATE and before is not None:
            yield Refusal(
                "rename",
                f"{before.title} would be deleted and {action.title} created with the same identifier "
                f"`{action.handle}` ({action.reason}); "
                f"to rename it, write `lifecycle: {{previous_names: [{before.name}]}}`"
                f"{_rotation_hint(before)}",
            )


def _rotation_hint(deleted: Action) -> str:
    if not deleted.secret_ends:
        return ""
    return "; to rotate its secret, apply the new one beside it first, and remove it when nothing uses it"


def _delete_budget(plan: Plan, consents: Mapping[str, int]) -> Iterator[Refusal]:
    destroyed = Counter(action.kind for action in plan.destroying)
    total = destroyed.total()
    over = []
    for kind, count in sorted(destroyed.items()):
        owned = plan.owned.get(kind, 0)
        budget = delete_budget(kind, owned, plan.budgets)
        if plan.saved:  # the file may have been edited: its budgets can require more consents, never fewer
            budget = min(budget, delete_budget(kind, owned, {}))
        if count > budget:
            objects = "object" if owned == 1 else "objects"
            over.append(f"{count} of {owned} {objects} of kind {kind} (budget: {budget})")
    whole = f", and {total} objects altogether" if len(destroyed) > 1 else ""
    yield from _needs_consent(
        "deletes", total, consents, f"this deletes {' and '.join(over)}{whole}" if over else ""
    )


def _in_use(plan: Plan, consents: Mapping[str, int], cascades: Cascades) -> Iterator[Refusal]:
    """Refuse to delete clients and credentials that were used recently: their users would be locked out."""
    used = [
        action
        for action in plan.destroying
        if (cascade := cascade_of(action, cascades)) is not None and cascade.in_use
    ]
    names = ", ".join(action.title for action in used)
    reason = f"this deletes objects used within the last thirty days: {names}" if used else ""
    yield from _needs_consent("in-use", len(used), consents, reason)


def _unowned(plan: Plan, consents: Mapping[str, int]) -> Iterator[Refusal]:
    taken = [action for action in plan.actions if action.takes_along]
    total = sum(action.takes_along for action in taken)
    names = ", ".join(action.title for action in taken)
    objects = "object" if total == 1 else "objects"
    reason = (
        f"deleting {names} also deletes {total} {objects} that `{plan.owner}` does not manage"
        if taken
        else ""
    )
    yield from _needs_consent("unowned", total, consents, reason)


def _conflicts(plan: Plan, consents: Mapping[str, int]) -> Iterator[Refusal]:
    total = plan.count(ChangeState.CONFLICT)
    members = "1 member was" if total == 1 else f"{total} members were"
    reason = f"{members} changed both in git and on the server" if total else ""
    yield from _needs_consent("conflicts", total, consents, reason, stale=True)


def _needs_consent(
    name: str, total: int, consents: Mapping[str, int], reason: str, *, stale: bool = False
) -> Iterator[Refusal]:
    given = consents.get(name)
    if given is not None and given != total:
        yield Refusal(name, f"`--consent {name}={given}` does not match: this plan has {name}={total}", stale)
    elif given is None and reason:
        yield Refusal(name, f"{reason}; to go ahead, add `--consent {name}={total}`", stale)

"""Renders a plan as text and JSON: deletions first, every change with its reason, nothing cut."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.kinds import MemberSchema, load_kinds
from reconciler.output_documents import PlanDocument
from reconciler.plan import Action, Cascade, Cascades, FieldChange, Plan, Refusal, ZoneDecisionImpact
from reconciler.plan.cascade import cascade_json, cascade_of
from reconciler.plan.model import ChangeState, Op
from reconciler.server_problems import ServerRejection
from reconciler.terminal import Line, Styled, columns, line_parts

from .change_notes import AUDIT_UNREADABLE, change_notes, in_force_lines, unmanaged_line, write_line
from .decision_impact import decision_impact_lines, decision_impact_summary
from .diagnostics import diagnostic_block
from .expiries import Expiry
from .inactive_policies import inactive_policy_lines
from .lost_providers import lost_provider_lines
from .places import Places, as_recorded
from .policy_impact import impact_lines, impact_summary, missing_name_lines, without_permit_lines
from .probable_renames import probable_rename_lines
from .value_diff import as_text, counted, difference_lines, whole_lines

_SIGNS = {
    Op.DELETE: ("-", "red"),
    Op.REPLACE: ("-/+", "red"),
    Op.UPDATE: ("~", "yellow"),
    Op.RENAME: ("~", "yellow"),
    Op.ADOPT: ("<", "cyan"),
    Op.RELEASE: (">", "cyan"),
    Op.CREATE: ("+", "green"),
}
_ORDER = tuple(_SIGNS)
_COUNTED = (Op.CREATE, Op.UPDATE, Op.ADOPT, Op.RELEASE, Op.RENAME, Op.REPLACE, Op.DELETE)
_CREDENTIAL = "ApplicationCredential"
_STAYS = (ChangeState.CLAIM, ChangeState.RELEASE, ChangeState.KEEP)


def plan_lines(
    plan: Plan,
    refusals: Sequence[Refusal] = (),
    cascades: Cascades | None = None,
    *,
    decisions: Sequence[ZoneDecisionImpact] | None = None,
    refused: bool = False,
    place: Places = as_recorded,
) -> Iterator[Line]:
    """The whole plan, its policy impact, its cascades, and the reasons why it is refused.

    Args:
        decisions: recorded decisions that it changes; None where the server has not told.
        refused: the plan is refused for a reason that is printed elsewhere.
        place: how files are shown; by default relative to the configuration's root.
    """
    yield from impact_lines(plan, place)
    yield from decision_impact_lines(decisions or ())
    yield from missing_name_lines(plan.missing_names, place)
    yield from without_permit_lines(plan.without_permit)
    yield from inactive_policy_lines(plan.inactive_policies, plan.owner, place)
    yield from lost_provider_lines(plan.lost_providers)
    yield from probable_rename_lines(plan.probable_renames, place)
    for action in sorted(plan.actions, key=lambda each: _ORDER.index(each.op)):
        yield from action_lines(action, cascades, place)
    yield summary_line(plan, decisions or (), refused=refused or bool(refusals))
    if plan.budgets and plan.destroying and not plan.saved:
        budgets = ", ".join(f"{kind} {budget}" for kind, budget in sorted(plan.budgets.items()))
        yield f"  delete budgets of `zonectl.yaml`: {budgets}"
    if not plan.empty:
        of = f"owner `{plan.owner}`, revision {plan.base_revision} of {plan.server}"
        yield f"  digest {plan.digest} ({of})"
    if plan.saved and plan.actions:
        yield "  files and lines are taken from the saved plan and cannot be verified"
    if plan.unmanaged:
        yield f"  {unmanaged_line(plan.unmanaged, plan.unmanaged_truncated)}"
    if not plan.names_writers and any(_is_of_others(each) for each in plan.actions):
        yield Styled("note", "yellow"), f": {AUDIT_UNREADABLE}"
    for each in plan.undelivered:
        yield (
            Styled("perhaps lost: ", "yellow"),
            f"{each.title}: its secret was shown once, and its delivery was never confirmed; ",
            "apply with the `--secrets-dir` that has it, or with `--renew-lost` for a new one",
        )
    for title in plan.left_out:
        yield (
            Styled("note", "yellow"),
            f": {title} is not created, since it has expired already; remove its manifest",
        )
    yield from refusal_lines(refusals, place)
    yield from similar_owner_lines(plan)


def similar_owner_lines(plan: Plan) -> Iterator[Line]:
    """The warning that the plan may have been intended for another owner."""
    if (found := plan.similar_owner) is not None:
        named = "is named as an object" if found.objects == 1 else "are named as objects"
        message = (
            f": `{plan.owner}` manages nothing yet, and {found.objects} of"
            f" {counted(plan.manifest_count, 'manifest')}"
            f" {named} that `{found.owner}` manages; check the owner: `--owner`, ZONECTL_OWNER or `owner` in"
            " `zonectl.yaml`"
        )
        yield Styled("warning", "yellow"), message


def refusal_lines(refusals: Iterable[Refusal], place: Places = as_recorded) -> Iterator[Line]:
    """All reasons why a plan is refused."""
    for each in refusals:
        yield Styled("refused", "red"), f": {place(each.message)}"


def rejection_lines(found: ServerRejection, place: Places = as_recorded) -> Sequence[Line]:
    """The server's problems with a plan, each with the line of its manifest."""
    lines: list[Line] = [place(found.message)]
    for each in found.listed:
        if each.diagnostic is None:
            lines.append(f"  {place(str(each))}")
        else:
            block = diagnostic_block(each.diagnostic, place=place, columns=columns() - 2)
            lines.extend(indented(block, 2))
    return lines


def plan_json(
    plan: Plan,
    refusals: Sequence[Refusal] = (),
    found: ServerRejection | None = None,
    cascades: Cascades | None = None,
    expiring: Iterable[Expiry] = (),
    *,
    decisions: Sequence[ZoneDecisionImpact] | None = None,
) -> PlanDocument:
    """The plan, why it is refused, the server's problems and what it foresees, what expires soon."""
    document: PlanDocument = {**plan.as_json()}
    document["guards"] = [
        {"code": each.code, "message": each.message, "stale": each.stale} for each in refusals
    ]
    document["unmanaged"] = [each.as_json() for each in plan.unmanaged]
    if plan.unmanaged_truncated:
        document["unmanaged_truncated"] = list(plan.unmanaged_truncated)
    if plan.without_permit:
        document["without_permit"] = list(plan.without_permit)
    if plan.inactive_policies:
        document["inactive_policies"] = [each.as_json() for each in plan.inactive_policies]
    if plan.probable_renames:
        document["probable_renames"] = [each.as_json() for each in plan.probable_renames]
    if plan.lost_providers:
        document["lost_providers"] = [each.as_json() for each in plan.lost_providers]
    if plan.left_out:
        document["left_out"] = list(plan.left_out)
    if plan.missing_names:
        document["missing_names"] = [each.as_json() for each in plan.missing_names]
    if ending := [each.as_json() for each in expiring]:
        document["expiring"] = ending
    document["problems"] = [each.as_json() for each in found.problems] if found is not None else []
    if cascades is not None:
        document["losses"] = [
            cascade_json(action, cascade)
            for action in plan.destroying
            if (cascade := cascade_of(action, cascades)) is not None
        ]
    if decisions is not None:
        document["decision_impact"] = [each.as_json() for each in decisions]
    return document


def summary_line(plan: Plan, decisions: Sequence[ZoneDecisionImpact] = (), *, refused: bool = False) -> str:
    """One line with the number of changes, their impact, and whether the plan is refused."""
    refused = refused or bool(plan.refused)
    if plan.empty:
        message = "refused" if refused else "nothing to do"
    else:
        counts = plan.summary()
        parts = [f"{counts[op]} to {op}" for op in _COUNTED if op in counts]
        impact = f"{impact_summary(plan)}{decision_impact_summary(decisions)}"
        message = f"{', '.join(parts)}{impact}{'; refused' if refused else ''}"
    # A saved plan's number of manifests is a claim of its file.
    return f"{'saved plan' if plan.saved else counted(plan.manifest_count, 'manifest')}: {message}"


def applied_summary(summary: Mapping[str, int]) -> str:
    """The changes that were applied, counted by object as in the summary of the plan."""
    return ", ".join(f"{summary[op]} {op.removesuffix('e')}ed" for op in _COUNTED if op in summary)


def action_lines(
    action: Action, cascades: Cascades | None = None, place: Places = as_recorded
) -> Iterator[Line]:
    """One action: operation, object, reason, cascade, and each member."""
    sign, color = _SIGNS[action.op]
    notes = list(_notes(action))
    note = f" ({'; '.join(notes)})" if notes else ""
    yield (
        Styled(f"{sign} {action.op} {action.title}", color),
        f"{note}  ",
        Styled(place(action.reason), dim=True),
    )
    if _is_of_others(action) and action.write is not None:
        yield f"    {write_line(action.write, 'deleted' if action.deleted else 'last written')}"
    if (cascade := cascade_of(action, cascades or {})) is not None:
        yield from indented(_cascade_lines(cascade), 4)
    kind = load_kinds().by_name.get(action.kind)
    for change in action.changes:
        yield from change_lines(change, action.op, kind.leaf(change.path) if kind else MemberSchema())
        yield from in_force_lines(change)
    if action.keep is not None:
        member, value = action.keep
        yield (
            f"    to keep the object, write `{member}: {as_text(value)}` in its `spec`: otherwise the name"
            f" `{action.name}` becomes the {member}, which cannot be changed"
        )


def _is_of_others(action: Action) -> bool:
    """Tell whether it depends on writes or deletions by others."""
    return action.has_drift or action.op is Op.ADOPT


def _cascade_lines(cascade: Cascade) -> Iterator[Line]:
    if cascade.in_use:
        yield Styled("in use: ", "red"), "it was used within the last thirty days"
    if cascade.takes_along:
        sorts = sorted(cascade.takes_along.items())
        yield "also deletes " + ", ".join(_counted(n, sort) for sort, n in sorts)


def _counted(number: int, sort: str) -> str:
    words = sort.replace("_", " ")
    if number == 1:
        words = f"{words[:-3]}y" if words.endswith("ies") else words.removesuffix("s")
    return f"{number:,} {words}"


def _notes(action: Action) -> Iterator[str]:
    if action.previous_name:
        yield f"was {action.previous_name}"
    if action.moved_from:
        yield f"moved from zone {action.moved_from}: created as a new object"
    if action.moved_to:
        yield f"moved to zone {action.moved_to}: its id, secrets and grants are not carried over"
    if action.takes_along:
        yield f"also deletes {counted(action.takes_along, 'object')} not managed by this owner"
    if action.op is Op.ADOPT:
        called = f"`{action.handle}`, " if action.handle not in (None, action.name) else ""
        yield f"{called}not managed so far"
    if action.deleted:
        yield "drift: deleted on the server, an apply creates it again"
    yield from _ending(action)
    if action.shown_once:
        yield "its new secret is shown once" if action.secret_ends else "its secret is shown once"


def _ending(action: Action) -> Iterator[str]:
    """What stops working with a credential: the service revokes all that was issued to its client id."""
    if action.secret_ends:
        yield "its secret stops working at once"
    if not action.destroys or action.kind != _CREDENTIAL:
        return
    expiry = load_kinds().by_name[_CREDENTIAL].expiry
    if any(each.path == expiry and each.before is not None for each in action.changes):
        exception = ", unless it expired so long ago that its own tokens have expired too"
    else:
        exception = ""
    yield f"all access tokens of its client id stop working at once{exception}"


def change_lines(change: FieldChange, op: Op, shape: MemberSchema) -> Iterator[Line]:
    """The change of one member."""
    first, *rest = _member_lines(change, op, shape)
    yield from indented([[*line_parts(first), *change_notes(change)], *rest], 4)
    if change.state is ChangeState.CONFLICT and not shape.secret:
        since = difference_lines(
            "on the server since the last apply", change.applied, change.before, ordered=_is_ordered(shape)
        )
        yield from indented(since, 6)


def _member_lines(change: FieldChange, op: Op, shape: MemberSchema) -> Iterator[Line]:
    if shape.secret:
        yield f"{change.path}: {_secret_change(change, op)}"
    elif op is Op.CREATE:
        yield from whole_lines(change.path, change.after, "+")
    elif op is Op.DELETE:
        yield from whole_lines(change.path, change.before, "-")
    elif change.state in _STAYS:
        yield from whole_lines(change.path, change.after, "=")
    else:
        yield from difference_lines(change.path, change.before, change.after, ordered=_is_ordered(shape))


def _is_ordered(shape: MemberSchema) -> bool:
    return not shape.unordered


def _secret_change(change: FieldChange, op: Op) -> str:
    """The change of a secret: never its value, but the versions before and after."""
    before = change.before if isinstance(change.before, dict) else None
    old = before.get("version") if before else None
    reference = change.after.get("secret") if isinstance(change.after, dict) else None
    gone = f"version {as_text(old)} is deleted" if old is not None else "the one on the server is deleted"
    if before is not None and before.get("overwritten") and not isinstance(reference, dict):
        gone = f"the one that overwrote version {as_text(old)} on the server is deleted"
    if not isinstance(reference, dict):
        return "not set" if before is None else gone
    source = _source(reference)
    new = as_text(reference.get("version"))
    if op is Op.REPLACE and before is not None:
        return f"{gone}, and the new object gets version {new} from {source}"
    if before is not None and before.get("overwritten"):
        return f"overwritten on the server since version {as_text(old)}; version {new} is sent from {source}"
    if before is None:
        return f"set to version {new} from {source}"
    if old is None:
        return f"the one on the server, not from git, is overwritten by version {new} from {source}"
    if old == reference.get("version"):
        return f"version {new} is sent again from {source}, for another address"
    return f"rotated from version {as_text(old)} to version {new} from {source}; the old one is overwritten"


def _source(reference: dict[str, Any]) -> str:
    if name := reference.get("from_env"):
        return f"the environment variable `{name}`"
    return f"the file `{reference.get('from_file')}`"


def indented(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Lines indented further."""
    for line in lines:
        yield [" " * width, *line_parts(line)]

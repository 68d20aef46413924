"""Renders what a plan changes for policy decisions, above its actions: no action shows it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from reconciler.plan import MissingPolicyName, Plan, PolicySetChange, WidenedAccess
from reconciler.terminal import Line, Styled

from .change_notes import DRIFTED
from .places import Places, as_recorded
from .value_diff import as_text

MOST_NAMED = 10
_RULES = {
    "forbid": "forbids what belongs to it",
    "forbid unless": "forbids, except what belongs to it",
    "permit unless": "permits, except what belongs to it",
    "forbid if": "forbids on a condition that names it",
    "permit if": "permits on a condition that names it",
}


def impact_lines(plan: Plan, place: Places = as_recorded) -> Iterator[Line]:
    """Changes of active policy sets, and policies that stay active and restrict less than before."""
    for each in plan.deciding:
        yield from _deciding_lines(each)
    for _, found in groupby(plan.widened, key=lambda each: (each.zone, each.name, each.loses, each.gains)):
        yield from _widened_lines(list(found), place)
    for apart in plan.exempt:
        head = Styled(
            f"! policies on a prefix do not cover all resources below it in zone {apart.zone}: ", "red"
        )
        message = "becomes a prefix; policies that name it do not apply to these existing resources:"
        yield head, f"{as_text(apart.prefix)} {message}"
        yield f"    {', '.join(apart.resources)}"


def impact_summary(plan: Plan) -> str:
    """The end of a summary line; empty when nothing is to be added."""
    notes = []
    if any(each.before != each.after for each in plan.deciding):
        notes.append("the active policy set changes")
    notes.extend(dict.fromkeys(words for each in plan.deciding for words in _allowed(each)))
    if plan.widened:
        count = len({(each.zone, each.policy) for each in plan.widened})
        notes.append(
            f"{count} {'unchanged policy restricts' if count == 1 else 'unchanged policies restrict'} less"
        )
    if plan.exempt:
        count = len(plan.exempt)
        notes.append(
            f"{count} {'prefix does' if count == 1 else 'prefixes do'} not cover all resources below"
        )
    return "".join(f"; {each}" for each in notes)


def _allowed(found: PolicySetChange) -> Iterator[str]:
    """The effect on what is allowed, as far as it can be predicted without requests."""
    if found.forbids:
        yield "less is forbidden"
    elif found.forbids_less:
        yield "less may be forbidden"
    if found.permits or found.permits_more:
        yield "more may be permitted"


def _deciding_lines(found: PolicySetChange) -> Iterator[Line]:
    head = Styled(f"! the active policy set changes in zone {found.zone}: ", "red")
    if found.after == found.before:
        change = " and ".join(_allowed(found))
        yield Styled(f"! {change} in zone {found.zone}: ", "red"), f"{found.after} stays active"
    elif found.after is None:
        yield head, f"{found.before} is deactivated, and no other set is active: everything is refused"
    elif found.first:
        yield head, f"{found.before} is deactivated; the zone's default policies are active again:"
        yield from (f"      {each}" for each in found.first)
    elif found.first_ended:
        yield head, f"{found.after} replaces the zone's default policies:"
        yield from (f"      {each}" for each in found.first_ended)
    else:
        yield head, f"{found.after} in place of {found.before}"
    if found.drift:
        yield Styled(f"    [{DRIFTED}]", "magenta")
    for label, policies in (
        ("in force again, with a `forbid`", found.forbids_again),
        ("no longer in force, with a `forbid`", found.forbids),
        ("in force, and may forbid less than before", found.forbids_less),
        ("newly in force, with a `permit`", found.permits),
        ("in force, and may permit more than before", found.permits_more),
    ):
        if policies:
            yield f"    {label}: {', '.join(policies)}"


def policy_set_drift_lines(found: PolicySetChange) -> Iterator[Line]:
    """The policy set that is active in place of git's, and the effect of an apply; of a plan's drift."""
    head = Styled(f"! the active policy set differs from git in zone {found.zone}: ", "magenta")
    if found.first_ended:
        yield head, f"the zone's default policies, in place of {found.after}:"
        yield from (f"      {each}" for each in found.first_ended)
    else:
        yield head, f"{found.before} in place of {found.after}"
    if found.forbids_again:
        yield f"    not in force, with a `forbid`: {', '.join(found.forbids_again)}"
    yield f"    an apply activates {found.after} again"


def missing_name_lines(found: Iterable[MissingPolicyName], place: Places = as_recorded) -> Iterator[Line]:
    """Names in active policies that match no object, and what to do about each."""
    for each in found:
        yield (
            Styled(f"! a policy in force names a missing object in zone {each.zone}: ", "red"),
            f"{each.name} of Policy {each.zone}/{each.policy} ({place(each.place)}){each.hint}",
        )
        yield (
            "    no object has this name, and a rule about it never matches: restore the name, or change"
            " the policy; if the object may be absent, list the name in `absent_names`"
        )


def without_permit_lines(titles: Iterable[str]) -> Iterator[Line]:
    """Policy sets by which every token is refused, and what to do about each."""
    for title in titles:
        yield Styled("! every token is refused: ", "red"), f"no policy of {title} has a `permit`"
        yield (
            "    a policy set replaces the default policies; add policies that permit, for example copies of"
            " the default ones"
        )


def _widened_lines(found: Sequence[WidenedAccess], place: Places) -> Iterator[Line]:
    one = found[0]
    yield Styled(f"! access is widened in zone {one.zone}: ", "red"), f"{one.name} {_change_text(one)}"
    for each in found:
        where = f" ({place(each.place)})" if each.place else ""
        yield f"    Policy {each.zone}/{each.policy} {_RULES[each.rule]}{where}"


def _change_text(one: WidenedAccess) -> str:
    if one.gains:
        return f"gains {_listed(one.gains)}"
    if one.now is not None:
        return f"is renamed to {as_text(one.now)}"
    if one.gone:
        return "is deleted, and no object has this name any more"
    return f"loses {_listed(one.loses)}" + ("; it is empty afterwards" if one.empty else "")


def _listed(names: Sequence[str]) -> str:
    """A list of names. A long one is cut: the changes below have all."""
    shown = ", ".join(as_text(each) for each in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more:,} more (all are in the changes below)" if more > 0 else shown

"""Renders policies of a plan that decide nothing, because no active policy set lists them."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from reconciler.plan.model import InactivePolicy, title_of
from reconciler.terminal import Line, Styled

from .places import Places, as_recorded

MOST_NAMED = 10  # of a zone; the actions below have all


def inactive_policy_lines(
    found: Iterable[InactivePolicy], owner: str, place: Places = as_recorded
) -> Iterator[Line]:
    """Such policies, and once for all policies of a zone what to do.

    Args:
        owner: the owner of the plan, by which another configuration names its policies.
    """
    for (zone, *_), policies in groupby(found, key=_alike):
        alike = list(policies)
        head = Styled(f"! a policy decides nothing in zone {zone}: ", "red")
        for each in alike[:MOST_NAMED]:
            yield head, f"{title_of('Policy', each.zone, each.policy)} ({place(each.place)})"
        if (more := len(alike) - MOST_NAMED) > 0:
            yield head, f"{more:,} more"
        yield f"    {_advice(alike[0], owner, place)}"


def _alike(each: InactivePolicy) -> tuple[object, ...]:
    """What policies with the same advice have in common; another owner is told the name of each."""
    return each.zone, each.active_set, each.listed_by, each.policy if each.set_owner else None


def _advice(each: InactivePolicy, owner: str, place: Places) -> str:
    listed = f"; {place(each.listed_by[0])} lists it, but is not active" if each.listed_by else ""
    if each.active_set is None:
        do = (
            "write `active: true` there, and list" if listed else "list it in `policies` of a PolicySet, with"
        )
        return (
            f"the zone's default policies are active{listed}: {do} copies of these default policies, which an"
            " active policy set replaces (docs/policies.md)"
        )
    lacks = f"the active {each.active_set}"
    if each.set_place is not None:
        return f"{lacks} ({place(each.set_place)}) does not list it{listed}: add it to `policies` there"
    if each.set_owner is not None:
        return (
            f"{lacks} does not list it{listed}: let `{each.set_owner}` add"
            f" `{{owner: {owner}, name: {each.policy}}}` to its `policies`"
        )
    return (
        f"{lacks}, which no configuration manages, does not list it{listed}: add it to that set, or describe"
        " the set in a manifest"
    )

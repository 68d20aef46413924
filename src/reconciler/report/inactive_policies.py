"""Renders policies of a plan that decide nothing, because no active policy set lists them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from reconciler.plan.model import InactivePolicy, title_of
from reconciler.terminal import Line, Styled

from .places import Places, as_recorded

MOST_NAMED = 10  # of a zone; the actions below, or the JSON output, have all


def inactive_policy_lines(
    found: Iterable[InactivePolicy], owner: str, place: Places = as_recorded
) -> Iterator[Line]:
    """Such policies, and once for all policies of a zone what to do; those that stay as they are in one line.

    Args:
        owner: the owner of the plan, by which another configuration names its policies.
    """
    for (zone, unchanged), of_zone in groupby(found, key=lambda each: (each.zone, each.unchanged)):
        if unchanged:
            yield from _unchanged_lines(list(of_zone), place)
            continue
        for _, policies in groupby(of_zone, key=_alike):
            alike = list(policies)
            head = Styled(f"! a policy decides nothing in zone {zone}: ", "red")
            for each in alike[:MOST_NAMED]:
                yield head, f"{title_of('Policy', each.zone, each.policy)} ({place(each.place)})"
            if (more := len(alike) - MOST_NAMED) > 0:
                yield head, f"{more:,} more"
            yield f"    {_advice(alike[0], owner, place)}"


def _alike(each: InactivePolicy) -> tuple[object, ...]:
    """What policies with the same advice have in common; another owner is told the name of each."""
    return each.active_set, each.listed_by, each.policy if each.set_owner else None


def _advice(each: InactivePolicy, owner: str, place: Places) -> str:
    listed = f"; {place(each.listed_by[0])} lists it, but is not active" if each.listed_by else ""
    if each.active_set is None:
        do = (
            "write `active: true` there, and list" if listed else "list it in `policies` of a PolicySet, with"
        )
        return (
            f"the zone's default policies are active{listed}: {do} copies of these default policies, which an"
            " active policy set replaces (see `zonectl`'s documentation, policies.md)"
        )
    lacks = f"the active {_set_of(each)}"
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


def _set_of(each: InactivePolicy) -> str:
    return f"{each.active_set} of {each.set_owner}" if each.set_owner is not None else f"{each.active_set}"


def _unchanged_lines(policies: Sequence[InactivePolicy], place: Places) -> Iterator[Line]:
    """One line for the policies of a zone that a plan does not write: it was told in full when they were."""
    one = len(policies) == 1
    it, number = ("it", "1 policy") if one else ("them", f"{len(policies):,} policies")
    names = ", ".join(each.policy for each in policies[:MOST_NAMED])
    if (more := len(policies) - MOST_NAMED) > 0:
        names += f" and {more:,} more"
    first = policies[0]
    if first.active_set is None:
        why = f"the zone's default policies are active: list {it} in an active PolicySet"
    else:
        at = f" ({place(first.set_place)})" if first.set_place is not None else ""
        why = f"the active {_set_of(first)}{at} does not list {it}: add {it} to its `policies`"
    yield (
        Styled(f"! {number} {'decides' if one else 'decide'} nothing in zone {first.zone}: ", "yellow"),
        f"{names}; {why}, or delete {'its manifest' if one else 'their manifests'}",
    )

"""Finds policies that decide nothing since no active policy set lists them, as far as git alone shows it.

One policy set of a zone is active. Where the configuration has it, every other policy in the zone is known to
be inactive. Where it has none, the active one may be in git elsewhere or on the server alone: `zonectl plan`
sees that one, and here it is only likely, in a zone that this configuration describes, that there is none.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.kinds import Manifest
from reconciler.kinds.policy_lists import ACTIVE, POLICIES, POLICY, POLICY_SET, PolicyLists
from reconciler.kinds.values import Key

from .diagnostics import bounded

CODE = "inactive-policy"
MOST_NAMED = 5  # policies of one set
_ZONE = "Zone"


@dataclass
class _ZonePolicies:
    """The policies of a zone, without those that are released, and its policy sets."""

    policies: list[Manifest] = field(default_factory=list)
    sets: list[Manifest] = field(default_factory=list)


@dataclass
class _InactivePolicies:
    """Inactive policies of a zone: those that no policy set lists, and those of each inactive set.

    A policy that several sets list is one of the first set.
    """

    unlisted: list[Manifest] = field(default_factory=list)
    listed: dict[Key, tuple[Manifest, list[Manifest]]] = field(default_factory=dict)


def inactive_policies(
    manifests: Iterable[Manifest], elsewhere: Collection[str] = (), permitting: Collection[Key] = ()
) -> Iterator[tuple[Manifest, str]]:
    """Warnings of such policies, each with its manifest: the policy, or the inactive set that lists some.

    Args:
        elsewhere: names of zones that other configurations manage; their policy sets are not here.
        permitting: the policies that may permit something.
    """
    zones: dict[str | None, _ZonePolicies] = defaultdict(_ZonePolicies)
    own = set()
    for each in manifests:
        if each.kind.name == _ZONE:
            own.add(each.name)
        elif each.kind.name == POLICY_SET:
            zones[each.zone].sets.append(each)
        elif each.kind.name == POLICY and not each.lifecycle.get("release"):
            zones[each.zone].policies.append(each)
    for zone, found in zones.items():
        lists = PolicyLists(found.sets)
        active = next((each for each in found.sets if _is_active(each)), None)
        if active is not None:
            yield from _beside(active, found.policies, lists)
        elif zone in own and zone not in elsewhere:
            yield from _without_active_set(found.policies, lists, permitting)


def _beside(
    active: Manifest, policies: Iterable[Manifest], lists: PolicyLists
) -> Iterator[tuple[Manifest, str]]:
    """The policies that the active set of their zone does not list."""
    if _is_left_to_others(active, POLICIES):
        return
    found = _find_inactive(policies, lists, lambda each: each is active)
    lacks = f"PolicySet `{active.name}` ({active.origin}), the active policy set of zone `{active.zone}`,"
    for inactive_set, of_set in found.listed.values():
        it = _it(of_set)
        message = (
            f"this PolicySet is not active, and {_of_set(of_set)} nothing: {lacks} does not list {it};"
            f" add {it} to its `policies`"
        )
        yield inactive_set, message
    for policy in found.unlisted:
        message = (
            f"this Policy decides nothing: {lacks} does not list it; add `{policy.name}` to its `policies`"
        )
        yield policy, message


def _without_active_set(
    policies: Sequence[Manifest], lists: PolicyLists, permitting: Collection[Key]
) -> Iterator[tuple[Manifest, str]]:
    """The policies of a zone without an active set; not those of a set that others may activate or change."""
    unknown = [each for each in lists.sets if _is_left_to_others(each, ACTIVE)]
    if any(_is_left_to_others(each, POLICIES) for each in unknown):
        return
    found = _find_inactive(policies, lists, lambda each: _is_left_to_others(each, ACTIVE))
    permits = {each.key for policy in policies if policy.key in permitting for each in lists.listing(policy)}
    for inactive_set, of_set in found.listed.values():
        then = (
            "the set then replaces the zone's default policies"
            if inactive_set.key in permits
            else "an active set replaces the zone's default policies, so list copies of these, too"
        )
        message = (
            f"this PolicySet has `active: false`, and unless an active one of zone `{inactive_set.zone}`"
            f" lists {_it(of_set)}, {_of_set(of_set)} nothing; write `active: true`: {then}"
            " (see `zonectl`'s documentation, policies.md)"
        )
        yield inactive_set, message
    for policy in found.unlisted:
        message = (
            "no active policy set of this configuration lists this Policy, and unless another one of zone"
            f" `{policy.zone}` does, it decides nothing; list `{policy.name}` in a PolicySet with"
            " `active: true`, together with copies of the zone's default policies, which an active policy set"
            " replaces (see `zonectl`'s documentation, policies.md)"
        )
        yield policy, message


def _find_inactive(
    policies: Iterable[Manifest], lists: PolicyLists, may_decide: Callable[[Manifest], bool]
) -> _InactivePolicies:
    """The policies that no set lists which may decide."""
    found = _InactivePolicies()
    for policy in policies:
        sets = lists.listing(policy)
        if any(map(may_decide, sets)):
            continue
        if sets:
            found.listed.setdefault(sets[0].key, (sets[0], []))[1].append(policy)
        else:
            found.unlisted.append(policy)
    return found


def _is_active(policy_set: Manifest) -> bool:
    """Tell whether a set is certainly active once it is applied."""
    return policy_set.spec.get(ACTIVE) is not False and not _is_left_to_others(policy_set, ACTIVE)


def _is_left_to_others(policy_set: Manifest, member: str) -> bool:
    """Tell whether the server may have another value of a member after an apply."""
    lifecycle = policy_set.lifecycle
    return bool(lifecycle.get("release")) or member in lifecycle.get("ignore", ())


def _of_set(policies: Sequence[Manifest]) -> str:
    """`its policies ... decide`: some names, and how many more there are."""
    names = ", ".join(f"`{bounded(each.name)}`" for each in policies[:MOST_NAMED])
    if (more := len(policies) - MOST_NAMED) > 0:
        names += f" and {more:,} more"
    return f"its policy {names} decides" if len(policies) == 1 else f"its policies {names} decide"


def _it(policies: Sequence[Manifest]) -> str:
    return "it" if len(policies) == 1 else "them"

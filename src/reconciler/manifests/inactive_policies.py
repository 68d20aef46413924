"""Finds policies that decide nothing since no active policy set lists them, as far as git alone shows it.

One policy set of a zone is active. Where the configuration has it, every other policy in the zone is known to
be inactive. Where it has none, the active one may be in git elsewhere or on the server alone: `zonectl plan`
sees that one, and here it is only likely, in a zone that this configuration describes, that there is none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from reconciler.kinds import Manifest

CODE = "inactive-policy"
_ZONE, _POLICY, _SET = "Zone", "Policy", "PolicySet"
_POLICIES, _ACTIVE = "policies", "active"


@dataclass
class _ZonePolicies:
    """The policies of a zone, without those that are released, and its policy sets."""

    policies: list[Manifest] = field(default_factory=list)
    sets: list[Manifest] = field(default_factory=list)


def inactive_policies(
    manifests: Iterable[Manifest], elsewhere: Collection[str] = ()
) -> Iterator[tuple[Manifest, str]]:
    """Such policies, each with a warning that says what to write.

    Args:
        elsewhere: names of zones that other configurations manage; their policy sets are not here.
    """
    zones: dict[str | None, _ZonePolicies] = defaultdict(_ZonePolicies)
    own = set()
    for each in manifests:
        if each.kind.name == _ZONE:
            own.add(each.name)
        elif each.kind.name == _SET:
            zones[each.zone].sets.append(each)
        elif each.kind.name == _POLICY and not each.lifecycle.get("release"):
            zones[each.zone].policies.append(each)
    for zone, found in zones.items():
        active = next((each for each in found.sets if _is_active(each)), None)
        if active is not None:
            yield from _beside(active, found)
        elif zone in own and zone not in elsewhere:
            yield from _without_active_set(found)


def _beside(active: Manifest, zone: _ZonePolicies) -> Iterator[tuple[Manifest, str]]:
    """The policies that the active set of their zone does not list."""
    if _is_left_to_others(active, _POLICIES):
        return
    for policy in zone.policies:
        if _lists(active, policy):
            continue
        message = (
            f"this Policy decides nothing: PolicySet `{active.name}` ({active.origin}), the active policy set"
            f" of zone `{policy.zone}`, does not list it; add `{policy.name}` to its `policies`"
        )
        if others := [each for each in zone.sets if _lists(each, policy)]:
            message += f"; {_listed_by(others)}, but is not active"
        yield policy, message


def _without_active_set(zone: _ZonePolicies) -> Iterator[tuple[Manifest, str]]:
    """The policies of a zone without an active set; not those of a set that others may activate or change."""
    unknown = [each for each in zone.sets if _is_left_to_others(each, _ACTIVE)]
    for policy in zone.policies:
        if any(_lists(each, policy) or _is_left_to_others(each, _POLICIES) for each in unknown):
            continue
        if lists := [each for each in zone.sets if _lists(each, policy)]:
            do = f"{_listed_by(lists)}, but with `active: false`: write `active: true` there, and list"
        else:
            do = f"list `{policy.name}` in a PolicySet with `active: true`, together with"
        message = (
            "no active policy set of this configuration lists this Policy, and unless another one of zone"
            f" `{policy.zone}` does, it decides nothing; {do} copies of the zone's default policies, which an"
            " active policy set replaces (docs/policies.md)"
        )
        yield policy, message


def _is_active(policy_set: Manifest) -> bool:
    """Tell whether a set is certainly active once it is applied."""
    return policy_set.spec.get(_ACTIVE) is not False and not _is_left_to_others(policy_set, _ACTIVE)


def _is_left_to_others(policy_set: Manifest, member: str) -> bool:
    """Tell whether the server may have another value of a member after an apply."""
    lifecycle = policy_set.lifecycle
    return bool(lifecycle.get("release")) or member in lifecycle.get("ignore", ())


def _lists(policy_set: Manifest, policy: Manifest) -> bool:
    for each in policy_set.spec.get(_POLICIES) or ():
        if isinstance(each, dict):
            # Whose policy it is may be unknown here: the owner can be named on the command line alone.
            if each.get("external") == policy.handle or each.get("name") == policy.name:
                return True
        elif each == policy.name:
            return True
    return False


def _listed_by(sets: Sequence[Manifest]) -> str:
    """The first of the sets that list a policy."""
    return f"PolicySet `{sets[0].name}` ({sets[0].origin}) lists it"

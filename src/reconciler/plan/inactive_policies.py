"""Finds policies that a plan writes and that no active policy set lists afterwards: they decide nothing.

The active set may be managed by another configuration, or made through the management API. Where the snapshot
does not show which one is active, nothing is found.
"""

from collections.abc import Mapping, Sequence

from reconciler.kinds import Manifest
from reconciler.kinds.values import Key

from .matching import Match, SnapshotIndex
from .model import InactivePolicy, title_of
from .operations import Operation
from .policy_preview import POLICY_SET, PolicyPreview

_POLICIES = "policies"


def find_inactive_policies(
    preview: PolicyPreview,
    operations: Sequence[Operation],
    matches: Mapping[Key, Match],
    index: SnapshotIndex,
) -> tuple[InactivePolicy, ...]:
    """Such policies, by zone and name; none that the plan leaves as it is."""
    by_key = {
        match.found.id if match.found is not None else match.local_id: match for match in matches.values()
    }
    found = []
    for policy_key, set_key in preview.inactive_policies(operations):
        if (match := by_key.get(policy_key)) is None:
            continue
        manifest = match.manifest
        policy_set = by_key.get(set_key or "")
        record = entity.ownership if (entity := index.by_id.get(set_key or "")) is not None else None
        foreign = policy_set is None or policy_set.foreign is not None or policy_set.released
        found.append(
            InactivePolicy(
                manifest.zone,
                manifest.name,
                str(manifest.origin),
                active_set=preview.label(set_key) if set_key is not None else None,
                set_place=None if foreign or policy_set is None else str(policy_set.manifest.origin),
                set_owner=record.owner if foreign and record is not None else None,
                listed_by=tuple(_listed_by(manifest, matches)),
            )
        )
    return tuple(sorted(found, key=lambda each: (each.zone or "", each.policy)))


def _listed_by(policy: Manifest, matches: Mapping[Key, Match]) -> list[str]:
    """The policy sets of git that list a policy, none of which is active, with the place of each."""
    return [
        f"{title_of(POLICY_SET, match.key.zone, match.key.name)} ({match.manifest.origin})"
        for match in matches.values()
        if match.key.kind == POLICY_SET
        and match.key.zone == policy.zone
        and not match.released
        and policy.name in (match.manifest.spec.get(_POLICIES) or ())
    ]

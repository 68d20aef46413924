"""Finds policies of a plan's owner that no active policy set lists after the plan: they decide nothing.

The active set may be managed by another configuration, or made through the management API.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kinds.policy_lists import POLICY, POLICY_SET, PolicyLists

from .matching import Match, Matcher
from .model import InactivePolicy, title_of
from .operations import Operation
from .policy_preview import DecidingPolicies, PolicyPreview, ZonePointer
from .zone_state import key_of


@dataclass(frozen=True, slots=True)
class InactivePolicies:
    """Inactive policies by zone and name, and the zones where the snapshot does not show the active set."""

    policies: tuple[InactivePolicy, ...]
    unseen: frozenset[str]


def find_inactive_policies(
    preview: PolicyPreview, operations: Sequence[Operation], matcher: Matcher
) -> InactivePolicies:
    """All such policies, those that the plan writes and those that it leaves as they are."""
    by_zone: dict[str, list[Match]] = defaultdict(list)
    for match in matcher.matches.values():
        if match.key.kind == POLICY and match.foreign is None and not match.released and not match.left_out:
            by_zone[match.key.zone or ""].append(match)
    pointers = {zone: next(iter(matcher.zone_pointer(zone).items())) for zone in by_zone}
    active = preview.active_policies(pointers.values(), operations)
    search = _Search(matcher, active, frozenset(_written(operations)))
    found = [each for zone, policies in by_zone.items() for each in search.of_zone(pointers[zone], policies)]
    unseen = frozenset(zone for zone, pointer in pointers.items() if active[pointer] is None)
    return InactivePolicies(
        tuple(sorted(found, key=lambda each: (each.zone or "", each.unchanged, each.policy))), unseen
    )


def _written(operations: Sequence[Operation]) -> set[str]:
    """What a changeset calls the policies that it writes."""
    return {key_of(each, {}) for each in operations if each["kind"] == POLICY and "spec" in each}


class _Search:
    """Looks through the zones.

    Attributes:
        active: the active policies of each zone.
        written: what the changeset calls the policies that it writes.
    """

    def __init__(
        self,
        matcher: Matcher,
        active: Mapping[ZonePointer, DecidingPolicies | None],
        written: frozenset[str],
    ) -> None:
        self.matcher, self.active, self.written = matcher, active, written
        self.sets = {
            each.entity_key: each.manifest
            for each in matcher.matches.values()
            if each.key.kind == POLICY_SET and not each.released
        }
        sets = defaultdict(list)
        for each in self.sets.values():
            sets[each.zone].append(each)
        self.lists = {zone: PolicyLists(of_zone, matcher.owner) for zone, of_zone in sets.items()}

    def of_zone(self, zone: ZonePointer, policies: Sequence[Match]) -> Iterator[InactivePolicy]:
        """Those of one zone; none where its active set is not known."""
        active = self.active[zone]
        if active is None:
            return
        for match in policies:
            if match.entity_key in active.policies:
                continue
            manifest, set_key = match.manifest, active.policy_set
            own = self.sets.get(set_key or "")
            lists = self.lists.get(manifest.zone)
            yield InactivePolicy(
                manifest.zone,
                manifest.name,
                str(manifest.origin),
                active_set=self._set_title(manifest.zone, set_key) if set_key is not None else None,
                set_place=str(own.origin) if own is not None else None,
                set_owner=self._other_owner(set_key) if own is None else None,
                listed_by=tuple(
                    f"{title_of(POLICY_SET, each.zone, each.name)} ({each.origin})"
                    for each in (lists.listing(manifest) if lists is not None else ())
                ),
                unchanged=next(iter(match.pointer.values())) not in self.written,
            )

    def _set_title(self, zone: str | None, key: str) -> str:
        if (own := self.sets.get(key)) is not None:
            return title_of(POLICY_SET, zone, own.name)
        entity = self.matcher.index.by_id[key]
        record = entity.ownership
        return title_of(POLICY_SET, zone, record.name if record is not None else entity.handle or entity.id)

    def _other_owner(self, key: str | None) -> str | None:
        entity = self.matcher.index.by_id.get(key or "")
        record = entity.ownership if entity is not None else None
        return record.owner if record is not None and record.owner != self.matcher.owner else None

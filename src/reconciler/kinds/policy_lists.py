"""Looks up which policy sets of a zone list a policy, in whichever way a manifest can name it."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from .values import Manifest

POLICY, POLICY_SET = "Policy", "PolicySet"
POLICIES, ACTIVE = "policies", "active"


class PolicyLists:
    """The policies that the policy sets of one zone list; each entry of a list is read once."""

    def __init__(self, sets: Iterable[Manifest], owner: str | None = None) -> None:
        """Read the lists.

        Args:
            owner: the owner of the policies that are looked up. None where it is unknown, since it can be
                named on the command line alone: an entry then names a policy of that name, whoever's it is.
        """
        self.sets = tuple(sets)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._by_handle: dict[str, list[int]] = defaultdict(list)
        for position, policy_set in enumerate(self.sets):
            for entry in policy_set.spec.get(POLICIES) or ():
                if not isinstance(entry, dict):
                    self._by_name[str(entry)].append(position)
                elif "external" in entry:
                    self._by_handle[str(entry["external"])].append(position)
                elif owner is None or entry.get("owner") == owner:
                    self._by_name[str(entry.get("name"))].append(position)

    def listing(self, policy: Manifest) -> list[Manifest]:
        """The sets that list a policy of the same zone, in their order."""
        by_handle = self._by_handle.get(policy.handle, ()) if policy.handle is not None else ()
        found = {*chain(self._by_name.get(policy.name, ()), by_handle)}
        return [self.sets[position] for position in sorted(found)]

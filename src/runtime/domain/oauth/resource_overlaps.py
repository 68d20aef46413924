"""Overlapping resource identifiers: which resources are equal as URLs, and which prefixes cover which.

Spec: RFC 8707 for resource identifiers; service interface, `prefix` of a resource.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.domain.oauth.resources import above, canonical, comparable


@dataclass(frozen=True, slots=True)
class PlacedResource:
    """A resource's identifier, and whether it is a prefix: it covers every URL below it."""

    id: str
    identifier: str
    prefix: bool


class ResourceOverlaps:
    """The resources of a zone, indexed by canonical URL."""

    def __init__(self, resources: Iterable[PlacedResource]) -> None:
        """Args:
        resources: of two with one name the first counts.
        """
        self._by_id: dict[str, PlacedResource] = {}
        self._alike: dict[str, list[PlacedResource]] = {}
        self._prefixes: dict[str, PlacedResource] = {}
        for each in resources:
            self._by_id[each.id] = each
            self._alike.setdefault(comparable(each.identifier), []).append(each)
            if each.prefix and (key := canonical(each.identifier)) is not None:
                self._prefixes.setdefault(key, each)

    def find(self, resource_id: str) -> PlacedResource | None:
        """The resource with that id; None when there is none."""
        return self._by_id.get(resource_id)

    def find_equal(self, of: PlacedResource) -> PlacedResource | None:
        """Another resource whose identifier is equal when compared as URLs."""
        alike = self._alike.get(comparable(of.identifier), ())
        return next((each for each in alike if each.id != of.id), None)

    def find_prefix(self, one: PlacedResource) -> PlacedResource | None:
        """The closest prefix resource that covers this one; requests would mean it if this one were gone."""
        prefixes = (self._prefixes.get(key) for key in above(one.identifier))
        return next((each for each in prefixes if each is not None and each.id != one.id), None)

    def equals(self) -> Iterator[list[PlacedResource]]:
        """The groups, of two or more, of resources that are equal when compared as URLs."""
        return (alike for alike in self._alike.values() if len(alike) > 1)

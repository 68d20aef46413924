"""Resources beside and beneath each other: which of them a request would mean if another were not there."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runtime.domain.oauth.resources import above, canonical, comparable


@dataclass(frozen=True, slots=True)
class Placed:
    """A resource: what it is called, and whether it stands for everything beneath that."""

    id: str
    identifier: str
    prefix: bool


class Neighbours:
    """Resources of a zone, by where they stand."""

    def __init__(self, resources: Iterable[Placed]) -> None:
        """Args:
        resources: of two with one name the first counts.
        """
        self._by_id: dict[str, Placed] = {}
        self._alike: dict[str, list[Placed]] = {}
        self._prefixes: dict[str, Placed] = {}
        for each in resources:
            self._by_id[each.id] = each
            self._alike.setdefault(comparable(each.identifier), []).append(each)
            if each.prefix and (key := canonical(each.identifier)) is not None:
                self._prefixes.setdefault(key, each)

    def of(self, resource_id: str) -> Placed | None:
        """The resource of that id."""
        return self._by_id.get(resource_id)

    def twin(self, of: Placed) -> Placed | None:
        """Another one whose identifier is the same when compared as URLs."""
        alike = self._alike.get(comparable(of.identifier), ())
        return next((each for each in alike if each.id != of.id), None)

    def around(self, one: Placed) -> Placed | None:
        """The prefix that requests for this one would mean if it were not there."""
        prefixes = (self._prefixes.get(key) for key in above(one.identifier))
        return next((each for each in prefixes if each is not None and each.id != one.id), None)

    def twins(self) -> Iterator[list[Placed]]:
        """Those that are the same when compared as URLs, two or more at a time."""
        return (alike for alike in self._alike.values() if len(alike) > 1)

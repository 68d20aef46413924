"""Exclusive members, which only one object of a zone can have: no plan takes them from another owner."""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.kinds import Entity, Kind, Ownership


def taken_from_others(
    kind: Kind, wanted: Mapping[str, object], within: Iterable[Entity], owner: str
) -> Iterator[tuple[str, Ownership]]:
    """The exclusive members that a change would take from objects of other owners, each with their record.

    Args:
        wanted: leaf path -> value.
        within: what is in the zone.
    """
    members = [each for each in kind.sole if wanted.get(each) is True]
    for entity in within if members else ():
        record = entity.ownership
        if entity.kind == kind.name and record is not None and record.owner != owner:
            yield from ((each, record) for each in members if entity.spec.get(each) is True)

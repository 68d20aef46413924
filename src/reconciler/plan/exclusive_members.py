"""What only one object of a zone can have: nobody takes it from another owner's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.kinds import Entity, Kind, Ownership


def taken_from_others(
    kind: Kind, wanted: Mapping[str, Any], within: Iterable[Entity], owner: str
) -> Iterator[tuple[str, Ownership]]:
    """What others would no longer have: the member, and the record of the object that has it now.

    Args:
        wanted: leaf path -> value.
        within: what is in the zone.
    """
    members = [each for each in kind.sole if wanted.get(each) is True]
    for entity in within if members else ():
        record = entity.ownership
        if entity.kind == kind.name and record is not None and record.owner != owner:
            yield from ((each, record) for each in members if entity.spec.get(each) is True)

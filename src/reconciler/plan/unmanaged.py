"""Finds unmanaged objects and fields in the zones of a configuration: those that no manifest describes."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from reconciler.kinds import Entity, Kind, Kinds, MemberSchema, Undescribable

from .matching import SnapshotIndex
from .member_values import leaves
from .model import Unmanaged


@dataclass(frozen=True)
class UnmanagedSearch:
    """The search for unmanaged objects and fields.

    Attributes:
        zones: the zones in which the configuration has objects: id -> name for people.
        beside: the kinds without a zone of which the configuration has objects.
        taken: entities that manifests describe, adopted or not yet.
        owner: of the configuration.
        shown: a value for people, ids as names.
    """

    index: SnapshotIndex
    kinds: Kinds
    zones: Mapping[str, str]
    beside: Set[str]
    taken: frozenset[str]
    owner: str
    shown: Callable[[Any], Any]

    def all(self) -> tuple[Unmanaged, ...]:
        """Everything that is unmanaged, by zone, kind and name."""
        found = [each for zone_id in self.zones for each in self._in_zone(zone_id)]
        found += self._of_organization()
        found += self._undescribable_ones()
        return tuple(sorted(found, key=lambda each: (*each.place, each.id)))

    def _in_zone(self, zone_id: str) -> Iterator[Unmanaged]:
        if (zone := self.index.by_id.get(zone_id)) is not None and zone.kind in self.kinds.by_name:
            yield from self._members(self.kinds.by_name[zone.kind], zone, None)
        for entity in self.index.in_zone.get(zone_id, ()):
            kind = self.kinds.by_name.get(entity.kind)
            if kind is None or entity.owner_type == "platform":
                continue
            if entity.ownership is not None:
                yield from self._members(kind, entity, self.zones[zone_id])
            elif entity.id not in self.taken:
                yield self._object(kind, entity, self.zones[zone_id])

    def _of_organization(self) -> Iterator[Unmanaged]:
        for entity in self.index.by_id.values() if self.beside else ():
            kind = self.kinds.by_name.get(entity.kind)
            if kind is None or entity.kind not in self.beside or entity.owner_type == "platform":
                continue
            if entity.ownership is not None:
                yield from self._members(kind, entity, None)
            elif entity.id not in self.taken:
                yield self._object(kind, entity, None)

    def _undescribable_ones(self) -> Iterator[Unmanaged]:
        """Objects that no kind of manifest describes: in these zones, or belonging to managed objects."""
        for each in self.index.undescribable:
            target = self.index.by_id.get(each.of or "")
            managed = self._manages(target)
            if managed if each.zone_id is None else each.zone_id in self.zones:
                yield self._undescribable(each, (self.shown(each.of),) if managed else ())

    def _undescribable(self, found: Undescribable, attached_to: tuple[str, ...]) -> Unmanaged:
        return Unmanaged(
            kind=found.kind,
            zone=self.zones[found.zone_id] if found.zone_id is not None else None,
            name=f"{found.role} -> {found.name}" if found.role is not None else found.name,
            id=found.id,
            attached_to=attached_to,
            describable=False,
            write=found.last_change,
        )

    def _manages(self, target: Entity | None) -> bool:
        return target is not None and target.ownership is not None and target.ownership.owner == self.owner

    def _object(self, kind: Kind, entity: Entity, zone: str | None) -> Unmanaged:
        return Unmanaged(
            kind=entity.kind,
            zone=zone,
            name=entity.handle or self._by_content(kind, entity),
            id=entity.id,
            attached_to=tuple(self._attached_to(kind, entity)),
            in_force=entity.in_force is not None,
            write=entity.last_change,
        )

    def _by_content(self, kind: Kind, entity: Entity) -> str:
        values = [self.shown(value) for path, _, value in leaves(kind.wire, entity.spec)]
        return " -> ".join(str(each) for each in values) or entity.id

    def _attached_to(self, kind: Kind, entity: Entity) -> Iterator[str]:
        """The managed object that it was created for and belongs to, if any."""
        for _, shape, value in leaves(kind.wire, entity.spec):
            if shape.ref is None or not shape.fixed or not isinstance(value, str):
                continue
            if self._manages(self.index.by_id.get(value)):
                yield self.shown(value)

    def _members(self, kind: Kind, entity: Entity, zone: str | None) -> Iterator[Unmanaged]:
        """Members of a managed object that its manifest does not set, and that are not at their default.

        Without those that follow another member, never change, or refer to entities that the server created.
        """
        record = entity.ownership
        if record is None or record.owner != self.owner or entity.id not in self.taken:
            return
        for path, shape, value in leaves(kind.wire, entity.spec):
            if path in record.fields or value in (shape.resets_to, None, [], {}):
                continue
            if not _is_settable(kind.wire, path):
                continue
            if isinstance(value, list):
                values = tuple(self.shown(each) for each in value)
            elif (
                shape.fixed
                or shape.secret
                or self._follows(entity, shape, value)
                or self._is_platforms(value)
            ):
                continue
            else:
                values = (self.shown(value),)
            member_of = Unmanaged(
                entity.kind, zone, record.name, entity.id, (), path, values, write=entity.last_change
            )
            yield replace(member_of, listed=isinstance(value, list))

    @staticmethod
    def _follows(entity: Entity, shape: MemberSchema, value: object) -> bool:
        return shape.default_from is not None and entity.spec.get(shape.default_from) == value

    def _is_platforms(self, value: object) -> bool:
        found = self.index.by_id.get(value) if isinstance(value, str) else None
        return found is not None and found.owner_type == "platform"


def _is_settable(shape: MemberSchema, path: str) -> bool:
    """Tell whether a manifest can have the member: members that the server computes are in no schema."""
    for name in path.split("."):
        if name not in shape.members:
            return False
        shape = shape.members[name]
    return True

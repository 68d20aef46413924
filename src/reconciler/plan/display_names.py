"""Display names: what plans show in place of ids."""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.kinds import Entity

from .matching import SnapshotIndex


def display_name(name: str, former: str | None) -> str:
    """A name; with the former one where it was renamed, since another object may have either by then."""
    return f"{name} (was {former})" if former else name


class DisplayNames:
    """Display names of entities in a snapshot, and of those that a changeset creates."""

    def __init__(
        self, index: SnapshotIndex, owner: str, made: Callable[[str], str], renamed: Mapping[str, str]
    ) -> None:
        """Names after the changeset.

        Args:
            made: the changeset's name of what it makes -> `Kind/name`.
            renamed: id of what is renamed -> its new name.
        """
        self._index, self._owner, self._made, self._renamed = index, owner, made, renamed

    def shown(self, value: object) -> Any:
        """A value for people and for review: references as `Kind/name` in place of ids."""
        if isinstance(value, list):
            return [self.shown(each) for each in value]
        if isinstance(value, str):
            entity = self._index.by_id.get(value)
            return self._label(entity) if entity is not None else self._index.in_force.get(value, value)
        if isinstance(value, dict):
            if "local_id" in value:
                return self._made(value["local_id"])
            if "address_of" in value:
                return (
                    f"{value['member']} of {self.shown(value['address_of'].get('id') or value['address_of'])}"
                )
            if "external" in value:
                return f"{value['kind']}/{value['external']}"
        return value

    def _label(self, entity: Entity) -> str:
        record = entity.ownership
        if record is None:
            return f"{entity.kind}/{entity.handle or entity.id}"
        whose = "" if record.owner == self._owner else f" of {record.owner}"
        now = self._renamed.get(entity.id)
        name = display_name(now, record.name) if now is not None else record.name
        return f"{entity.kind}/{name}{whose}"

    def zones(self) -> dict[str, str]:
        """The names of all zones, by id."""
        return {each.id: self.zone(each.id) for each in self._index.by_id.values() if each.kind == "Zone"}

    def zone(self, zone_id: str) -> str:
        """The name that manifests have for a zone; its slug when none manages it."""
        zone = self._index.by_id.get(zone_id)
        if zone is None or zone.ownership is None:
            return (zone.handle if zone is not None else None) or zone_id
        return self._renamed.get(zone_id, zone.ownership.name)

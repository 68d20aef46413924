"""Looks up objects of other owners by the names in their manifests: shared zones and what is in them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from reconciler.kinds import Entity

_ZONE = "Zone"


class ReferenceUnresolved(Exception):
    """A reference names no object on the server.

    Attributes:
        word, known: the name as written, and the known names, for a suggestion; empty when there is none.
            The names may be an iterator, which is read only where a suggestion is made.
        member: the member of the reference that has the name, where the reference is an object.
    """

    def __init__(self, message: str, word: str = "", known: Iterable[str] = (), *, member: str = "") -> None:
        super().__init__(message)
        self.word, self.known, self.member = word, known, member


class OtherOwners:
    """Entities of other owners, by owner, zone, kind and manifest name."""

    def __init__(self, entities: Iterable[Entity], owner: str, zones: Mapping[str, str | None]) -> None:
        """*zones*: name of a zone that another configuration manages -> its owner, where one is named."""
        self._owner, self._zones = owner, zones
        self._named: dict[tuple[str | None, str, str], dict[str, Entity]] = defaultdict(dict)
        self._all_zones: list[Entity] = []
        self._found: dict[str, Entity] = {}
        for entity in entities:
            if entity.kind == _ZONE:
                self._all_zones.append(entity)
            record = entity.ownership
            if record is not None and record.owner != owner:
                self._named[entity.zone_id, entity.kind, record.owner][record.name] = entity

    def zone(self, name: str) -> Entity:
        """The zone by the name in its owner's manifests, else by its slug. Raises ReferenceUnresolved."""
        if name not in self._found:
            self._found[name] = self._find_zone(name)
        return self._found[name]

    def _find_zone(self, name: str) -> Entity:
        wanted = self._zones.get(name)
        named = [zone for zone in self._all_zones if zone.ownership and zone.ownership.name == name]
        slugs = [zone for zone in self._all_zones if zone.handle == name and zone.owner_type != "platform"]
        if wanted is not None:
            named = [zone for zone in named if self._owner_of(zone) == wanted]
            slugs = [zone for zone in slugs if self._owner_of(zone) == wanted and not named]
        found = {zone.id: zone for zone in (*named, *slugs)}
        if any(self._owner_of(zone) == self._owner for zone in found.values()):
            raise ReferenceUnresolved(
                f"Zone `{name}` belongs to this configuration, but has no manifest any more;"
                " keep its manifest with `lifecycle: {release: true}` until the new owner has adopted it"
            )
        if len(found) > 1:  # ambiguous: any owner can create a zone of that name
            owners = sorted(f"`{self._owner_of(zone) or 'no owner'}`" for zone in found.values())
            raise ReferenceUnresolved(
                f"there are {len(found)} zones `{name}`, of {' and '.join(owners)};"
                f" write `{{name: {name}, owner: ...}}` in `zones`"
            )
        if found:
            return next(iter(found.values()))
        of_owner = f" of `{wanted}`" if wanted else ""
        raise ReferenceUnresolved(
            f"there is no Zone `{name}`{of_owner} on the server", name, self._known_zones()
        )

    @staticmethod
    def _owner_of(zone: Entity) -> str | None:
        return zone.ownership.owner if zone.ownership is not None else None

    def _known_zones(self) -> set[str]:
        names = {zone.ownership.name for zone in self._all_zones if zone.ownership is not None}
        return names | {zone.handle for zone in self._all_zones if zone.handle is not None}

    def entity(self, kind: str, zone_id: str | None, owner: str, name: str) -> Entity:
        """The entity of that name in an owner's manifests, in a zone or none. Raises ReferenceUnresolved."""
        if owner == self._owner:
            raise ReferenceUnresolved(
                f"`{owner}` is this configuration: refer to {kind} `{name}` by its name, without `owner`",
                member="owner",
            )
        for place in (zone_id, None):
            if (found := self._names(place, kind, owner).get(name)) is not None:
                return found
        owners = {other for place, _, other in self._named if place in (zone_id, None)}
        if owner not in owners:
            raise ReferenceUnresolved(
                f"`{owner}` manages nothing in this zone", owner, owners, member="owner"
            )
        known = {**self._names(None, kind, owner), **self._names(zone_id, kind, owner)}
        raise ReferenceUnresolved(
            f"`{owner}` manages no {kind} `{name}` in this zone", name, known, member="name"
        )

    def _names(self, zone_id: str | None, kind: str, owner: str) -> Mapping[str, Entity]:
        return self._named.get((zone_id, kind, owner), {})

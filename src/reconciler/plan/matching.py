"""Matches each manifest with the entity it describes, and resolves its spec into the API's form."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

from reconciler.kinds import Entity, ExternalReference, Manifest, MemberSchema, Reference, Snapshot, Tombstone
from reconciler.kinds.values import Key

from .assignment import Cost, assign
from .member_values import as_written, identity, leaves, same_value, value_at
from .other_owners import OtherOwners, ReferenceUnresolved
from .unresolved_references import MemberPath, UnresolvedReference

NEW_ZONE: Final = ""  # in place of the id of a zone that is yet to be created


@dataclass
class Match:
    """A manifest and the entity it describes, when that exists.

    Attributes:
        adopted: the entity has no ownership record yet.
        previous_name: the name in the record, when the manifest was renamed.
        foreign: the owner that manages the entity, when that is another one.
        released: the manifest releases the entity: it stays, unmanaged.
        deleted: the entity was deleted by others.
        replaced: fixed members that differ, or its lost secret; not empty means delete and create.
        wanted: leaf path -> value on the wire, without secrets.
        left_out: it is not created: it has expired, and the server does not have it.
        key: the manifest's identity.
    """

    manifest: Manifest
    found: Entity | None = None
    adopted: bool = False
    previous_name: str | None = None
    foreign: str | None = None
    released: bool = False
    deleted: Tombstone | None = None
    replaced: list[str] = field(default_factory=list)
    wanted: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, dict[str, Any]] = field(default_factory=dict)
    handle: str | None = None
    left_out: bool = False
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.manifest.key

    @cached_property
    def local_id(self) -> str:
        """The changeset's temporary name of the entity that it creates."""
        return _local_id(self.key)

    @property
    def entity_key(self) -> str:
        """The id of the manifest's entity; the local id of one that does not exist yet."""
        return self.found.id if self.found is not None else self.local_id

    @property
    def new(self) -> bool:
        """Tell whether the changeset creates the entity."""
        return not (self.released or self.left_out) and (self.found is None or bool(self.replaced))

    def ignores(self, path: str) -> bool:
        """Tell whether the manifest ignores that member once the entity exists."""
        return any(
            path == each or path.startswith(each + ".") for each in self.manifest.lifecycle.get("ignore", ())
        )

    @property
    def pointer(self) -> dict[str, str]:
        """How the changeset refers to the entity."""
        if self.found is not None and not self.replaced:
            return {"id": self.found.id}
        return {"local_id": self.local_id}


Unresolved = list[tuple[MemberPath, ReferenceUnresolved]]
"""References of one manifest that name nothing, each with its member in the manifest."""

_LONGEST_LOCAL_ID = 255
_LATER = {"later": True}  # equals no value on the server


class SnapshotIndex:
    """Lookup tables over a snapshot: by id, owner's name, handle and zone."""

    def __init__(self, snapshot: Snapshot, owner: str) -> None:
        self.by_id: dict[str, Entity] = {}
        self.owned: dict[tuple[str | None, str, str], Entity] = {}
        self.by_handle: dict[tuple[str | None, str, str], list[Entity]] = defaultdict(list)
        self.counts: dict[str, int] = defaultdict(int)
        self.gone_by_id = {each.id: each for each in snapshot.tombstones}
        self.gone: dict[tuple[str | None, str, str], Tombstone] = {
            (each.zone_id, each.kind, each.name): each for each in snapshot.tombstones if each.owner == owner
        }
        self.undescribable = snapshot.undescribable
        self.in_zone: dict[str, list[Entity]] = defaultdict(list)
        self.in_force: dict[str, str] = {}  # objects of the active versions: id -> `Kind/name`
        for entity in snapshot.entities:
            self.by_id[entity.id] = entity
            if entity.zone_id is not None:
                self.in_zone[entity.zone_id].append(entity)
            if entity.handle is not None:
                self.by_handle[entity.zone_id, entity.kind, entity.handle].append(entity)
            if entity.in_force is not None:
                self.in_force.update(
                    {each.id: f"{each.kind}/{each.name}" for each in entity.in_force.contents}
                )
            record = entity.ownership
            if record is not None and record.owner == owner:
                self.owned[entity.zone_id, entity.kind, record.name] = entity
                self.counts[entity.kind] += 1


class Matcher:
    """Matches manifests with entities, zones first."""

    def __init__(
        self,
        manifests: Iterable[Manifest],
        snapshot: Snapshot,
        owner: str,
        zones: Mapping[str, str | None] | None = None,
    ) -> None:
        self.index = SnapshotIndex(snapshot, owner)
        self.other_owners = OtherOwners(snapshot.entities, owner, zones or {})
        self.owner = owner
        self.matches: dict[Key, Match] = {}
        self.taken: set[str] = set()
        self._zones: dict[str, Match] = {}
        self._identities: dict[tuple[str | None, str], dict[str, list[Entity]]] = {}
        ordered = sorted(manifests, key=lambda each: (each.kind.order, each.zone or "", each.name))
        self._kinds = {manifest.kind.name: manifest.kind for manifest in ordered}
        made = [
            Match(each, handle=each.handle, released=bool(each.lifecycle.get("release"))) for each in ordered
        ]
        for _, siblings in groupby(made, key=lambda each: (each.manifest.kind.order, each.key.zone)):
            self._find_all(list(siblings))

    def renamed(self) -> dict[str, str]:
        """Id of a renamed entity -> its new name."""
        return {
            match.found.id: match.key.name
            for match in self.matches.values()
            if match.previous_name is not None and match.found is not None
        }

    def zone_id(self, manifest: Manifest) -> str | None:
        """The id of the zone a manifest's entity is in, or `NEW_ZONE`; None for a kind that is in no zone."""
        if not manifest.kind.zoned:
            return None
        zone = self._zones.get(manifest.zone or "")
        if zone is not None:
            return zone.found.id if zone.found is not None else NEW_ZONE
        try:
            return self.other_owners.zone(manifest.zone or "").id
        except ReferenceUnresolved:
            return NEW_ZONE  # reported when the manifest is resolved

    def zone_pointer(self, name: str) -> dict[str, str]:
        """The changeset's pointer to a zone, own or another owner's. Raises ReferenceUnresolved."""
        match = self._zones.get(name)
        return match.pointer if match is not None else {"id": self.other_owners.zone(name).id}

    def _find_all(self, siblings: Sequence[Match]) -> None:
        """Find the entities of the manifests of one kind in one zone, or of one kind without zones."""
        zone_id = self.zone_id(siblings[0].manifest)
        by_name = self._by_names(siblings, zone_id) if zone_id != NEW_ZONE else {}
        for match in siblings:
            self.matches[match.key] = match
            if match.key.kind == "Zone":
                self._zones[match.key.name] = match
            match.found = by_name.get(match.key.name)
            if match.found is not None:
                self.taken.add(match.found.id)
        for match in siblings:
            if zone_id == NEW_ZONE:
                match.deleted = self._tombstone(match.manifest, self._former_zone_id(match.manifest))
                continue
            if match.found is not None:
                continue
            if match.handle is not None:
                match.found = self._by_handle(match, zone_id)
            elif match.manifest.kind.handle is None:
                match.found = self._by_identity(match, zone_id)
            if match.found is None or match.adopted:
                match.deleted = self._tombstone(match.manifest, zone_id)
            if match.found is not None:
                self.taken.add(match.found.id)

    def _by_names(self, siblings: Sequence[Match], zone_id: str | None) -> dict[str, Entity]:
        """Manifest name -> the entity that has this name in its record, or one of its previous names.

        Names may have been exchanged, rotated or passed on: as many manifests as possible get an entity, at
        the least difference, first in fixed members, then in names, then in all other members. So a renamed
        entity is kept, and one that equals its manifest stays unchanged.
        """
        kind, owned = siblings[0].manifest.kind.name, self.index.owned
        if not any("previous_names" in match.manifest.lifecycle for match in siblings):
            there = {match.key.name: owned.get((zone_id, kind, match.key.name)) for match in siblings}
            return {name: entity for name, entity in there.items() if entity is not None}
        candidates: dict[str, list[str]] = {}
        for match in siblings:
            known = dict.fromkeys([match.key.name, *match.manifest.lifecycle.get("previous_names", ())])
            candidates[match.key.name] = [name for name in known if (zone_id, kind, name) in owned]
        wanted = Counter(name for names in candidates.values() for name in names)
        offers: dict[str, dict[str, Cost]] = {}
        chosen: dict[str, str] = {}
        for match in siblings:
            names = candidates[match.key.name]
            if len(names) == 1 and wanted[names[0]] == 1:
                chosen[match.key.name] = names[0]
            elif names:
                offers[match.key.name] = {
                    name: (*self._misfit(match, owned[zone_id, kind, name]), place)
                    for place, name in enumerate(names)
                }
        chosen.update(assign(offers))
        for match in siblings:
            if (name := chosen.get(match.key.name, match.key.name)) != match.key.name:
                match.previous_name = name
        return {new: owned[zone_id, kind, name] for new, name in chosen.items()}

    def _misfit(self, match: Match, entity: Entity) -> tuple[int, int]:
        """The difference between an entity and a manifest: in its identity, and in all other members.

        The identity is the fixed members, and the handle where the manifest has one.
        """
        kind, differing = match.manifest.kind, [0, 0]
        handle, texts = kind.handle_of(match.manifest.spec), kind.text_paths
        for path, value in self._known(match).items():
            shape = kind.leaf(path)
            there = as_written(kind, entity, path, value_at(entity.spec, path))
            if not same_value(shape, value, there, text=path in texts):
                differing[0 if shape.fixed or path == handle else 1] += 1
        return differing[0], differing[1]

    def _known(self, match: Match) -> dict[str, Any]:
        """Leaf path -> value on the wire, before later references are matched; without secrets."""
        manifest, kind = match.manifest, match.manifest.kind
        known: dict[str, Any] = {}
        handle = kind.handle_of(manifest.spec)
        if handle is not None and match.handle is not None and kind.leaf(handle).fixed:
            known[handle] = match.handle
        for path, shape, value in leaves(kind.spec, manifest.spec):
            if shape.secret:
                continue
            unresolved: Unresolved = []
            try:
                resolved = self._value(match, shape, value, (), unresolved)
            except KeyError:
                resolved = _LATER
            known[shape.wire_path(path)] = _LATER if unresolved else resolved
        return known

    def _by_identity(self, match: Match, zone_id: str | None) -> Entity | None:
        """For a kind without handles: the entity with the same fixed members."""
        kind = match.manifest.kind
        if (zone_id, kind.name) not in self._identities:
            found: dict[str, list[Entity]] = defaultdict(list)
            for entity in self.index.in_zone.get(zone_id or "", ()):
                if entity.kind == kind.name:
                    spec = {path: value for path, _, value in leaves(kind.wire, entity.spec)}
                    found[identity(kind, spec)].append(entity)
            self._identities[zone_id, kind.name] = found
        same_one = self._identities[zone_id, kind.name].get(identity(kind, self._known(match)), ())
        return self._unmanaged(match, same_one)

    def _tombstone(self, manifest: Manifest, zone_id: str | None) -> Tombstone | None:
        if manifest.lifecycle.get("release"):
            return None
        names = (manifest.name, *manifest.lifecycle.get("previous_names", ()))
        found = (self.index.gone.get((zone_id, manifest.kind.name, name)) for name in names)
        return next((each for each in found if each is not None), None)

    def _former_zone_id(self, manifest: Manifest) -> str:
        """The id of a zone that others have deleted; empty when there was none."""
        zone = self._zones.get(manifest.zone or "")
        return zone.deleted.id if zone is not None and zone.deleted is not None else ""

    def _by_handle(self, match: Match, zone_id: str | None) -> Entity | None:
        """The unmanaged entity of that handle; another owner's is recorded as `foreign`."""
        place = (zone_id, match.manifest.kind.name, match.handle or "")
        candidates: Sequence[Entity] = self.index.by_handle.get(place, ())
        if match.manifest.kind.handle_shared is not None:
            candidates = self._closest(match, candidates)
        return self._unmanaged(match, candidates)

    def _closest(self, match: Match, candidates: Sequence[Entity]) -> Sequence[Entity]:
        """Of several that nobody manages the one that fits the manifest best; where two do, neither.

        If one were taken for the other, the wrong one would expire.
        """
        free = [each for each in candidates if each.ownership is None and each.id not in self.taken]
        if len(free) < 2:
            return candidates
        costs = [(*self._misfit(match, each), self._omitted(match, each)) for each in free]
        if costs.count(least := min(costs)) > 1:
            return [each for each in candidates if each not in free]
        return [free[costs.index(least)]]

    def _omitted(self, match: Match, entity: Entity) -> int:
        """How many values an entity has that the manifest omits."""
        known = self._known(match)
        found = leaves(match.manifest.kind.wire, entity.spec)
        return sum(value is not None and path not in known for path, _, value in found)

    def _unmanaged(self, match: Match, candidates: Iterable[Entity]) -> Entity | None:
        for entity in candidates:
            if entity.owner_type == "platform" or entity.id in self.taken:
                continue
            if match.released:
                return entity
            if entity.ownership is None:
                match.adopted = True
                return entity
            if entity.ownership.owner != self.owner:
                match.foreign = entity.ownership.owner
        return None

    def missing(self, match: Match) -> list[UnresolvedReference]:
        """Names marked as external in the manifest's texts that the zone lacks now, or after this plan.

        For a zone that does not exist yet, the server checks them.
        """
        if not match.manifest.outside:
            return []
        zone_id = self.zone_id(match.manifest)
        return [
            UnresolvedReference(
                match.manifest,
                f"{match.manifest.key} names {each.kind} `{each.handle}`, "
                "which does not exist on the server, or is deleted by this plan",
                place=each.place,
            )
            for each in match.manifest.outside
            if zone_id != NEW_ZONE
            and not any(map(self._stays, self.index.by_handle.get((zone_id, each.kind, each.handle), ())))
        ]

    def _stays(self, entity: Entity) -> bool:
        record = entity.ownership
        return entity.id in self.taken or record is None or record.owner != self.owner

    def resolve(self, match: Match) -> Unresolved:
        """Fill `wanted` and `secrets`: the spec on the wire, by leaf, without ignored members.

        Returns:
            Every reference of the manifest that names nothing on the server; `wanted` lacks these.
        """
        manifest, kind, unresolved = match.manifest, match.manifest.kind, Unresolved()
        if kind.zoned and manifest.zone not in self._zones:
            at: MemberPath = ("metadata", "zone")
            self._resolved(self.zone_pointer, manifest.zone or "", at, unresolved)
        if match.released or unresolved:  # without a zone, there is nothing that references could name
            return unresolved
        spec = dict(manifest.spec)
        handle = kind.handle_of(spec)
        if kind.handle_default and handle is not None:
            spec.setdefault(handle, manifest.name)
        for member in kind.sole:  # always compared, also when the manifest leaves it out
            if kind.spec.members[member].default is True:
                spec.setdefault(member, True)
        ignores = match.ignores if match.found is not None and "ignore" in manifest.lifecycle else None
        for path, shape, value in leaves(kind.spec, spec):
            if shape.refers:
                value = self._value(match, shape, value, ("spec", *path.split(".")), unresolved)
                path = shape.wire_path(path)
            if ignores is not None and ignores(path):
                continue
            if shape.secret:
                match.secrets[path] = _secret_reference(manifest, value)
            else:
                match.wanted[path] = value
        return unresolved

    def _value(
        self, match: Match, shape: MemberSchema, value: Any, at: MemberPath, unresolved: Unresolved
    ) -> Any:
        """A member's value with ids in place of names; names that nothing has are added to *unresolved*."""
        if shape.ref is not None:
            resolve: Callable[[Any], Any] = partial(self._one, match, shape.ref)
            many = shape.ref.many
        elif shape.address or (shape.items is not None and shape.items.address):
            resolve, many = self._address, not shape.address
        else:
            return value
        if not many:
            return self._resolved(resolve, value, at, unresolved)
        return [self._resolved(resolve, each, (*at, n), unresolved) for n, each in enumerate(value)]

    @staticmethod
    def _resolved(resolve: Callable[[Any], Any], value: Any, at: MemberPath, unresolved: Unresolved) -> Any:
        try:
            return resolve(value)
        except ReferenceUnresolved as error:
            within = (error.member or "of_zone",) if isinstance(value, dict) else ()
            unresolved.append(((*at, *within), error))
            return None

    def _one(self, match: Match, ref: Reference, value: Any) -> Any:
        """The id of the entity that a reference names, or `{"local_id": ..}` when the changeset creates it.

        An entity that the server creates together with a new zone has no id yet, and is named by its handle.
        """
        manifest = match.manifest
        target = self._kinds.get(ref.kind)
        if isinstance(value, str):
            in_zone = target is None or target.zoned
            zone = (manifest.name if manifest.kind.name == "Zone" else manifest.zone) if in_zone else None
            named = self.matches[Key(zone, ref.kind, value)]
            if named.released and named.found is None:
                raise ReferenceUnresolved(
                    f"{named.key} is released and does not exist on the server; remove the reference"
                )
            pointer = named.pointer
            return pointer.get("id", pointer)
        if "owner" in value:
            zone_id = self._reference_zone(match)
            return self.other_owners.entity(ref.kind, zone_id, value["owner"], value["name"]).id
        external = ExternalReference(value["external"], value.get("owner_type"))
        zone_id = self._reference_zone(match)
        entity = self._external(ref.kind, external, zone_id)
        if entity is not None:
            return entity.id
        if zone_id == NEW_ZONE:
            owner_type = {"owner_type": external.owner_type} if external.owner_type else {}
            return {"external": external.handle, "kind": ref.kind, **owner_type}
        known = (handle for zone, kind, handle in self.index.by_handle if (zone, kind) == (zone_id, ref.kind))
        raise ReferenceUnresolved(
            f"there is no {ref.kind} `{external.handle}` on the server",
            external.handle,
            known,
            member="external",
        )

    def _reference_zone(self, match: Match) -> str | None:
        """The id of the zone that references are looked up in: a Zone's own refer to its children."""
        if match.manifest.kind.name != "Zone":
            return self.zone_id(match.manifest)
        return match.found.id if match.found is not None else ""

    def _external(self, kind: str, external: ExternalReference, zone_id: str | None) -> Entity | None:
        candidates = [
            *self.index.by_handle.get((zone_id, kind, external.handle), ()),
            *self.index.by_handle.get((None, kind, external.handle), ()),
        ]
        fitting = [each for each in candidates if external.owner_type in (None, each.owner_type)]
        return min(fitting, key=lambda each: (each.owner_type == "platform", each.id), default=None)

    def _address(self, value: Any) -> Any:
        """The address of a zone: the literal one when the zone exists, otherwise the server fills it in."""
        if not isinstance(value, dict):
            return value
        pointer = self.zone_pointer(value["of_zone"])
        if "id" in pointer:
            known = self.index.by_id[pointer["id"]].spec.get("addresses", {}).get(value["member"])
            if known is not None:
                return known
        return {"address_of": pointer, "member": value["member"]}


def _local_id(key: Key) -> str:
    """The local id of a created entity: independent of the rest of the configuration."""
    name = "/".join(quote(part, safe="") for part in (key.kind, key.zone or "", key.name))
    return name if len(name) <= _LONGEST_LOCAL_ID else f"{key.kind}/{sha256(name.encode()).hexdigest()}"


def _secret_reference(manifest: Manifest, value: Mapping[str, Any]) -> dict[str, Any]:
    """The source of a secret, and the version by which a change of it is detected."""
    if "keep" in value:
        return {"keep": True}
    reference = {**value, "version": str(value.get("version", "1"))}
    path = reference.get("from_file")
    if path is not None and not path.startswith("/") and manifest.folder != ".":
        reference["from_file"] = f"{manifest.folder}/{path}"
    return reference

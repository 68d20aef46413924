"""Builds the changeset: its operations in an order in which every reference is to an existing object."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from reconciler.kinds import Entity, Kind, MemberSchema

from .matching import Match
from .member_values import leaves, normalized, value_at
from .model import CHANGING, FieldChange
from .operations import (
    CreateOperation,
    DeleteOperation,
    Operation,
    Pointer,
    ReleaseOperation,
    RenameOperation,
    WriteOperation,
    with_place,
)
from .three_way_diff import PROTECT


class ChangesetBuilder:
    """Collects the operations of a changeset, so that every reference is to an existing object.

    A value that refers to something created later is left out of the creation and set by an update at the
    end: this is how a zone gets its identity provider, and how two new entities can refer to each other.
    """

    def __init__(self) -> None:
        self.first: list[Operation] = []  # deletions before their replacements
        self.main: list[Operation] = []
        self.late: list[Operation] = []
        self.last: list[Operation] = []  # deletions
        self._created: set[str] = set()

    def in_order(self) -> tuple[Operation, ...]:
        """All operations, in the order they happen."""
        return (*self.first, *self.main, *self.late, *self.last)

    def create(self, match: Match, zone: Pointer | None) -> None:
        """Create the entity of a manifest; values that cannot be written yet follow in an update."""
        now, later = self._split(match.wanted)
        secrets = {path: {"secret": each} for path, each in match.secrets.items() if "keep" not in each}
        versions = {path: match.secrets[path]["version"] for path in sorted(secrets)}
        protect = bool(match.manifest.lifecycle.get("protect", False))
        operation = CreateOperation(
            op="create",
            kind=match.manifest.kind.name,
            local_id=match.local_id,
            name=match.manifest.name,
            # Null means the default, which is what a new entity has.
            spec=nest({path: value for path, value in {**now, **secrets}.items() if value is not None}),
            fields=_managed(match, {*now, *secrets}),
            secret_versions=versions,
            protect=protect,
        )
        self.main.append(_in_zone(with_place(operation, match.manifest.origin), zone))
        self._created.add(match.local_id)
        if later:
            update = WriteOperation(
                op="update",
                kind=match.manifest.kind.name,
                local_id=match.local_id,
                name=match.manifest.name,
                spec=nest(later),
                fields=_managed(match, {*match.wanted, *secrets}),
                secret_versions=versions,
                protect=protect,
            )
            self.late.append(_in_zone(with_place(update, match.manifest.origin), zone))

    def change(
        self,
        op: Literal["update", "adopt"],
        match: Match,
        zone: Pointer | None,
        changes: Iterable[FieldChange],
    ) -> None:
        """Update or adopt the entity of a manifest."""
        found, kind = match.found, match.manifest.kind
        assert found is not None  # noqa: S101 - only existing entities change
        values = {
            each.path: each.after for each in changes if each.state in CHANGING and each.path != PROTECT
        }
        # A member that defaults to a changing one is written again, so that it keeps its value.
        values |= {
            path: value for path, value in match.wanted.items() if kind.leaf(path).default_from in values
        }
        now, later = self._split(values)
        self.main.append(self._write(op, match, found, zone, now))
        if later:
            self.late.append(self._write("update", match, found, zone, later))

    def _write(
        self,
        op: Literal["update", "adopt"],
        match: Match,
        found: Entity,
        zone: Pointer | None,
        values: Mapping[str, object],
    ) -> Operation:
        kind, versions, fields = match.manifest.kind, *self._record(match)
        operation = WriteOperation(
            op=op,
            kind=kind.name,
            id=found.id,
            name=match.manifest.name,
            spec=patch(kind, found, values, match.wanted),
            fields=fields,
            secret_versions=versions,
            protect=bool(match.manifest.lifecycle.get("protect", False)),
        )
        return _in_zone(with_place(operation, match.manifest.origin), zone)

    def rename(self, match: Match) -> None:
        """Change the manifest name in an entity's ownership record."""
        found = match.found
        assert found is not None  # noqa: S101 - only existing entities are renamed
        renamed = RenameOperation(op="rename", kind=found.kind, id=found.id, name=match.manifest.name)
        self.main.append(_in_zone(with_place(renamed, match.manifest.origin), zone_pointer_of(found)))

    def release(self, entity: Entity) -> None:
        """Release an entity."""
        released = ReleaseOperation(op="release", kind=entity.kind, id=entity.id)
        self.main.append(_in_zone(released, zone_pointer_of(entity)))

    def delete(self, entity: Entity, *, first: bool = False) -> None:
        """Delete an entity; *first* when a replacement takes its place."""
        deleted = DeleteOperation(op="delete", kind=entity.kind, id=entity.id)
        (self.first if first else self.last).append(_in_zone(deleted, zone_pointer_of(entity)))

    def _record(self, match: Match) -> tuple[dict[str, str], list[str]]:
        """The secret versions and the fields of the ownership record after the operation."""
        record = match.found.ownership if match.found else None
        kept = {
            path
            for path, reference in match.secrets.items()
            if "keep" in reference and record is not None and path in record.fields
        }
        written = {path: each["version"] for path, each in match.secrets.items() if "keep" not in each}
        if record is not None:
            written.update(
                {path: record.secret_versions[path] for path in kept if path in record.secret_versions}
            )
        return dict(sorted(written.items())), sorted({*match.wanted, *written, *kept})

    def _split(self, values: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values that can be written now, and those that refer to entities created later."""
        now: dict[str, Any] = {}
        later: dict[str, Any] = {}
        for path, value in values.items():
            (now if self._known(value) else later)[path] = value
        return now, later

    def _known(self, value: object) -> bool:
        return self._created.issuperset(local_ids(value))


def zone_pointer_of(entity: Entity) -> Pointer | None:
    """The pointer to the zone of an entity; None where it is in none."""
    return {"id": entity.zone_id} if entity.zone_id else None


def _in_zone(operation: Operation, zone: Pointer | None) -> Operation:
    if zone:
        operation["zone"] = dict(zone)
    return operation


def _managed(match: Match, paths: Iterable[str]) -> list[str]:
    """The paths that git owns: without those that the manifest ignores."""
    return sorted(path for path in paths if not match.ignores(path))


def local_ids(value: object) -> Iterator[str]:
    """The entities that the changeset creates and a value refers to."""
    if isinstance(value, list):
        for each in value:
            yield from local_ids(each)
    elif isinstance(value, dict):
        if "local_id" in value:
            yield value["local_id"]
        elif "address_of" in value:
            yield from local_ids(value["address_of"])


def nest(values: Mapping[str, object]) -> dict[str, Any]:
    """Dotted paths as nested objects."""
    nested: dict[str, Any] = {}
    for path, value in sorted(values.items()):
        *above, name = path.split(".")
        at = nested
        for step in above:
            at = at.setdefault(step, {})
        at[name] = value
    return nested


def patch(
    kind: Kind, found: Entity, values: Mapping[str, object], wanted: Mapping[str, object]
) -> dict[str, Any]:
    """The merge patch that brings these members to these values. Spec: RFC 7396."""
    prepared = {path: _map_patch(value, value_at(found.spec, path)) for path, value in values.items()}
    nested = nest(prepared)
    _drop_emptied(kind.wire, nested, found.spec, wanted, "", found.spec)
    return nested


def _map_patch(value: object, found: object) -> Any:
    """The patch of a map with free keys: a merge patch keeps missing keys, so removed ones are null."""
    if (
        isinstance(value, dict)
        and isinstance(found, dict)
        and "secret" not in value
        and "local_id" not in value
    ):
        return {**dict.fromkeys(found.keys() - value.keys()), **value}
    return value


def _drop_emptied(
    shape: MemberSchema,
    nested: dict[str, Any],
    found: Mapping[str, Any],
    wanted: Mapping[str, Any],
    before: str,
    whole: Mapping[str, Any],
) -> None:
    """Remove the whole object where a manifest no longer has it and all its members are removed."""
    for name, value in nested.items():
        below, there = shape.members.get(name), found.get(name)
        if below is None or not below.nested or not isinstance(value, dict) or not isinstance(there, dict):
            continue
        path = f"{before}{name}."
        _drop_emptied(below, value, there, wanted, path, whole)
        still_wanted = any(each.startswith(path) or each == path[:-1] for each in wanted)
        if not still_wanted and not _has_defaults(below) and _all_cleared(below, value, there, whole):
            nested[name] = None


def _has_defaults(shape: MemberSchema) -> bool:
    """Tell whether the object has members with defaults, and so exists without any that are set."""
    return any(
        normalized(below, None) is not None or _has_defaults(below) for below in shape.members.values()
    )


def _all_cleared(
    shape: MemberSchema,
    nested: Mapping[str, object],
    found: Mapping[str, object],
    whole: Mapping[str, object],
) -> bool:
    for path, below, value in leaves(shape, found):
        if normalized(below, value) is None or (
            below.default_from and value == whole.get(below.default_from)
        ):
            continue
        at: object = nested
        for step in path.split("."):
            if at is None:
                break
            if not isinstance(at, dict) or step not in at:
                return False
            at = at[step]
        if at not in (None, []):
            return False
    return True


def unlink(entity: Entity, kind: Kind, gone: frozenset[str]) -> dict[str, Any]:
    """The patch that removes references to replaced entities from another entity."""
    cleared: dict[str, Any] = {}
    for path, shape, value in leaves(kind.wire, entity.spec):
        if shape.ref is None or shape.fixed:
            continue
        if isinstance(value, list) and not gone.isdisjoint(value):
            cleared[path] = [each for each in value if each not in gone]
        elif isinstance(value, str) and value in gone and path.rpartition(".")[2] not in kind.wire.required:
            cleared[path] = None
    return nest(cleared)

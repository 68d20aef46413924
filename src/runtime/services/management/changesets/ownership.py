"""Phase: record ownership. Which configuration manages which entity: checked first, written at the end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.contract.changes import Op
from runtime.domain.errors import Conflict
from runtime.domain.kinds import BY_NAME, ZONE, Kind
from runtime.services.management.changesets.changeset import DeleteOperation, PackedOperation
from runtime.services.management.entities import sealed_members
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import ownership as storage
from runtime.storage.sql import tombstones
from runtime.storage.sql.ownership import OwnershipRecord

Key = tuple[str, str]  # kind, entity
_BATCH = 500  # records in one statement: turning them into rows takes a while


@dataclass
class OwnershipRecords:
    """The ownership records of the entities that a changeset names, as its operations change them.

    Nothing is written before `flush`, so that entities can exchange their names.
    """

    owner: str
    source: dict[str, Any]
    dry_run: bool = False  # a dry run: what was applied to each field is asked of nobody
    _records: dict[Key, OwnershipRecord] = field(default_factory=dict)
    _new: dict[Key, OwnershipRecord] = field(default_factory=dict)
    _gone: set[Key] = field(default_factory=set)
    _protected: dict[Key, OwnershipRecord] = field(default_factory=dict)
    _secrets: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # kind, entity -> what was written
    _named: dict[tuple[str | None, str, str], list[Key]] = field(default_factory=dict)

    async def load(self, unit: UnitOfWork, operations: Sequence[PackedOperation]) -> None:
        """Look up the records of all entities and all names that the operations mention, kind by kind."""
        ids: dict[str, set[str]] = {}
        names: dict[str, set[str]] = {}
        for operation in operations:
            if operation.id is not None:
                ids.setdefault(operation.kind, set()).add(operation.id)
            if operation.name is not None:
                names.setdefault(operation.kind, set()).add(operation.name)
        if any(isinstance(operation, DeleteOperation) for operation in operations):
            guarded = await storage.protected(unit.conn, unit.organization_id)
            self._protected = {(record.kind, record.entity_id): record for record in guarded}
        kinds = {name: BY_NAME[name] for name in ids.keys() | names.keys()}
        for name, kind in kinds.items():
            found = await storage.of_entities(unit.conn, unit.organization_id, kind, ids.get(name, ()))
            called = await storage.with_names(
                unit.conn, unit.organization_id, kind, names.get(name, ()), owner=self.owner
            )
            for record in (*found.values(), *called):
                self._records[record.kind, record.entity_id] = record
        unit.cache.owners.update((key, record.owner) for key, record in self._records.items())

    def of(self, kind: Kind, entity_id: str) -> OwnershipRecord | None:
        """The record of an entity as it stands after the operations so far."""
        key = (kind.name, entity_id)
        if key in self._new:
            return self._new[key]
        return None if key in self._gone else self._records.get(key)

    def fields_of(self, kind: Kind, entity_id: str) -> frozenset[str]:
        """The members of an entity that are managed after the operations so far."""
        record = self.of(kind, entity_id)
        return frozenset(record.fields) if record else frozenset()

    def require_owned(self, kind: Kind, entity_id: str, *, before: Op) -> OwnershipRecord:
        """The record, if this changeset's owner holds it. Raises Conflict."""
        record = self.of(kind, entity_id)
        if record is None:
            raise Conflict(
                f"{kind.name} `{entity_id}` has no owner; adopt it before the operation `{before}`"
            )
        self._require_own(record, before)
        return record

    def require_free(self, kind: Kind, entity_id: str) -> OwnershipRecord | None:
        """The own record of an entity, or None when it has none. Raises Conflict when it is another's."""
        record = self.of(kind, entity_id)
        if record is not None:
            self._require_own(record, "adopt")
        return record

    def _require_own(self, record: OwnershipRecord, operation: Op) -> None:
        if record.owner != self.owner:
            raise Conflict(
                f"{record.kind} `{record.name}` belongs to `{record.owner}`;"
                f" release it there before the operation `{operation}`"
            )

    async def require_name(self, unit: UnitOfWork, kind: Kind, entity_id: str) -> None:
        """Raise Conflict when another entity of the kind has the same name in git; after all operations."""
        record = self.of(kind, entity_id)
        if record is None:
            return
        if not self._named:
            for key, each in {**self._records, **self._new}.items():
                stands = key in self._new or key not in self._gone
                if stands and each.owner == self.owner:  # a name is its owner's: another may have the same
                    self._named.setdefault((each.zone_id, each.kind, each.name), []).append(key)
        for key in self._named[record.zone_id, record.kind, record.name]:
            if key == (kind.name, entity_id):
                continue
            if key not in self._new:  # it may have gone with something that was deleted
                found = await storage.of_entities(unit.conn, unit.organization_id, kind, [key[1]])
                if key[1] not in found:
                    continue
            raise Conflict(
                f"the name `{record.name}` is already used by {kind.name} `{key[1]}`"
                f" in the manifests of `{self.owner}`"
            )

    async def refuse_protected_losses(self, unit: UnitOfWork, kind: Kind, *ids: str) -> None:
        """Raise Conflict when the deletion of entities has taken something protected along."""
        for entity_id in ids:
            self._protected.pop((kind.name, entity_id), None)
        if not self._protected:
            return
        if await storage.count_protected(unit.conn, unit.organization_id) == len(self._protected):
            return
        left = await storage.protected(unit.conn, unit.organization_id)
        lost = self._protected.keys() - {(record.kind, record.entity_id) for record in left}
        for key in sorted(lost):
            record = self._new.get(key) or self._protected[key]
            if record.protect and key not in self._gone:
                raise Conflict(
                    f"{record.kind} `{record.name}` of `{record.owner}` would be deleted, but is protected;"
                    " apply `protect: false` first"
                )
            del self._protected[key]

    def set_record(self, record: OwnershipRecord) -> None:
        """Replace the ownership record of an entity."""
        self._new[record.kind, record.entity_id] = record

    def remove_record(self, kind: Kind, entity_id: str) -> None:
        """Remove the ownership record of an entity."""
        key = (kind.name, entity_id)
        self._new.pop(key, None)
        self._gone.add(key)

    def claim(
        self,
        kind: Kind,
        entity_id: str,
        zone_id: str | None,
        operation: PackedOperation,
        spec: Mapping[str, Any],
        found: Mapping[str, Any],
        *,
        shown: bool = False,
    ) -> None:
        """Record what an operation wrote to an entity.

        Args:
            spec: what was written, references as ids.
            found: what the entity is like, for fields that are managed from now on as they stand.
            shown: a secret of it is shown in the answer, and never again.
        """
        key = (kind.name, entity_id)
        before = self.of(kind, entity_id)
        secrets = sealed_members(kind)
        if given := {name for name in secrets if spec.get(name) is not None}:
            self._secrets.setdefault(kind.name, {}).setdefault(entity_id, set()).update(given)
        written = {name: value for name, value in spec.items() if name not in secrets}
        applied: dict[str, Any] = {}
        if not self.dry_run:
            # A base that was empty stays empty: whatever stands there now is somebody else's.
            claimed = set(operation.fields) - self.fields_of(kind, entity_id)
            current = applied_values(claimed, {}, {}, found)
            applied = applied_values(operation.fields, written, before.applied if before else {}, current)
        self.set_record(
            OwnershipRecord(
                zone_id=zone_id,
                kind=key[0],
                entity_id=key[1],
                owner=self.owner,
                name=operation.name or (before.name if before else entity_id),
                fields=tuple(dict.fromkeys(operation.fields)),
                applied={name: value for name, value in applied.items() if name not in secrets},
                secret_versions=dict(operation.secret_versions),
                secret_stamps=before.secret_stamps if before else {},
                source={**self.source, **operation.source},
                protect=before.protect if operation.protect is None and before else bool(operation.protect),
                undelivered=shown or (before is not None and before.undelivered),
            )
        )

    def rename(self, record: OwnershipRecord, name: str, operation: PackedOperation) -> None:
        """Give an entity another name in git."""
        self.set_record(replace(record, name=name, source={**self.source, **operation.source}))

    def delivered(self, record: OwnershipRecord) -> None:
        """What was shown of an entity has arrived."""
        self.set_record(replace(record, undelivered=False))

    async def flush(self, unit: UnitOfWork, *, base: int) -> None:
        """Write what has changed, and forget what the owner has heard of: what was gone when it planned.

        A dry run has nothing after it that would ask for the records: that names are free was asked before.
        """
        if unit.dry_run:
            return
        unit.tombstones.omit(self.owner)
        await tombstones.acknowledge(unit.conn, unit.organization_id, self.owner, until=base)
        await self._stamp(unit)
        gone = sorted((self._gone | self._new.keys()) & self._records.keys())
        # What was made in a zone that is gone again went with it.
        zones = {entity_id for kind, entity_id in self._gone if kind == ZONE.name}
        records = [record for record in self._new.values() if record.zone_id not in zones]
        revision = await unit.next_revision()
        # Everything that goes before anything that comes: names can be exchanged that way.
        for start in range(0, len(gone), _BATCH):
            await storage.drop(unit.conn, unit.organization_id, gone[start : start + _BATCH])
        for start in range(0, len(records), _BATCH):
            batch = records[start : start + _BATCH]
            await storage.add(unit.conn, unit.organization_id, batch, revision=revision, now=unit.now)

    async def _stamp(self, unit: UnitOfWork) -> None:
        """Note which write of a secret was this one."""
        for name, written in self._secrets.items():
            kind = BY_NAME[name]
            known = {
                entity_id: self._new[name, entity_id]
                for entity_id in written
                if (name, entity_id) in self._new
            }
            stamps = await storage.stamps(unit.conn, kind, sealed_members(kind), known)
            for entity_id, record in known.items():
                fresh = {one: stamp for one, stamp in stamps[entity_id].items() if one in written[entity_id]}
                kept = {
                    one: stamp for one, stamp in record.secret_stamps.items() if one in record.secret_versions
                }
                self._new[name, entity_id] = replace(record, secret_stamps={**kept, **fresh})


_NOTHING = object()


def applied_values(
    fields: Iterable[str], written: Mapping[str, Any], before: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, Any]:
    """The value that was last applied to each field.

    That is what was just written; else what was written before; else, for what was only claimed, the value
    that stands there. Null is not kept: it says the same as nothing.

    Args:
        fields: dotted paths.
    """
    applied: dict[str, Any] = {}
    for path in fields:
        steps = path.split(".")
        value = _at(written, steps)
        if value is _NOTHING:
            value = _at(before, steps)
        if value is _NOTHING:
            value = _at(found, steps)
        elif isinstance(value, Mapping):  # a map is written key by key, and null takes one out
            known = _at(before, steps)
            value = {**(known if isinstance(known, Mapping) else {}), **value}
            value = {name: inner for name, inner in value.items() if inner is not None}
        if value is None or value is _NOTHING:
            continue
        below = applied
        for step in steps[:-1]:
            below = below.setdefault(step, {})
        below[steps[-1]] = value
    return applied


def _at(values: Any, steps: list[str]) -> Any:
    for step in steps:
        if values is None:
            return None  # the whole object was cleared
        if not isinstance(values, Mapping) or step not in values:
            return _NOTHING
        values = values[step]
    return values

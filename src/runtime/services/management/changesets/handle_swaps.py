"""Handles that move between entities within a changeset: each is unique when the changeset ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.contract.bodies import settable
from runtime.domain.kinds import ALL, BY_NAME, Kind, Verb
from runtime.domain.names import canonical
from runtime.services.management.changesets.changeset import (
    CreateOperation,
    DeleteOperation,
    PackedOperation,
    SpecOperation,
)
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import handle_placeholders
from runtime.storage.sql.changes import CurrentRevision

# Kinds whose handles are constant: they are replaced, and what makes way is deleted first.
_CONSTANT = frozenset(
    kind.name
    for kind in ALL
    if kind.variants or kind.handle is None or kind.handle not in settable(kind.entity, Verb.UPDATE)
)
Place = tuple[str, str | None, str]  # kind, zone, handle as it is compared


@dataclass
class HandleSwaps:
    """The entities whose handle another operation takes before they give it up."""

    unit: UnitOfWork
    _holders: dict[Place, tuple[str, str]] = field(default_factory=dict)  # -> entity, its handle
    _places: dict[tuple[str, str], Place] = field(default_factory=dict)  # kind, entity -> the same

    async def load(
        self, operations: Sequence[PackedOperation], standing: Mapping[tuple[str, str], CurrentRevision]
    ) -> None:
        """Look up which entities give up a handle that some operation takes; mostly there are none."""
        taken: dict[str, set[str]] = {}
        leaving: dict[str, dict[str, str | None]] = {}
        for operation in operations:
            handle = handle_in(BY_NAME[operation.kind], operation)
            if handle is not None:
                taken.setdefault(operation.kind, set()).add(canonical(handle))
            if operation.id is not None and (handle is not None or isinstance(operation, DeleteOperation)):
                leaving.setdefault(operation.kind, {})[operation.id] = handle
        for name in (taken.keys() & leaving.keys()) - _CONSTANT:
            found = await handle_placeholders.handles_of(
                self.unit.conn, BY_NAME[name], leaving[name], organization_id=self.unit.organization_id
            )
            for entity_id, handle in found.items():
                after = leaving[name][entity_id]
                key, here = canonical(handle), standing.get((name, entity_id))
                if here is None or key not in taken[name] or (after is not None and canonical(after) == key):
                    continue
                place = (name, here.zone_id, key)
                self._holders[place] = (entity_id, handle)
                self._places[name, entity_id] = place

    async def park_holder(
        self, kind: Kind, zone_id: str | None, entity_id: str | None, handle: str | None
    ) -> None:
        """Before an entity takes a handle, park the one of the entity that gives it up later.

        Args:
            entity_id: the entity; None for a new one.
        """
        if handle is None or not self._holders:
            return
        holder_id, held = self._holders.get((kind.name, zone_id, canonical(handle)), (None, ""))
        if holder_id is None or holder_id == entity_id:
            return
        tenant_id = zone_id or self.unit.organization_id
        await handle_placeholders.put_placeholder(self.unit.conn, kind, holder_id, held, tenant_id=tenant_id)
        self._forget(kind, holder_id)

    def settle(self, kind: Kind, entity_id: str) -> None:
        """Note that an entity has its new handle, or is gone."""
        self._forget(kind, entity_id)
        handle_placeholders.drop_placeholder(self.unit.conn, kind, entity_id)

    def close(self) -> None:
        """Forget what was parked: the transaction ends, committed or not."""
        handle_placeholders.drop_placeholders(self.unit.conn)

    def _forget(self, kind: Kind, entity_id: str) -> None:
        place = self._places.pop((kind.name, entity_id), None)
        if place is not None:
            self._holders.pop(place, None)


def handle_in(kind: Kind, operation: PackedOperation) -> str | None:
    """The handle that an operation gives to its entity; None when it gives none."""
    if kind.handle is None or not isinstance(operation, SpecOperation):
        return None
    value = operation.spec.get(kind.handle)
    if value is None and isinstance(operation, CreateOperation):
        value = operation.name
    return value if isinstance(value, str) else None

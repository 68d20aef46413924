"""A changeset with typed operations, one class for each `op`; their specs are held as JSON text.

As Python values 100,000 operations take a quarter of a gigabyte, and the collector of unused memory, which
looks at each of them again and again, a third of the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, ClassVar, cast

from pydantic_core import from_json, to_json

from runtime.contract.changes import Changeset, ChangesetHeader, Op, Operation, Pointer, Source


@dataclass(frozen=True, slots=True)
class PackedOperation:
    """One operation of a changeset, of one of the classes below. Its members are those of `Operation`."""

    op: ClassVar[Op]

    kind: str
    id: str | None
    local_id: str | None
    zone: Pointer | None
    name: str | None
    fields: tuple[str, ...]
    secret_versions: Mapping[str, str]
    protect: bool | None
    packed_spec: bytes
    place: tuple[str, int] | None = None  # file and line of its manifest: two values take little memory

    @property
    def source(self) -> dict[str, Any]:
        """Where its manifest is, as the ownership record has it; empty for a client that does not say."""
        return {} if self.place is None else {"file": self.place[0], "line": self.place[1]}

    @property
    def spec(self) -> dict[str, Any]:
        """The desired state, references unresolved: a new value each time."""
        return cast(dict[str, Any], from_json(self.packed_spec))

    def as_json(self) -> dict[str, Any]:
        """The operation as it was sent, with every member; `source` only where it was.

        So a changeset that was stored before there was that member, and is sent again, is the same one.
        """
        found = {
            "op": self.op,
            "kind": self.kind,
            "id": self.id,
            "local_id": self.local_id,
            "zone": self.zone.model_dump(mode="json") if self.zone is not None else None,
            "name": self.name,
            "spec": self.spec,
            "fields": list(self.fields),
            "secret_versions": dict(self.secret_versions),
            "protect": self.protect,
        }
        return {**found, "source": self.source} if self.source else found


class SpecOperation(PackedOperation):
    """An operation that writes a spec to an entity, and claims the entity for its owner."""

    __slots__ = ()


class CreateOperation(SpecOperation):
    """Creates an entity. Later operations may refer to it by its `local_id`."""

    __slots__ = ()
    op = "create"


class ChangeOperation(SpecOperation):
    """An operation that changes an entity that exists: an update or an adoption."""

    __slots__ = ()


class UpdateOperation(ChangeOperation):
    """Changes an entity that the changeset's owner manages."""

    __slots__ = ()
    op = "update"


class AdoptOperation(ChangeOperation):
    """Takes over an entity that nobody manages, and changes it."""

    __slots__ = ()
    op = "adopt"


class DeleteOperation(PackedOperation):
    """Deletes an entity, or archives it where its kind is archived."""

    __slots__ = ()
    op = "delete"


class RecordOperation(PackedOperation):
    """An operation on the ownership record alone: the entity stays as it is."""

    __slots__ = ()


class RenameOperation(RecordOperation):
    """Gives an entity another name in the owner's manifests."""

    __slots__ = ()
    op = "rename"


class ReleaseOperation(RecordOperation):
    """Ends the ownership of an entity: nobody manages it afterwards."""

    __slots__ = ()
    op = "release"


class DeliveredOperation(RecordOperation):
    """States that the secret which the creation of an entity has shown is stored elsewhere."""

    __slots__ = ()
    op = "delivered"


OPERATION_CLASSES: Mapping[Op, type[PackedOperation]] = {
    each.op: each
    for each in (
        CreateOperation,
        UpdateOperation,
        AdoptOperation,
        DeleteOperation,
        RenameOperation,
        ReleaseOperation,
        DeliveredOperation,
    )
}


@dataclass(frozen=True, slots=True)
class PackedChangeset:
    """A changeset. Its members are those of `Changeset`."""

    base_revision: int
    owner: str
    plan_digest: str
    source: Source
    operations: Sequence[PackedOperation]

    @classmethod
    def of(cls, header: ChangesetHeader, operations: Sequence[PackedOperation]) -> "PackedChangeset":
        """The changeset of a header and its operations."""
        return cls(header.base_revision, header.owner, header.plan_digest, header.source, operations)


@dataclass
class Packer:
    """Turns the operations of one changeset into their classes; equal zones are shared."""

    _zones: dict[tuple[str | None, str | None], Pointer] = field(default_factory=dict)

    def pack(self, operation: Operation) -> PackedOperation:
        """The operation as a value of its class, its spec as JSON text."""
        zone = operation.zone
        return OPERATION_CLASSES[operation.op](
            kind=intern(operation.kind),
            id=operation.id,
            local_id=operation.local_id,
            zone=self._zones.setdefault((zone.id, zone.local_id), zone) if zone is not None else None,
            name=operation.name,
            fields=tuple(map(intern, operation.fields)),
            secret_versions=operation.secret_versions,
            protect=operation.protect,
            packed_spec=to_json(operation.spec),
            place=(intern(place.file), place.line) if (place := operation.source) is not None else None,
        )


def packed(changeset: Changeset) -> PackedChangeset:
    """The whole changeset, packed."""
    packer = Packer()
    return PackedChangeset.of(changeset, [packer.pack(each) for each in changeset.operations])

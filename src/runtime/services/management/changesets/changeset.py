"""A changeset while it is carried out: what its operations write is held as JSON text.

As Python values 100,000 operations take a quarter of a gigabyte, and the collector of unused memory, which
looks at each of them again and again, a third of the time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any, cast

from pydantic_core import from_json, to_json

from runtime.contract.changes import Changeset, Envelope, Op, Operation, Pointer, Source


@dataclass(frozen=True, slots=True)
class PackedOperation:
    """One step of a changeset. Its members are those of `Operation`."""

    op: Op
    kind: str
    id: str | None
    local_id: str | None
    zone: Pointer | None
    name: str | None
    fields: tuple[str, ...]
    secret_versions: Mapping[str, str]
    protect: bool | None
    packed_spec: bytes

    @property
    def spec(self) -> dict[str, Any]:
        """What it writes: a new value each time."""
        return cast(dict[str, Any], from_json(self.packed_spec))

    def as_json(self) -> dict[str, Any]:
        """The operation as it was sent, with every member."""
        return {
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


@dataclass(frozen=True, slots=True)
class PackedChangeset:
    """A changeset. Its members are those of `Changeset`."""

    base_revision: int
    owner: str
    plan_digest: str
    source: Source
    operations: Sequence[PackedOperation]

    @classmethod
    def of(cls, envelope: Envelope, operations: Sequence[PackedOperation]) -> "PackedChangeset":
        """What stands in an envelope, with these operations."""
        return cls(envelope.base_revision, envelope.owner, envelope.plan_digest, envelope.source, operations)


@dataclass
class Packer:
    """Packs the operations of one changeset: what many of them have in common they share."""

    _zones: dict[tuple[str | None, str | None], Pointer] = field(default_factory=dict)

    def pack(self, operation: Operation) -> PackedOperation:
        """The operation with its spec as text."""
        zone = operation.zone
        return PackedOperation(
            op=operation.op,
            kind=intern(operation.kind),
            id=operation.id,
            local_id=operation.local_id,
            zone=self._zones.setdefault((zone.id, zone.local_id), zone) if zone is not None else None,
            name=operation.name,
            fields=tuple(map(intern, operation.fields)),
            secret_versions=operation.secret_versions,
            protect=operation.protect,
            packed_spec=to_json(operation.spec),
        )


def packed(changeset: Changeset) -> PackedChangeset:
    """The whole changeset, packed."""
    packer = Packer()
    return PackedChangeset.of(changeset, [packer.pack(each) for each in changeset.operations])

"""Replacements: what is deleted before something like it is created, and the references to it."""

from collections.abc import Mapping

from reconciler.kinds import Entity, Kind, Origin, Ownership

from .member_values import identity
from .operations import WriteOperation, with_place


def exclusive_place(
    kind: Kind, zone_id: str | None, values: Mapping[str, object]
) -> tuple[str, str | None, bytes | str] | None:
    """What only one entity can have that never changes; None for kinds whose handles can change hands."""
    if kind.handle is None:
        return kind.name, zone_id, identity(kind, values)
    handle = values.get(kind.handle) if kind.leaf(kind.handle).fixed else None
    return (kind.name, zone_id, handle) if isinstance(handle, str) else None


def unlinking_update(
    found: Entity, record: Ownership, cleared: Mapping[str, object], origin: Origin
) -> WriteOperation:
    """The operation that clears references of an entity to what is replaced; its record stays.

    Args:
        origin: where its manifest is.
    """
    operation = WriteOperation(
        op="update",
        kind=found.kind,
        id=found.id,
        name=record.name,
        spec=dict(cleared),
        fields=sorted(record.fields),
        secret_versions=dict(record.secret_versions),
        protect=record.protect,
    )
    if found.zone_id:
        operation["zone"] = {"id": found.zone_id}
    return with_place(operation, origin)

"""Phase: wrap the data keys of zones that a changeset makes, or gives another key, before its transaction."""

from runtime.domain.kinds import ZONE
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import (
    ChangeOperation,
    CreateOperation,
    PackedChangeset,
)
from runtime.services.management.changesets.problems import at_operation
from runtime.services.management.kind_handlers import zones_made
from runtime.services.management.zones import key_changes
from runtime.services.zone_keys import KeyChange, PreparedKeys, PreparedZone


async def prepare_keys(services: Services, acting: Caller, changeset: PackedChangeset) -> PreparedKeys:
    """The keys of the changeset's zones. Each key-encryption key was tried.

    Raises: ValidationFailed for the first that may not be used; Unavailable.
    """
    new_zones: list[PreparedZone] = []
    changes: dict[str, KeyChange] = {}
    for index, operation in enumerate(changeset.operations):
        if operation.kind != ZONE.name:
            continue
        with at_operation(index, operation):
            if isinstance(operation, CreateOperation):
                number = zones_made(acting, ZONE)
                new_zones += await key_changes.for_new_zones(services, operation.spec, number)
            elif isinstance(operation, ChangeOperation) and operation.id is not None:
                prepared = await key_changes.for_update(services, acting, ZONE, operation.id, operation.spec)
                changes |= prepared.changes if prepared is not None else {}
    return PreparedKeys(new_zones, changes)


def zones_of(changeset: PackedChangeset) -> set[str]:
    """The ids of the zones that a changeset names."""
    found = {
        operation.id if operation.kind == ZONE.name else operation.zone and operation.zone.id
        for operation in changeset.operations
    }
    return {zone_id for zone_id in found if zone_id}

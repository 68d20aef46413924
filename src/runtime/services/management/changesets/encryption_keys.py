"""Phase: wrap the data keys of zones that a changeset makes, or gives another key, before its transaction.

So no transaction waits for a key-management service, nor does one of the few connections for dry runs, which
whoever may read a zone may have.
"""

from collections.abc import Collection

from runtime.domain.kinds import ZONE
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.management.access.caller import Caller
from runtime.services.management.changesets.changeset import (
    ChangeOperation,
    CreateOperation,
    PackedChangeset,
)
from runtime.services.management.changesets.problems import at_operation
from runtime.services.management.kind_handlers import zones_made
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import key_changes
from runtime.services.zone_keys import KeyChange, PreparedKeys, PreparedZone
from runtime.storage.sql import entities as storage


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


async def keys_given(unit: UnitOfWork, changeset: PackedChangeset) -> set[str | None]:
    """The ARNs of the keys that a changeset gives to zones with other ones; None is the service's key."""
    patches = {
        operation.id: operation.spec
        for operation in changeset.operations
        if operation.kind == ZONE.name and isinstance(operation, ChangeOperation) and operation.id is not None
    }
    within = {"organization_id": unit.organization_id}
    zones = await storage.many(unit.conn, ZONE, list(patches), within=within)
    changed = ((zone.encryption_key, key_changes.wanted(zone, patches[zone.id])) for zone in zones)
    return {zone_keys.arn_of(after) for before, after in changed if before != after}


async def try_keys(
    services: Services, acting: Caller, changeset: PackedChangeset, given: Collection[str | None]
) -> PreparedKeys:
    """What comes of trying the keys of a dry run's zones, each once; the zones themselves begin with others.

    Args:
        given: as `keys_given` has them.
    """
    arns = set(given)
    if zones_made(acting, ZONE):
        arns |= {
            key_changes.arn_in(operation.spec)
            for operation in changeset.operations
            if operation.kind == ZONE.name and isinstance(operation, CreateOperation)
        }
    return PreparedKeys(trials={arn: await key_changes.trial(services, arn) for arn in arns})


def zones_of(changeset: PackedChangeset) -> set[str]:
    """The ids of the zones that a changeset names."""
    found = {
        operation.id if operation.kind == ZONE.name else operation.zone and operation.zone.id
        for operation in changeset.operations
    }
    return {zone_id for zone_id in found if zone_id}

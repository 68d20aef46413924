"""Providers: what differs from the generic operations."""

from runtime.domain.kinds import PROVIDER, Kind, Verb
from runtime.services.management.entities import Parents, for_change, take_away
from runtime.services.management.unit import Unit
from runtime.storage.sql import directory


async def delete(unit: Unit, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove a provider. Its grants go with it; its users stay, and can no longer sign in through it."""
    scope, before = await for_change(unit, PROVIDER, parents, entity_id, Verb.DELETE)
    await directory.detach_provider(unit.conn, zone_id=scope["zone_id"], provider_id=before.id)
    await take_away(unit, PROVIDER, scope, before)
    unit.zones.pop(scope["zone_id"], None)  # its user identity provider may have been this one

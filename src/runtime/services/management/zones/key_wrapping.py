"""Wraps every stored data key with the current key-encryption key, while the service runs.

The data keys stay what they are, so nothing that is sealed with them is touched, and no process notices.
"""

from runtime.adapters.keys.sealing import rewrapped
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.management.access.caller import Actor
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import wrapped_keys as storage

_AT_ONCE = 200


async def rewrap(services: Services, *, by: Actor) -> int:
    """Wrap with the current key what is wrapped with another; of how many zones. It may be run again.

    Raises: SealBroken for what is wrapped with a key that is not known.
    """
    done, after = 0, ""
    while True:
        async with services.database.reading() as conn:
            found = await storage.zones(conn, after=after, limit=_AT_ONCE)
        for zone_id, organization_id, wrapped in found:
            done += await _rewrap_zone(services, zone_id, organization_id, wrapped, by)
        if len(found) < _AT_ONCE:
            break
        after = found[-1][0]
    await _rewrap_service(services)
    return done


async def _rewrap_zone(
    services: Services, zone_id: str, organization_id: str, wrapped: bytes, by: Actor
) -> bool:
    anew = rewrapped(services.key_encryption, wrapped, bound_to=zone_keys.data_key_place(zone_id))
    if anew is None:
        return False
    async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
        await unit.lock_organization()
        if not await storage.replace_of_zone(unit.conn, zone_id, wrapped, anew):
            return False  # the zone is gone, or another command was here
        await unit.audit.append("keys.rewrap", ZONE.name, zone_id, zone_id, before=None, after={})
    return True


async def _rewrap_service(services: Services) -> None:
    async with services.database.transaction() as conn:
        for name, wrapped in (await storage.of_service(conn)).items():
            anew = rewrapped(services.key_encryption, wrapped, bound_to=f"service_secrets/{name}")
            if anew is not None:
                await storage.replace_of_service(conn, name, wrapped, anew)

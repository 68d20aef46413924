"""Wraps every stored data key with the key that is meant for it, while the service runs.

That is the zone's own key-encryption key or the service's, in its newest version. The data keys stay what
they are, so nothing that is sealed with them is touched, and no process notices.
"""

from dataclasses import dataclass

from runtime.adapters.keys.wrapping import KeyRefused, KeyUnreachable
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ZONE
from runtime.services.container import Services
from runtime.services.data_keys import binding_of, binding_of_secret
from runtime.services.management.access.caller import Actor
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import wrapped_keys as storage
from runtime.storage.sql.wrapped_keys import WrappedOfZone

_AT_ONCE = 200


@dataclass(frozen=True)
class Rewrapped:
    """What became of the stored keys.

    Attributes:
        zones: how many zones have their data key wrapped anew.
        skipped: zone id -> why its data key could not be: its key-encryption key is not available.
    """

    zones: int
    skipped: dict[str, str]


async def rewrap(services: Services, *, by: Actor) -> Rewrapped:
    """Wrap with the key that is meant for it what is wrapped with another. It may be run again.

    Raises:
        SealBroken: something is wrapped with a key of this machine that is not known.
        KeyRefused, KeyUnreachable: of the service's own secrets.
    """
    done, skipped, after = 0, dict[str, str](), ""
    while True:
        async with services.database.reading() as conn:
            found = await storage.zones(conn, after=after, limit=_AT_ONCE)
        for each in found:
            try:
                done += await _rewrap_zone(services, each, by)
            except (KeyRefused, KeyUnreachable) as failure:
                skipped[each.zone_id] = str(failure)
        if len(found) < _AT_ONCE:
            break
        after = found[-1].zone_id
    await _rewrap_service(services)
    return Rewrapped(done, skipped)


async def _rewrap_zone(services: Services, of: WrappedOfZone, by: Actor) -> bool:
    anew = await services.key_encryption.rewrapped(of.stored, binding_of(of.zone_id), arn=of.arn)
    if anew is None:
        return False
    async with unit_of_work(services, by.within(of.organization_id), new_id()) as unit:
        await unit.lock_organization()
        if not await storage.replace_of_zone(unit.conn, of.zone_id, of.stored, anew):
            return False  # the zone is gone, or another command was here
        await unit.audit.append("keys.rewrap", ZONE.name, of.zone_id, of.zone_id, before=None, after={})
    return True


async def _rewrap_service(services: Services) -> None:
    async with services.database.reading() as conn:
        stored = await storage.of_service(conn)
    for name, wrapped in stored.items():
        anew = await services.key_encryption.rewrapped(wrapped, binding_of_secret(name))
        if anew is not None:
            async with services.database.transaction() as conn:
                await storage.replace_of_service(conn, name, wrapped, anew)

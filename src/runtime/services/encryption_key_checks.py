"""The check of the key-encryption keys that are in use, for `zoned doctor`: can each be used now?"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from runtime.adapters.keys.sealing import SealBroken, new_data_key
from runtime.adapters.keys.wrapping import LOCAL, KeyRefused, KeyUnreachable, WrappedKey
from runtime.services.container import Services
from runtime.services.data_keys import binding_of, binding_of_secret
from runtime.storage.sql import wrapped_keys as storage
from runtime.storage.sql.wrapped_keys import WrappedOfZone

_PAGE, _AT_ONCE = 200, 8


@dataclass(frozen=True)
class UnavailableKey:
    """A key-encryption key that cannot be used.

    Attributes:
        key: its name, as settings have it.
        reason: what its service says, or that it says nothing.
        is_refused: it was refused; otherwise its service cannot be reached.
        zone_ids: zones whose data key it would have to unwrap, in their order.
    """

    key: str
    reason: str
    is_refused: bool
    zone_ids: tuple[str, ...] = ()


async def unavailable_keys(services: Services) -> list[UnavailableKey]:
    """The keys that cannot be used: the service's own, and those that data keys of zones are wrapped with."""
    keys, found = services.key_encryption, dict[tuple[str, str, bool], list[str]]()
    if not keys.waits:
        return []
    binding = binding_of_secret("check")
    try:
        await keys.unwrap(await keys.wrap(new_data_key(), binding), binding)
    except (KeyRefused, KeyUnreachable, SealBroken) as failure:
        found[keys.current.name, str(failure), not isinstance(failure, KeyUnreachable)] = []
    async for page in _pages(services):
        for first in range(0, len(page), _AT_ONCE):
            some = page[first : first + _AT_ONCE]
            known = {key: (reason, refused) for key, reason, refused in found if not refused}
            told = await asyncio.gather(*(_problem(services, each, known) for each in some))
            for zone, problem in zip(some, told, strict=True):
                if problem is not None:
                    found.setdefault(problem, []).append(zone.zone_id)
    return [
        UnavailableKey(key, reason, refused, tuple(zones)) for (key, reason, refused), zones in found.items()
    ]


async def _problem(
    services: Services, zone: WrappedOfZone, unreachable: Mapping[str, tuple[str, bool]]
) -> tuple[str, str, bool] | None:
    """Key, reason and whether it is refused; what is known to be unreachable is not asked again."""
    name = WrappedKey.read(zone.stored).key
    if name == LOCAL:
        return None
    if name in unreachable:
        return (name, *unreachable[name])
    try:
        await services.key_encryption.unwrap(zone.stored, binding_of(zone.zone_id))
    except (KeyRefused, KeyUnreachable, SealBroken) as failure:
        return name, str(failure), not isinstance(failure, KeyUnreachable)
    return None


async def _pages(services: Services) -> AsyncIterator[list[WrappedOfZone]]:
    after = ""
    while True:
        async with services.database.querying() as conn:
            page = await storage.zones(conn, after=after, limit=_PAGE)
        yield page
        if len(page) < _PAGE:
            return
        after = page[-1].zone_id

"""The job that refreshes upstream tokens ahead of their expiry, so that nobody waits for a provider.

Only those that were handed out within an hour, at a fifth of their life or a minute before they end. A token
that nobody uses is refreshed when somebody asks for it again.
"""

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from time import monotonic

from runtime.domain.errors import NotFound
from runtime.logs import throttled_warnings
from runtime.services.container import Services
from runtime.services.vault.refresh import refresh
from runtime.storage.sql import vault_tokens
from runtime.storage.sql.vault_tokens import VaultPlace, VaultRecord

JOB = "upstream_refresh"
IN_USE = timedelta(hours=1)
MOST = 500  # in one run; what is left is for the next
AT_A_TIME = 20
OF_A_ZONE = 5  # of these: however slow the providers of one are, those of others are asked
_BEGIN_SECONDS = 25.0  # then the next run looks again who is due, and who is first
_FORGOTTEN_AT_ONCE = 1_000


async def run(services: Services) -> int:
    """Refresh what is due and in use; how many tokens that were."""
    now = services.clock()
    await _forget_uses(services, now)
    async with services.database.querying() as conn:
        places = await vault_tokens.due(conn, now=now, used_since=now - IN_USE, limit=MOST)
    until, turns = monotonic() + _BEGIN_SECONDS, asyncio.Semaphore(AT_A_TIME)
    turns_of_zone = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(OF_A_ZONE))

    async def refreshed(place: VaultPlace) -> bool:
        async with turns_of_zone[place.zone_id], turns:
            return monotonic() < until and await _refreshed(services, place)

    return sum(await asyncio.gather(*map(refreshed, places)))


async def _forget_uses(services: Services, now: datetime) -> None:
    """Forget the uses of what nobody has used for an hour: it is refreshed when somebody asks for it."""
    forgotten = _FORGOTTEN_AT_ONCE
    while forgotten == _FORGOTTEN_AT_ONCE:
        async with services.database.transaction() as conn:
            forgotten = await vault_tokens.forget_uses(
                conn, before=now - IN_USE, now=now, limit=_FORGOTTEN_AT_ONCE
            )


async def _refreshed(services: Services, place: VaultPlace) -> bool:
    try:
        zone = await services.zones.get(place.zone_id)
        task, _ = services.upstream_refreshes.start(place, lambda: refresh(services, zone, place))
        return isinstance(await asyncio.shield(task), VaultRecord)
    except NotFound:
        return False  # its zone has gone meanwhile
    except Exception as failure:  # noqa: BLE001 - one grant must not keep the others from being refreshed
        throttled_warnings.warn(
            "an upstream token was not refreshed", reason=type(failure).__name__, zone_id=place.zone_id
        )
        return False

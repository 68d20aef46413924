"""Clients that registered themselves and that nobody has used for long: forgotten, with all that was theirs.

One that comes back registers again, or is read from its document again, and its users are asked again.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from runtime.services.exchange import epochs
from runtime.storage.sql import exchange, user_agents

if TYPE_CHECKING:
    from runtime.services.parts import Parts

UNUSED = timedelta(days=30)
_BATCH = 500


async def run(parts: "Parts") -> int:
    """Forget those without a session or refresh token that still works; how many that were."""
    forgotten = 0
    while True:
        now = parts.clock()
        async with parts.database.transaction() as conn:
            zones = await user_agents.forget_unused(conn, before=now - UNUSED, now=now, limit=_BATCH)
            bumped = {
                epochs.zone_key(zone_id): await exchange.bump_zone(conn, zone_id) for zone_id in set(zones)
            }
        await epochs.publish(parts.state, bumped)
        forgotten += len(zones)
        if len(zones) < _BATCH:
            return forgotten

"""The job that deletes dynamically registered clients which nobody has used for 30 days.

One that comes back registers again, or is read from its document again, and its users are asked again.
"""

from datetime import timedelta

from runtime.domain.oauth.decision_events import DecisionEvent
from runtime.services import epochs
from runtime.services.authority import session_end_events
from runtime.services.authority.session_end_events import SessionEndEvent
from runtime.services.container import Services
from runtime.storage.sql import user_agents, zone_data

UNUSED = timedelta(days=30)
_BATCH = 500


async def run(services: Services) -> int:
    """Forget those without a session or refresh token that still works; how many that were."""
    forgotten = 0
    while True:
        now = services.clock()
        async with services.epochs.transaction() as (conn, bumped):
            gone = await user_agents.forget_unused(conn, before=now - UNUSED, now=now, limit=_BATCH)
            lost = [
                SessionEndEvent(
                    event=DecisionEvent.CLIENT_FORGOTTEN,
                    organization_id=organization_id,
                    zone_id=zone_id,
                    user_agent_id=client_id,
                )
                for organization_id, zone_id, client_id in gone
            ]
            await session_end_events.record(conn, lost, now=now)
            for zone_id in {zone_id for _, zone_id, _ in gone}:
                bumped[epochs.zone_key(zone_id)] = await zone_data.bump_zone(conn, zone_id)
        forgotten += len(gone)
        if len(gone) < _BATCH:
            return forgotten

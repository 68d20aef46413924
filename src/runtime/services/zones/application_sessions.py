"""The sessions of applications that act on their own behalf, as tokens name them."""

from runtime.services import cache_sizes
from runtime.services.zones.tagged_cache import ChangeHistory, ReadThroughCache
from runtime.storage.sql import sessions as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.sessions import SessionRecord


class ApplicationSessionCache:
    """Sessions of applications of one zone. Whoever ends one changes the zone's epoch."""

    def __init__(self, database: Database, zone_id: str, history: ChangeHistory) -> None:
        self._zone_id = zone_id
        self._by_id: ReadThroughCache[SessionRecord] = ReadThroughCache(
            database, cache_sizes.SESSIONS, history
        )

    async def get(self, session_id: str) -> SessionRecord | None:
        """The session of that id, whatever its status; None when it is gone, or a user's."""
        found = await self._by_id.read(
            session_id,
            lambda conn: storage.find(conn, session_id, zone_id=self._zone_id),
            lambda session: {session.id},
        )
        return found if found is not None and found.session_type == storage.CLIENT_CREDENTIALS else None

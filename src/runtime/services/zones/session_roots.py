"""The root sessions of token chains, each with its user."""

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds.role import User
from runtime.services import cache_sizes
from runtime.services.epochs import Epochs, RevalidationWindow
from runtime.services.zones.principals import Principal, SessionRoot, principal_of
from runtime.services.zones.tagged_cache import ChangeHistory, TaggedCache
from runtime.storage.sql import revocations
from runtime.storage.sql import session_roots as storage
from runtime.storage.sql.database import Database
from runtime.storage.sql.session_roots import NO_MEMBERSHIPS


class SessionRootCache:
    """The session roots and the principals of one zone, each valid while its epochs are."""

    def __init__(
        self,
        database: Database,
        epochs: Epochs,
        zone_id: str,
        read: RevalidationWindow,
        history: ChangeHistory,
    ) -> None:
        """Args:
        read: when the zone was read.
        """
        self._database = database
        self._epochs = epochs
        self._zone_id = zone_id
        self._zone_read = read
        self._history = history
        self._roots: TaggedCache[SessionRoot] = TaggedCache(cache_sizes.SESSIONS, history)
        self._principals: TaggedCache[Principal] = TaggedCache(cache_sizes.USERS, history)

    def cached(self, session_id: str) -> SessionRoot | None:
        """The root of that session as it was last read; whether it is still valid, epochs tell."""
        return self._roots.get(session_id)

    async def read(self, session_id: str) -> SessionRoot | None:
        """The root of that session from the database; None when the session is gone."""
        as_of = self._history.epoch
        # The epochs are read first: what is read after them can only be newer than they say.
        async with self._database.querying() as conn:
            found = await storage.session(conn, self._zone_id, session_id)
            if found is None:
                self._roots.pop(session_id, None)
                return None
            session, user, extent = found
            delegated = await storage.delegated(conn, self._zone_id, user.id) if extent.has_delegated else ()
            principal = await self._principal(
                conn, user, as_of, own_policies=extent.own_policies, has_memberships=extent.has_memberships
            )
            withdrawn = {}
            if extent.has_withdrawn:
                withdrawn = await revocations.withdrawn_in_session(conn, self._zone_id, session_id)
            root = SessionRoot(session, principal, delegated, withdrawn)
        client = {each for each in (session.application_id, session.user_agent_id) if each is not None}
        self._roots.keep(session_id, root, principal.cache_tags | client, as_of=as_of)
        return root

    async def get(self, session_id: str) -> SessionRoot | None:
        """The root of that session, from the cache when its epochs say that it is valid."""
        cached = self._roots.get(session_id)
        if cached is not None:
            (session_epoch, user_epoch), _ = await self._epochs.latest(cached.epoch_names)
            if (
                self._zone_read.is_followed()
                and session_epoch is not None
                and user_epoch is not None
                and session_epoch <= cached.session.epoch
                and user_epoch <= cached.principal.user.epoch
            ):
                return cached
        return await self.read(session_id)

    async def principal(self, user: User) -> Principal:
        """The principal of a user who was read in this request."""
        cached = self._principals.get(user.id)
        if cached is not None and cached.user.epoch == user.epoch:
            return cached
        as_of = self._history.epoch
        async with self._database.querying() as conn:
            own = await storage.own_policies(conn, self._zone_id, user.id)
            return await self._principal(conn, user, as_of, own_policies=own)

    async def _principal(
        self,
        conn: AsyncConnection,
        user: User,
        as_of: int,
        *,
        own_policies: str | None,
        has_memberships: bool = True,
    ) -> Principal:
        """A user just read, as principal; groups and roles are cached until the user's epoch moves."""
        cached = self._principals.get(user.id)
        if cached is None or cached.user.epoch != user.epoch:
            found = NO_MEMBERSHIPS
            if has_memberships:
                found = await storage.memberships(conn, user.zone_id, user.id)
            cached = principal_of(user, found, own_policies)
            self._principals.keep(user.id, cached, cached.cache_tags, as_of=as_of)
        return cached

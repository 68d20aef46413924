"""Records when credentials of applications were last used, at most once a minute and behind the answer."""

import asyncio
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.client_types import ApplicationClient, Client
from runtime.services.container import Services
from runtime.services.zones import ASKED
from runtime.storage.sql import client_ids

_RECORDED_EVERY = timedelta(minutes=1)


class LastUsedRecorder:
    """Writes `last_used_at` of credentials, in tasks of its own."""

    def __init__(self) -> None:
        self._recorded: BoundedCache[datetime] = BoundedCache(cache_sizes.CREDENTIALS_IN_USE)
        # Kept here so that they are not collected before they have run.
        self._writes: set[asyncio.Task[None]] = set()

    def record(self, services: Services, client: Client, now: datetime) -> None:
        """Have it recorded that a client has authenticated now; a public one has proved nothing.

        Nor is it kept of clients that registered themselves, which anybody can do again and again.
        """
        if not isinstance(client, ApplicationClient):
            return
        if (asked := ASKED.get()) is not None:
            asked.client_id = client.client_id
        if client.is_public:
            return
        credential = client.credential
        last = self._recorded.get(credential.id) or credential.last_used_at
        if last is not None and now - last < _RECORDED_EVERY:
            return
        self._recorded[credential.id] = now
        write = asyncio.get_running_loop().create_task(_write(services, client, now))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)

    async def written(self) -> None:
        """Wait for what is being written."""
        if self._writes:
            await asyncio.wait(self._writes)


async def _write(services: Services, client: ApplicationClient, now: datetime) -> None:
    """Where it cannot be written, the log says so: the request is answered already."""
    application, credential_id = client.application, client.credential.id
    try:
        async with services.database.transaction(tenant=application.organization_id) as conn:
            await client_ids.record_use(
                conn, application.zone_id, credential_id, now=now, every=_RECORDED_EVERY
            )
    except (SQLAlchemyError, Unavailable) as failure:
        reason = type(failure).__name__
        log.warning("use of a client credential not recorded", credential_id=credential_id, reason=reason)


# One for all endpoints, like the throttle.
LAST_USED = LastUsedRecorder()

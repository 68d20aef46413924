"""Records who still asks at a former address of a zone, at most once an hour and behind the answer.

Whoever runs the service reads it before the move is ended: `zoned zone addresses`.
"""

import asyncio
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from runtime.domain.errors import Unavailable
from runtime.logs import log
from runtime.metrics import FORMER_ADDRESSES
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.services.container import Services
from runtime.services.zones import AskedAddress
from runtime.storage.sql import zone_addresses

_RECORDED_EVERY = timedelta(hours=1)
_Use = tuple[str, str, str, str]  # zone, issuer, endpoint, client id or nothing


class AddressUseRecorder:
    """Counts the requests to former addresses, and writes who made them, in tasks of its own."""

    def __init__(self) -> None:
        self._recorded: BoundedCache[datetime] = BoundedCache(cache_sizes.ADDRESS_USES)
        # Kept here so that they are not collected before they have run.
        self._writes: set[asyncio.Task[None]] = set()

    def record(self, services: Services, asked: AskedAddress, uri: str) -> None:
        """Have it recorded that a request was sent to a former address.

        Args:
            uri: the endpoint, below the issuer.
        """
        FORMER_ADDRESSES.inc()
        use = asked.zone_id, asked.former or "", uri.strip("/"), asked.client_id or ""
        now, key = services.clock(), "\n".join(use)
        last = self._recorded.get(key)
        if last is not None and now - last < _RECORDED_EVERY:
            return
        self._recorded[key] = now
        write = asyncio.get_running_loop().create_task(_write(services, use, now))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)

    async def written(self) -> None:
        """Wait for what is being written."""
        if self._writes:
            await asyncio.wait(self._writes)


async def _write(services: Services, use: _Use, now: datetime) -> None:
    """Where it cannot be written, the log says so: the request is answered already."""
    try:
        async with services.database.transaction() as conn:
            await zone_addresses.record_use(conn, *use, now=now)
    except (SQLAlchemyError, Unavailable) as failure:
        reason = type(failure).__name__
        log.warning("use of a former address not recorded", zone_id=use[0], reason=reason)


# One for all endpoints.
ADDRESS_USES = AddressUseRecorder()

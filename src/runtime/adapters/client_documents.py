"""Client ID metadata documents and protected resource metadata of others: fetched, and cached.

What a document means is not known here: it may be a client's metadata or a protected resource's.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from runtime.adapters.outbound import Outbound, OutboundFailed, pause_after
from runtime.adapters.shared_fetch import SharedFetch

MAX_BYTES = 10 * 1024
MIN_SECONDS = 30
MAX_SECONDS = 86_400
UNTOLD_SECONDS = 300  # where the site says nothing about caching


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """A document, and how long it may be used again."""

    document: Mapping[str, Any]
    lifetime_seconds: float


class ClientDocuments:
    """The documents of others. A failure is remembered for seconds, for those who take what is remembered.

    Args:
        clock: seconds, never going back.
        now: the present, to compare with the dates that sites write.
    """

    def __init__(
        self,
        outbound: Outbound,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._outbound = outbound
        self._now = now
        self._documents: SharedFetch[ClientDocument] = SharedFetch(
            lifetime_seconds=MIN_SECONDS, failure_lifetime=pause_after, clock=clock
        )

    async def get(self, address: str, *, partition: str, remembered: bool = True) -> ClientDocument:
        """The JSON object at an address, from a 200 answer without redirects, of at most 10 KB.

        Args:
            partition: the zone that asks: its fetches do not hold up another's.
            remembered: whether one that was fetched before will do, as long as its lifetime lasts, and so
                will a failure.
        Raises: OutboundRefused; OutboundFailed.
        """

        async def fetch() -> ClientDocument:
            found = await self._outbound.get_json(address, max_bytes=MAX_BYTES, partition=partition)
            if not isinstance(found.json, Mapping):
                raise OutboundFailed("the document is not a JSON object", temporary=False)
            return ClientDocument(found.json, lifetime_of(found.headers, self._now()))

        return await self._documents.get(
            address,
            fetch,
            partition=partition,
            lifetime=lambda found: found.lifetime_seconds,
            newer_than_seconds=None if remembered else 0,
        )


def lifetime_of(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds that an answer may be used again by what its headers say, within bounds of our own.

    Args:
        headers: names in lower case.
    Spec: RFC 9111 sections 4.2 and 5.2.2.
    """
    directives = [each.strip().lower() for each in headers.get("cache-control", "").split(",")]
    if "no-store" in directives or "no-cache" in directives:
        return MIN_SECONDS
    told = next((each[8:].strip('"') for each in directives if each.startswith("max-age=")), None)
    if told is not None:
        age = headers.get("age", "0")
        seconds: float = _number(told) - _number(age)
    elif "expires" in headers:
        seconds = _until(headers["expires"], now)
    else:
        seconds = UNTOLD_SECONDS
    return float(min(max(seconds, MIN_SECONDS), MAX_SECONDS))


def _number(text: str) -> int:
    """A count of seconds; what is none counts as none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _until(date: str, now: datetime) -> float:
    try:
        ends = parsedate_to_datetime(date)
    except ValueError:
        return 0
    return ((ends if ends.tzinfo else ends.replace(tzinfo=UTC)) - now).total_seconds()

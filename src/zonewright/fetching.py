"""Fetches what a zone publishes: JSON objects and signed lists of bounded size, and no redirects."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import httpx

from zonewright.errors import ZoneMisconfigured, ZoneUnreachable

MAX_BYTES = 8 * 1024 * 1024
MAX_SIGNED_BYTES = MAX_BYTES * 4 // 3  # as much, in base64url
TIMEOUT_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # after a failure
LOG_PAUSE_SECONDS = 60.0  # between two messages of one kind about the same document
_OUTAGES = (408, 425, 429)  # of the statuses below 500, those after which the same request may succeed
_MAX_SHOWN_CHARS = 200
_ADVICE = "check the issuer that is configured, and what serves this address"

_log = logging.getLogger("zonewright")


class SharedFailure:
    """The latest failure to fetch something: for a second it is everybody's who asks.

    Requests wait for a fetch that is under way. When the zone hangs, each of them would have to wait for one
    of its own to fail, one after the other. It is logged here, because callers learn nothing but 503.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._latest: ZoneUnreachable | None = None
        self._failed_at = float("-inf")
        self._logged_at: dict[type[ZoneUnreachable], float] = {}

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Fetch in this block, unless that has just failed. Raises ZoneUnreachable."""
        if self._latest is not None and self._clock() - self._failed_at < PAUSE_SECONDS:
            raise type(self._latest)(str(self._latest)) from self._latest
        try:
            yield
        except ZoneUnreachable as failure:
            self._latest, self._failed_at = failure, self._clock()
            self._report(failure)
            raise
        self._latest = None

    def _report(self, failure: ZoneUnreachable) -> None:
        kind = type(failure)
        if self._failed_at - self._logged_at.get(kind, float("-inf")) < LOG_PAUSE_SECONDS:
            return
        self._logged_at[kind] = self._failed_at
        _log.log(logging.ERROR if kind is ZoneMisconfigured else logging.WARNING, "%s", failure)


def new_client() -> httpx.AsyncClient:
    """A client for one zone."""
    return httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False)


async def fetch(http: httpx.AsyncClient, url: str) -> Mapping[str, Any]:
    """The JSON object at an address. Raises ZoneUnreachable; ZoneMisconfigured."""
    body, media_type = await _get(http, url, "application/json")
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as failure:
        raise ZoneMisconfigured(f"{url} answers {shown(media_type)} that is not JSON; {_ADVICE}") from failure
    if not isinstance(document, dict):
        raise ZoneMisconfigured(f"{url} answers JSON that is not an object; {_ADVICE}")
    return document


async def fetch_signed(
    http: httpx.AsyncClient, url: str, media_type: str, *, params: Mapping[str, str]
) -> str:
    """The text of that media type at an address: a JWS, not verified. Raises as `fetch` does."""
    body, _ = await _get(http, url, media_type, params=params, max_bytes=MAX_SIGNED_BYTES)
    return body.decode("latin-1")


async def _get(
    http: httpx.AsyncClient,
    url: str,
    accept: str,
    *,
    params: Mapping[str, str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> tuple[bytes, str]:
    """Body and media type of an answer. Raises ZoneUnreachable; ZoneMisconfigured."""
    try:
        async with http.stream("GET", url, headers={"Accept": accept}, params=params) as answer:
            if answer.status_code != 200:
                raise _failure_of(url, answer)
            return await _read(url, answer, max_bytes), answer.headers.get("content-type", "")
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as failure:
        raise ZoneMisconfigured(f"{shown(url)} is not an address: {shown(failure)}; {_ADVICE}") from failure
    except httpx.HTTPError as failure:
        cause = f"{type(failure).__name__} {shown(failure)}"
        raise ZoneUnreachable(
            f"{url} cannot be fetched: {cause}; check that this server can reach the zone"
        ) from failure


def shown(value: object) -> str:
    """What somebody else has sent, as messages show it: in one line, and not for long."""
    return f"`{ascii(str(value))[1:-1][:_MAX_SHOWN_CHARS]}`"


def _failure_of(url: str, answer: httpx.Response) -> ZoneUnreachable:
    status = answer.status_code
    if status >= 500 or status in _OUTAGES:
        return ZoneUnreachable(f"{url} answers {status}")
    leads_to = f" to {shown(answer.headers['location'])}" if answer.has_redirect_location else ""
    return ZoneMisconfigured(f"{url} answers {status}{leads_to}; {_ADVICE}")


async def _read(url: str, answer: httpx.Response, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > max_bytes:
            raise ZoneUnreachable(f"{url} answers more than {max_bytes} bytes")
    return bytes(body)

"""Fetches what a zone publishes: JSON objects of bounded size, and no redirects."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import httpx

from zonewright.errors import ZoneUnreachable

MAX_BYTES = 8 * 1024 * 1024
TIMEOUT_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # after a failure


@dataclass(frozen=True, slots=True)
class Published:
    """A document and its entity tag; no document when the one of before is still current."""

    document: Mapping[str, Any] | None
    etag: str | None


class SharedFailure:
    """The latest failure to fetch something: for a second it is everybody's who asks.

    Requests wait for a fetch that is under way. When the zone hangs, each of them would have to wait for one
    of its own to fail, one after the other.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._latest: ZoneUnreachable | None = None
        self._failed_at = float("-inf")

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Fetch in this block, unless that has just failed. Raises ZoneUnreachable."""
        if self._latest is not None and self._clock() - self._failed_at < PAUSE_SECONDS:
            raise ZoneUnreachable(str(self._latest)) from self._latest
        try:
            yield
        except ZoneUnreachable as failure:
            self._latest, self._failed_at = failure, self._clock()
            raise
        self._latest = None


def new_client() -> httpx.AsyncClient:
    """A client for one zone."""
    return httpx.AsyncClient(timeout=TIMEOUT_SECONDS, follow_redirects=False)


async def fetch(
    http: httpx.AsyncClient, url: str, *, etag: str | None = None, params: Mapping[str, str] | None = None
) -> Published:
    """The JSON object at an address. Raises ZoneUnreachable."""
    headers = {"Accept": "application/json"} | ({"If-None-Match": etag} if etag else {})
    try:
        async with http.stream("GET", url, headers=headers, params=params) as answer:
            if answer.status_code == 304:
                return Published(None, etag)
            if answer.status_code != 200:
                raise ZoneUnreachable(f"{url} answers {answer.status_code}")
            return Published(_object(url, await _read(url, answer)), answer.headers.get("etag"))
    except httpx.HTTPError as failure:
        raise ZoneUnreachable(f"{url} cannot be fetched: {type(failure).__name__}") from failure


async def _read(url: str, answer: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_BYTES:
            raise ZoneUnreachable(f"{url} answers more than {MAX_BYTES} bytes")
    return bytes(body)


def _object(url: str, body: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as failure:
        raise ZoneUnreachable(f"{url} does not answer JSON") from failure
    if not isinstance(document, dict):
        raise ZoneUnreachable(f"{url} does not answer a JSON object")
    return document

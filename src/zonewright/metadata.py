"""Authorization server metadata of a zone. Spec: RFC 8414 sections 2 and 3."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from zonewright.errors import ZoneMisconfigured
from zonewright.fetching import SharedFailure, fetch, shown


class ZoneMetadata:
    """The metadata of one zone, fetched when it is first needed."""

    def __init__(self, http: httpx.AsyncClient, issuer: str) -> None:
        self.issuer = issuer
        self._http = http
        self._document: Mapping[str, Any] | None = None
        self._failure = SharedFailure()
        self._lock = asyncio.Lock()

    async def endpoint(self, name: str) -> str:
        """The address of an endpoint, `token_endpoint` for one: on the issuer's own origin, or refused.

        Raises: ZoneUnreachable; ZoneMisconfigured.
        """
        async with self._lock:
            with self._failure.shared():
                document = self._document or await self._fetched()
                address = self._endpoint(document, name)
                self._document = document  # one without the endpoint is fetched again, until it is mended
                return address

    async def find_endpoint(self, name: str) -> str | None:
        """As `endpoint`, for one that a zone need not have: None where the metadata does not name it."""
        async with self._lock:
            with self._failure.shared():
                self._document = document = self._document or await self._fetched()
                return None if document.get(name) is None else self._endpoint(document, name)

    async def _fetched(self) -> Mapping[str, Any]:
        # A slash at the end is no part of the path: RFC 8414 section 3.1.
        url = f"{self.issuer.rstrip('/')}/.well-known/oauth-authorization-server"
        document = await fetch(self._http, url)
        if (found := document.get("issuer")) != self.issuer:  # section 3.3
            raise ZoneMisconfigured(
                f"the metadata at {url} has the issuer {shown(found)}, configured is {shown(self.issuer)}: "
                f"{_advice(found, self.issuer)}"
            )
        return document

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        address = document.get(name)
        if not isinstance(address, str) or _origin(address) != _origin(self.issuer):
            raise ZoneMisconfigured(
                f"the metadata of {self.issuer} has the `{name}` {shown(address)}, which is not at the origin"
                " of the issuer; check the public address of the zone"
            )
        return address


def _advice(found: object, configured: str) -> str:
    if isinstance(found, str) and found.rstrip("/") == configured.rstrip("/"):
        return "they differ in the trailing slash alone; configure the issuer exactly as the metadata has it"
    return "configure the issuer of the zone that is meant, exactly as its metadata has it"


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc

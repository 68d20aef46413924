"""Authorization server metadata of a zone. Spec: RFC 8414."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from zonewright.errors import ZoneUnreachable
from zonewright.fetching import SharedFailure, fetch


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

        Raises: ZoneUnreachable.
        """
        address = (await self._get()).get(name)
        if not isinstance(address, str) or _origin(address) != _origin(self.issuer):
            raise ZoneUnreachable(f"the metadata of {self.issuer} has no `{name}` at the issuer's origin")
        return address

    async def _get(self) -> Mapping[str, Any]:
        async with self._lock:
            if self._document is None:
                with self._failure.shared():
                    self._document = await self._fetched()
            return self._document

    async def _fetched(self) -> Mapping[str, Any]:
        found = await fetch(self._http, f"{self.issuer}/.well-known/oauth-authorization-server")
        document = found.document or {}
        if document.get("issuer") != self.issuer:  # section 3.3
            raise ZoneUnreachable(f"the metadata of {self.issuer} has another `issuer`")
        return document


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc

"""The demo's tool server, calendar-tools: verifies the token of each call with the library `zonewright`."""

import asyncio

import httpx

from zonewright import AccessToken, RequestRefused, Verifier

LIST_SECONDS = 0.3  # how old the revocation list may be; left out, a second


class ToolServer:
    """A resource server of a zone, as far as its callers' tokens go: the demo tells the rest of its story.

    The library fetches the zone's metadata, keys and revocation list when they are needed.
    """

    def __init__(self, issuer: str, resource: str) -> None:
        self._resource = resource
        self._runner = asyncio.Runner()
        self._http = httpx.AsyncClient(timeout=10, trust_env=False)
        self._verifier = Verifier(issuer, resource, revocations_max_age_seconds=LIST_SECONDS, http=self._http)

    def verified(self, token: str) -> AccessToken:
        """Who calls, and for whom. Raises RequestRefused."""
        header = f"Bearer {token}"
        return self._runner.run(self._verifier.authenticate(header, method="POST", url=self._resource))

    def status_of_call(self, token: str) -> int:
        """The status that a call with this token is answered with."""
        try:
            self.verified(token)
        except RequestRefused as refused:
            return refused.status
        return 200

    def close(self) -> None:
        """Close the connections to the zone."""
        self._runner.run(self._http.aclose())
        self._runner.close()

"""A tool server that speaks MCP and takes tokens of a zone: two tools, and a scope for each.

    python examples/notes.py RESOURCE ISSUER [CALENDAR]

RESOURCE is where it serves and what its tokens are for, `http://127.0.0.1:8700/mcp` for one. The public MCP
library does the protocol, and `zonewright` verifies tokens; what is shown here is what makes a server part of
a zone: the metadata that names the zone, verified tokens, and the answer that asks for more when a token
lacks a scope.

With CALENDAR there is a third tool, which calls another API for the user. CALENDAR is the API's address and
its identifier in the zone; the tool server's own application has to declare it as a dependency, and its
credential is in CLIENT_ID and CLIENT_SECRET.
"""

import json
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

from zonewright import ExchangeClient, RequestRefused, ScopeRequired, UserAuthorizationRequired, Verifier
from zonewright.asgi import RetryLater
from zonewright.mcp import McpTokens, connect_required

READ, WRITE = "notes.read", "notes.write"
Scope, Message = MutableMapping[str, Any], MutableMapping[str, Any]
Receive, Send = Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class AskForMore:
    """Answers 403 to a call whose token lacks the scope of its tool, and names the scopes that would do."""

    def __init__(self, app: App, verifier: Verifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if _tool(body) == "add_note" and await self._lacks(scope):
            await self._refuse(send)
            return
        read = False

        async def again() -> Message:
            nonlocal read
            if read:
                return await receive()
            read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)

    async def _lacks(self, scope: Scope) -> bool:
        """Tell whether a token that is good lacks the scope; one that is not is refused further on."""
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        try:
            found = await self._verifier.verify(authorization.removeprefix("Bearer "))
        except RequestRefused:
            return False
        return WRITE not in found.scopes

    async def _refuse(self, send: Send) -> None:
        challenge = self._verifier.challenge(ScopeRequired([READ, WRITE]))
        headers = [(b"www-authenticate", challenge.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _tool(body: bytes) -> str | None:
    """The tool that a request calls."""
    try:
        message = json.loads(body)
        return str(message["params"]["name"]) if message["method"] == "tools/call" else None
    except (ValueError, KeyError, TypeError):
        return None


class Calendar:
    """The API behind the third tool, called with a token that the request's token is exchanged for."""

    def __init__(self, address: str, client: ExchangeClient) -> None:
        self._address, self._client = address, client
        self._http = httpx.AsyncClient()

    async def events(self) -> str:
        """What the calendar answers about whoever calls the tool."""
        asking = get_access_token()
        assert asking is not None  # the MCP library lets no request through without one
        try:
            exchanged = await self._client.exchange(asking.token, self._address)
        except UserAuthorizationRequired as required:
            raise connect_required(required) from required
        headers = {"Authorization": f"Bearer {exchanged.access_token}"}
        answer = await self._http.get(self._address, headers=headers)
        return answer.raise_for_status().text


def application(resource: str, issuer: str, calendar: Calendar | None = None) -> App:
    """The tool server as an ASGI application."""
    verifier, notes = Verifier(issuer, resource), ["buy milk"]
    server: MCPServer[Any] = MCPServer(
        "Notes",
        token_verifier=McpTokens(verifier),
        auth=AuthSettings(
            issuer_url=issuer,  # type: ignore[arg-type]  # text is taken
            resource_server_url=resource,  # type: ignore[arg-type]
            required_scopes=[READ],
            validate_token_resource=True,
        ),
        log_level="ERROR",
    )

    @server.tool()
    def list_notes() -> str:
        """Every note, a line each."""
        return "\n".join(notes)

    @server.tool()
    def add_note(text: str) -> str:
        """Keep a note."""
        notes.append(text)
        return f"{len(notes)} notes"

    if calendar is not None:
        server.add_tool(calendar.events, "list_events", description="What is in the user's calendar.")

    app: App = server.streamable_http_app(
        streamable_http_path=urlsplit(resource).path, stateless_http=True, json_response=True
    )
    return RetryLater(AskForMore(app, verifier))


def main() -> int:
    """Serve until interrupted."""
    resource, issuer, *others = sys.argv[1:]
    calendar = None
    if others:
        client_id, secret = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
        calendar = Calendar(others[0], ExchangeClient(issuer, client_id, client_secret=secret))
    port = urlsplit(resource).port or 8700
    uvicorn.run(application(resource, issuer, calendar), host="127.0.0.1", port=port, log_level="error")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The library in servers on the public MCP library and on FastMCP, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import socket
from typing import Any

import httpx
import httpx2
import pytest
import uvicorn
from fastmcp import FastMCP
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from notes import Calendar
from notes import application as notes
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.support.factories import App
from tests.support.waiting import until
from tests.zonewright.conftest import CALENDAR, TOOLS, Site

from runtime.app import listening_socket
from zonewright import ExchangeClient, UserAuthorizationRequired, Verifier
from zonewright.asgi import ProtectedResource, RetryLater
from zonewright.fastmcp import ConnectLinks, request_token
from zonewright.mcp import McpTokens, connect_required

MAIL, SPECIFIED = "https://mail-api.test", "2025-11-25"
LIST: dict[str, Any] = {"method": "tools/list", "params": {}}
METADATA = "https://tools.test/.well-known/oauth-protected-resource/mcp"


async def test_a_token_becomes_the_mcp_librarys_own(site: Site, verifier: Verifier) -> None:
    """With client, scopes, resource and subject."""
    found = await McpTokens(verifier).verify_token(site.token())
    assert found is not None
    assert (found.client_id, found.scopes, found.resource, found.subject) == (
        site.agent.client_id,
        ["notes.read", "notes.write"],
        TOOLS,
        "ada@acme.test",
    )


async def test_a_token_that_is_refused_is_none(site: Site, verifier: Verifier) -> None:
    """The library answers 401 then."""
    assert await McpTokens(verifier).verify_token(site.token())
    assert await McpTokens(verifier).verify_token(site.token(audience=CALENDAR)) is None


def test_the_error_of_a_connect_link_has_it_as_data_alone() -> None:
    """MCP clients show their user a link by that; messages get into logs."""
    error = connect_required(
        UserAuthorizationRequired("connect your calendar", "https://zone.test/connect/1")
    )
    (asked,) = error.elicitations
    assert (error.code, asked.url, asked.message) == (
        -32042,
        "https://zone.test/connect/1",
        "connect your calendar",
    )
    assert str(error) == "connect your calendar"


def in_the_public_library(verifier: Verifier, exchange: ExchangeClient) -> Any:
    """A server that verifies tokens with `McpTokens`."""
    auth = AuthSettings(
        issuer_url=verifier.issuer,  # type: ignore[arg-type]  # text is taken
        resource_server_url=verifier.resource,  # type: ignore[arg-type]
        required_scopes=list(verifier.scopes),
        validate_token_resource=True,
    )
    server: MCPServer[Any] = MCPServer(
        "Tools", token_verifier=McpTokens(verifier), auth=auth, log_level="ERROR"
    )

    @server.tool()
    def who() -> str:
        asking = get_access_token()
        return str(asking and asking.subject)

    @server.tool()
    async def mail() -> str:
        asking = get_access_token()
        assert asking is not None
        return await mail_of(exchange, asking.token)

    return RetryLater(server.streamable_http_app(stateless_http=True, json_response=True))


def in_fastmcp(verifier: Verifier, exchange: ExchangeClient) -> Any:
    """A server behind `ProtectedResource`."""
    server = FastMCP("Tools", middleware=[ConnectLinks()])

    @server.tool
    def who() -> str:
        return request_token().subject

    @server.tool
    async def mail() -> str:
        return await mail_of(exchange, request_token().raw)

    return ProtectedResource(server.http_app(path="/mcp", stateless_http=True, json_response=True), verifier)


SERVERS = {"public library": in_the_public_library, "fastmcp": in_fastmcp}


async def mail_of(exchange: ExchangeClient, token: str) -> str:
    try:
        return (await exchange.exchange(token, MAIL)).access_token
    except UserAuthorizationRequired as required:
        raise connect_required(required) from required


@asynccontextmanager
async def served(app: Any, listening: socket | None = None) -> AsyncIterator[str]:
    """The application over HTTP, at a socket or a new one; its address."""
    listening = listening or listening_socket("127.0.0.1:0")
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    running = asyncio.create_task(server.serve(sockets=[listening]))

    async def is_up() -> bool:
        assert not running.done()
        return server.started

    try:
        await until(is_up)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await running


@dataclass(frozen=True)
class ToolServer:
    """The application of a tool server, its resource, and a token of Ada's for that."""

    app: App
    resource: str
    token: str

    def exchange(self, site: Site) -> ExchangeClient:
        return ExchangeClient(site.issuer, self.app.client_id, client_secret=self.app.secret)


def tool_server(site: Site, name: str, api: str, *, consent: str) -> ToolServer:
    """One whose tools need another API."""

    async def made(company: Any) -> ToolServer:
        behind = await company.resource(site.zone, api, scopes=["read"])
        app = await company.app(site.zone, name, consent=consent, dependencies=[behind])
        address = f"https://{name}.test/mcp"
        tools = await company.resource(site.zone, address, scopes=["notes.read"], application_id=app.id)
        agent = await company.app(site.zone, f"{name}-agent", dependencies=[tools])
        token = await company.token(site.zone, agent, site.ada, audience=address, scopes=["notes.read"])
        return ToolServer(app, address, token)

    return site.run(made)


@pytest.fixture(scope="session")
def mail_tools(site: Site) -> ToolServer:
    """One that may use the user's mail with her consent alone."""
    return tool_server(site, "mail-tools", MAIL, consent="required")


@pytest.fixture
async def exchange(site: Site, mail_tools: ToolServer) -> AsyncIterator[ExchangeClient]:
    client = mail_tools.exchange(site)
    yield client
    await client.aclose()


@pytest.fixture(params=SERVERS.values(), ids=SERVERS)
async def url(
    request: pytest.FixtureRequest, verifier: Verifier, exchange: ExchangeClient
) -> AsyncIterator[str]:
    async with served(request.param(verifier, exchange)) as address:
        yield address


@asynccontextmanager
async def connected(url: str, token: str) -> AsyncIterator[Client]:
    """An MCP client with this token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def who_asks(url: str, token: str) -> str:
    """What the tool `who` answers."""
    async with connected(url, token) as client:
        result = await client.call_tool("who")
    assert not result.is_error, result
    return "".join(each.text for each in result.content)  # type: ignore[union-attr]


async def posted(url: str, token: str | None, asked: dict[str, Any]) -> httpx.Response:
    """The answer to a message as HTTP has it."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": SPECIFIED}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(url, json={"jsonrpc": "2.0", "id": 1, **asked}, headers=headers)


async def test_a_tool_knows_who_asks(site: Site, url: str) -> None:
    """By the verified token."""
    assert await who_asks(url, site.token()) == "ada@acme.test"


@pytest.mark.standard("MCP authorization")
async def test_requests_are_answered_by_their_tokens(site: Site, url: str) -> None:
    """200, 401 and 403, with challenges that name the metadata and, where one lacks, the scope."""
    good = await posted(url, site.token(), LIST)
    assert (good.status_code, {each["name"] for each in good.json()["result"]["tools"]}) == (
        200,
        {"who", "mail"},
    )
    refused = {
        None: (401, None),
        site.token(audience=CALENDAR): (401, "invalid_token"),
        site.token(scopes=["notes.write"]): (403, "insufficient_scope"),
    }
    for token, (status, error) in refused.items():
        answer = await posted(url, token, LIST)
        challenge = answer.headers["www-authenticate"]
        assert (answer.status_code, challenge.startswith("Bearer ")) == (status, True), challenge
        assert f'resource_metadata="{METADATA}"' in challenge
        assert error is None or f'error="{error}"' in challenge
        assert status == 401 or "notes.read" in challenge


@pytest.mark.parametrize("made", SERVERS.values(), ids=SERVERS)
async def test_a_connect_link_reaches_the_client(
    site: Site, exchange: ExchangeClient, mail_tools: ToolServer, made: Any
) -> None:
    """As the error that asks it to show the link, of a tool that exchanges the request's token."""
    verifier = Verifier(site.issuer, mail_tools.resource, scopes=["notes.read"])
    async with served(made(verifier, exchange)) as url:
        assert await who_asks(url, mail_tools.token) == "ada@acme.test"
        async with connected(url, mail_tools.token) as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("mail")
    await verifier.aclose()
    assert caught.value.error.code == -32042
    (elicitation,) = caught.value.error.data["elicitations"]
    assert elicitation["mode"] == "url"
    assert elicitation["url"].startswith(f"{site.issuer}/oauth/connect")
    assert elicitation["url"] not in caught.value.error.message


def the_example(verifier: Verifier, _exchange: ExchangeClient) -> Any:
    return notes(verifier.resource, verifier.issuer)


@pytest.mark.parametrize("made", [*SERVERS.values(), the_example], ids=[*SERVERS, "example"])
@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
async def test_while_the_zone_is_away_requests_are_told_to_wait(
    site: Site, verifier: Verifier, exchange: ExchangeClient, made: Any, method: str
) -> None:
    """503 with `Retry-After`: the token may be valid."""
    name = "add_note" if made is the_example else "who"
    params = {"name": name, "arguments": {"text": "x"} if made is the_example else {}}
    asked = {"method": method, "params": params if method == "tools/call" else {}}
    async with served(made(verifier, exchange)) as url:
        assert (await posted(url, site.token(), asked)).status_code == 200
    away = Verifier("http://127.0.0.1:9", TOOLS, scopes=["notes.read"])
    async with served(made(away, exchange)) as url:
        answer = await posted(url, site.token(), asked)
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (503, "5", b"")
    await away.aclose()


class TestTheExample:
    """examples/notes.py, whose third tool calls another API for the user."""

    @asynccontextmanager
    async def serving(self, site: Site, consent: str) -> AsyncIterator[Client]:
        """A client of the tool server, behind which an API says who asks, and through whom."""
        listening = listening_socket("127.0.0.1:0")
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        tools = tool_server(site, f"notes-{consent}", address, consent=consent)
        client, verifier = tools.exchange(site), Verifier(site.issuer, address)
        app = notes(tools.resource, site.issuer, Calendar(address, client))
        calendar = ProtectedResource(Starlette(routes=[Route("/mcp", who_calls)]), verifier)
        async with served(calendar, listening), served(app) as url, connected(url, tools.token) as made:
            yield made
        await client.aclose()
        await verifier.aclose()

    async def test_a_tool_calls_another_api_for_the_user(self, site: Site) -> None:
        """With a token that the request's token was exchanged for."""
        async with self.serving(site, "implicit") as client:
            result = await client.call_tool("list_events")
        assert result.content[0].text == "ada@acme.test through notes-implicit"  # type: ignore[union-attr]

    async def test_where_her_consent_is_missing_the_client_gets_the_link(self, site: Site) -> None:
        """And the API is not called."""
        async with self.serving(site, "required") as client:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("list_events")
        (elicitation,) = caught.value.error.data["elicitations"]
        assert elicitation["url"].startswith(f"{site.issuer}/oauth/connect")


async def who_calls(request: Request) -> PlainTextResponse:
    token = request.state.access_token
    return PlainTextResponse(f"{token.subject} through {token.actors[0].subject}")

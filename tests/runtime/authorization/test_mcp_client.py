"""The public MCP client, unmodified, against a live zone and an MCP server that takes the zone's tokens."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from mcp_client import Kept, Person, call, provider
from notes import application
from tests.support.documents import Documents, publishing
from tests.support.factories import company_of
from tests.support.oauth_site import PASSWORD, Site, claims
from tests.support.server import serve

from runtime.domain.kinds import ZONE, Verb
from runtime.domain.kinds.zone import Zone

CALLBACK = "http://localhost:8710/callback"


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    """Where the client publishes its document."""
    with publishing(tmp_path_factory.mktemp("documents")) as site:
        yield site


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A running server that trusts the client's site."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        yield Site(server, company_of(server))


@contextmanager
def notes_of(zone_issuer: str, listening: socket.socket) -> Iterator[str]:
    """The example's tool server on that socket; its address, which is its resource."""
    resource = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    server = uvicorn.Server(uvicorn.Config(application(resource, zone_issuer), log_level="error"))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    try:
        yield resource
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def zone(site: Site) -> Zone:
    """A zone with Ada that lets unknown clients in both ways."""
    made = site.zone("Acme people")
    site.user(made)
    patch = {"protocols": {"oauth2": {"cimd": {"enabled": True, "allowed_client_ids": ["*"]}}}}
    changed: Zone = site.run(site.company.run(ZONE, Verb.UPDATE, {}, made.id, patch))
    return changed


class Connected:
    """The client at a tool server of the zone, with nothing but that server's address; Ada has a browser."""

    def __init__(self, url: str, document: str | None) -> None:
        self.url, self.document = url, document
        self.person, self.kept = Person("ada@acme.example", PASSWORD), Kept()
        self.auth = provider(url, self.person, self.kept, client_metadata_url=document)

    def using(self, tool: str, **arguments: Any) -> str:
        """What a tool answers."""
        self.auth.context.lock = anyio.Lock()  # each call has an event loop of its own
        return asyncio.run(call(self.url, self.auth, tool, arguments))

    @property
    def tokens(self) -> Any:
        assert self.kept.tokens is not None
        return self.kept.tokens


@pytest.fixture(params=[False, True], ids=["registered", "by document"])
def unknown(
    request: pytest.FixtureRequest, site: Site, zone: Zone, documents: Documents
) -> Iterator[Connected]:
    """A client that has not asked for anything yet, and that nobody has registered."""
    listening = socket.create_server(("127.0.0.1", 0))
    with notes_of(str(zone.protocols.oauth2.issuer), listening) as url:
        site.run(site.company.resource(zone, url, scopes=["notes.read", "notes.write"]))
        document = documents.client("/mcp.json", redirect_uris=[CALLBACK]) if request.param else None
        made = Connected(url, document)
        yield made
        made.person.browser.close()


@pytest.fixture
def connected(unknown: Connected) -> Connected:
    """The same after its first call, for which Ada has signed in and agreed."""
    assert unknown.using("list_notes") == "buy milk"
    assert unknown.person.asked == ["sign-in", "consent"]
    return unknown


@pytest.mark.standard("MCP authorization")
def test_a_first_call_registers_signs_in_and_gets_a_token_for_the_server(unknown: Connected) -> None:
    """The server's refusal is enough to find the zone; the user is asked once, for what the tool needs."""
    assert httpx.post(unknown.url, json={}).status_code == 401

    assert unknown.using("list_notes") == "buy milk"

    client = unknown.kept.client
    assert client is not None
    assert client.client_id == unknown.document or client.client_id.startswith("ua:")
    token = claims(unknown.tokens.access_token)
    assert (token["aud"], token["scope"]) == (unknown.url, "notes.read")
    assert unknown.person.asked == ["sign-in", "consent"]


@pytest.mark.standard("MCP authorization")
def test_a_further_call_uses_the_token_at_hand(connected: Connected) -> None:
    """As long as it is good nothing else is asked for."""
    first = connected.tokens

    assert connected.using("list_notes") == "buy milk"

    assert connected.tokens == first


@pytest.mark.standard("MCP authorization")
def test_a_call_with_an_expired_token_refreshes_it(connected: Connected) -> None:
    """The refresh token is another one afterwards, and nobody is asked."""
    first = connected.tokens
    connected.auth.context.token_expiry_time = 1.0  # long ago

    assert connected.using("list_notes") == "buy milk"

    assert connected.tokens.refresh_token != first.refresh_token
    assert connected.person.asked == ["sign-in", "consent"]


@pytest.mark.standard("MCP authorization")
def test_a_tool_that_needs_more_has_the_user_asked_for_the_new_scope(connected: Connected) -> None:
    """Step-up: also after a refresh the client comes back with both scopes, without another sign-in."""
    connected.auth.context.token_expiry_time = 1.0  # long ago
    assert connected.using("list_notes") == "buy milk"

    assert connected.using("add_note", text="call Grace") == "2 notes"

    assert set(claims(connected.tokens.access_token)["scope"].split()) == {"notes.read", "notes.write"}
    assert connected.person.asked == ["sign-in", "consent", "consent"]

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


@pytest.mark.standard("MCP authorization")
@pytest.mark.parametrize("by_document", [False, True], ids=["registered", "by document"])
def test_registers_calls_refreshes_and_steps_up(
    site: Site, zone: Zone, documents: Documents, by_document: bool
) -> None:
    """With nothing but the server's address: found, registered, signed in, refreshed, and asked for more."""
    listening = socket.create_server(("127.0.0.1", 0))
    with notes_of(str(zone.protocols.oauth2.issuer), listening) as url:
        site.run(site.company.resource(zone, url, scopes=["notes.read", "notes.write"]))
        person, kept = Person("ada@acme.example", PASSWORD), Kept()
        document = documents.client("/mcp.json", redirect_uris=[CALLBACK]) if by_document else None

        auth = provider(url, person, kept, client_metadata_url=document)

        def using(tool: str, **arguments: Any) -> str:
            auth.context.lock = anyio.Lock()  # each call has an event loop of its own
            return asyncio.run(call(url, auth, tool, arguments))

        assert httpx.post(url, json={}).status_code == 401
        assert using("list_notes") == "buy milk"
        assert kept.client is not None
        assert kept.tokens is not None
        assert kept.client.client_id == document or kept.client.client_id.startswith("ua:")
        first = kept.tokens
        token = claims(first.access_token)
        assert (token["aud"], token["scope"]) == (url, "notes.read")
        assert person.asked == ["sign-in", "consent"]

        assert using("list_notes") == "buy milk"  # the token still works
        assert kept.tokens == first

        auth.context.token_expiry_time = 1.0  # long ago
        assert using("list_notes") == "buy milk"
        assert kept.tokens.refresh_token != first.refresh_token
        assert person.asked == ["sign-in", "consent"]  # nobody was asked for that

        assert using("add_note", text="call Grace") == "2 notes"
        assert set(claims(kept.tokens.access_token)["scope"].split()) == {"notes.read", "notes.write"}
        assert person.asked == ["sign-in", "consent", "consent"]  # for the new scope
        person.browser.close()

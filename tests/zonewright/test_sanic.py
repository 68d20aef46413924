"""A Sanic application behind the library."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sanic import HTTPResponse, Request, Sanic
from sanic.response import text
from tests.zonewright.conftest import Site

from runtime.app import listening_socket
from zonewright import Verifier
from zonewright.sanic import protect


@pytest.fixture
async def client(verifier: Verifier) -> AsyncIterator[httpx.AsyncClient]:
    app: Sanic[Any, Any] = Sanic(f"notes-{uuid4().hex}", configure_logging=False)
    protect(app, verifier, public=["/health"])

    @app.get("/mcp")
    async def read(request: Request) -> HTTPResponse:
        return text(request.ctx.access_token.subject)

    @app.post("/mcp")
    async def write(request: Request) -> HTTPResponse:
        request.ctx.access_token.require("notes.write")
        return text("written")

    @app.get("/health")
    async def health(_request: Request) -> HTTPResponse:
        return text("ok")

    app.config.TOUCHUP = False  # it rewrites Sanic's classes, which works for one application a process
    bound = listening_socket("127.0.0.1:0")
    server = await app.create_server(sock=bound, return_asyncio_server=True)
    await server.startup()
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as made:
        yield made
    await server.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_handler_knows_whose_request_it_is(site: Site, client: httpx.AsyncClient) -> None:
    """The verified token comes with the request."""
    answer = await client.get("/mcp", headers=bearer(site.token()))
    assert (answer.status_code, answer.text) == (200, "ada@acme.test")


async def test_a_request_without_a_token_learns_where_to_get_one(client: httpx.AsyncClient) -> None:
    """401 with a challenge that names the metadata."""
    answer = await client.get("/mcp")
    assert answer.status_code == 401
    assert "resource_metadata=" in answer.headers["www-authenticate"]
    assert (answer.content, answer.headers["content-type"]) == (b"", "text/plain; charset=utf-8")


async def test_a_handler_asks_for_a_scope_of_its_own(site: Site, client: httpx.AsyncClient) -> None:
    """403 with the challenge for that scope."""
    assert (await client.post("/mcp", headers=bearer(site.token()))).text == "written"
    answer = await client.post("/mcp", headers=bearer(site.token(scopes=["notes.read"])))
    assert answer.status_code == 403
    assert ' scope="notes.read notes.write"' in answer.headers["www-authenticate"]


async def test_the_metadata_names_the_zone(site: Site, client: httpx.AsyncClient) -> None:
    """Without a token."""
    answer = await client.get("/.well-known/oauth-protected-resource/mcp")
    assert answer.json()["authorization_servers"] == [site.issuer]


async def test_a_public_path_needs_no_token(client: httpx.AsyncClient) -> None:
    """A health check for one."""
    assert (await client.get("/health")).text == "ok"

"""An ASGI application behind the library."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.zonewright.conftest import TOOLS, Site

from zonewright import RequestRefused, Verifier
from zonewright.asgi import ProtectedResource, access_token


async def read(request: Request) -> PlainTextResponse:
    return PlainTextResponse(access_token(request.scope).subject)


async def write(request: Request) -> PlainTextResponse:
    request.state.access_token.require("notes.write")
    return PlainTextResponse("written")


async def health(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


@pytest.fixture
async def client(verifier: Verifier) -> AsyncIterator[httpx.AsyncClient]:
    routes = [Route("/mcp", read), Route("/mcp", write, methods=["POST"]), Route("/health", health)]
    app = Starlette(routes=routes)
    protected = ProtectedResource(app, verifier, public=["/health"])
    app.add_exception_handler(RequestRefused, protected.on_refusal)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(app=protected)
    async with httpx.AsyncClient(transport=transport, base_url="http://inside.test") as made:
        yield made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_handler_knows_whose_request_it_is(site: Site, client: httpx.AsyncClient) -> None:
    """The verified token comes with the request."""
    answer = await client.get("/mcp", headers=bearer(site.token()))
    assert (answer.status_code, answer.text) == (200, "ada@acme.test")


async def test_a_request_without_a_token_learns_where_to_get_one(client: httpx.AsyncClient) -> None:
    """401 with a challenge that names the metadata (RFC 9728 section 5.1)."""
    answer = await client.get("/mcp")
    assert answer.status_code == 401
    assert (
        'resource_metadata="https://tools.test/.well-known/oauth-protected-resource/mcp"'
        in (answer.headers["www-authenticate"])
    )


async def test_a_token_without_the_scope_of_every_request_is_asked_for_it(
    site: Site, client: httpx.AsyncClient
) -> None:
    """403 `insufficient_scope` with the scope (RFC 6750 section 3.1)."""
    answer = await client.get("/mcp", headers=bearer(site.token(scopes=["notes.write"])))
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert 'scope="notes.read"' in answer.headers["www-authenticate"]


async def test_a_handler_asks_for_a_scope_of_its_own(site: Site, client: httpx.AsyncClient) -> None:
    """What it raises is the challenge for that scope, though the framework handles errors by itself."""
    assert (await client.post("/mcp", headers=bearer(site.token()))).text == "written"
    answer = await client.post("/mcp", headers=bearer(site.token(scopes=["notes.read"])))
    assert answer.status_code == 403
    assert ' scope="notes.read notes.write"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("scopes", [["notes.read"], ["notes.write"]], ids="".join)
async def test_a_client_that_follows_the_challenges_gets_in(
    site: Site, client: httpx.AsyncClient, scopes: list[str]
) -> None:
    """Whichever of two scopes its token lacks, and though it asks for nothing but what a challenge names."""
    answer = await client.post("/mcp", headers=bearer(site.token(scopes=scopes)))
    assert answer.status_code == 403
    for _ in range(2):
        challenged = re.search(' scope="([^"]+)"', answer.headers["www-authenticate"])
        assert challenged is not None
        answer = await client.post("/mcp", headers=bearer(site.token(scopes=challenged[1].split())))
        if answer.status_code == 200:
            break
    assert answer.text == "written"


async def test_two_authorization_headers_are_none(site: Site, client: httpx.AsyncClient) -> None:
    """Readers on the way might choose another one."""
    header = ("Authorization", f"Bearer {site.token()}")
    assert (await client.get("/mcp", headers=[header])).status_code == 200
    assert (await client.get("/mcp", headers=[header, header])).status_code == 401


async def test_the_metadata_names_the_zone(site: Site, client: httpx.AsyncClient) -> None:
    """Anyone may read it, from any origin."""
    answer = await client.get("/.well-known/oauth-protected-resource/mcp")
    assert answer.json()["resource"] == TOOLS
    assert answer.json()["authorization_servers"] == [site.issuer]
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_a_public_path_needs_no_token(client: httpx.AsyncClient) -> None:
    """A health check for one."""
    assert (await client.get("/health")).text == "ok"


async def test_a_preflight_reaches_the_application(client: httpx.AsyncClient) -> None:
    """Browsers send none with a token; what is allowed across origins the application knows."""
    asked = {"Access-Control-Request-Method": "POST", "Origin": "https://app.test"}
    assert (await client.options("/mcp", headers=asked)).status_code == 405
    assert (await client.options("/mcp")).status_code == 401


async def test_while_the_zone_is_away_requests_are_told_to_wait() -> None:
    """503 with `Retry-After`: the token may be valid."""
    verifier = Verifier("http://127.0.0.1:9", TOOLS)
    transport = httpx.ASGITransport(app=ProtectedResource(Starlette(), verifier))
    async with httpx.AsyncClient(transport=transport, base_url="http://inside.test") as client:
        token = "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6ImsifQ.e30.c2ln"
        answer = await client.get("/mcp", headers=bearer(token))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    await verifier.aclose()

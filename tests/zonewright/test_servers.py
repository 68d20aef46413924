"""A server behind the library, in Starlette, FastAPI and Sanic: the same requests get the same answers."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from sanic import HTTPResponse, Sanic
from sanic import Request as SanicRequest
from sanic.response import text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from tests.support.possession import Holder
from tests.zonewright.conftest import TOOLS, Site

from runtime.app import listening_socket
from zonewright import RequestRefused, Verifier, ZoneUnreachable
from zonewright.asgi import ProtectedResource, RetryLater, access_token
from zonewright.sanic import protect

METADATA = "https://tools.test/.well-known/oauth-protected-resource/mcp"


async def read(request: Request) -> PlainTextResponse:
    return PlainTextResponse(access_token(request.scope).subject)


async def write(request: Request) -> PlainTextResponse:
    request.state.access_token.require("notes.write")
    return PlainTextResponse("written")


async def health(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


def in_starlette() -> Starlette:
    return Starlette(
        routes=[
            Route("/mcp", read),
            Route("/mcp", write, methods=["POST"]),
            Route("/mcp/{name}", read),
            Route("/health", health),
        ]
    )


def in_fastapi() -> FastAPI:
    app = FastAPI()
    app.get("/mcp", response_model=None)(read)
    app.get("/mcp/{name}", response_model=None)(read)
    app.post("/mcp", response_model=None)(write)
    app.get("/health", response_model=None)(health)
    return app


@asynccontextmanager
async def asgi(app: Starlette, verifier: Verifier) -> AsyncIterator[httpx.AsyncClient]:
    protected = ProtectedResource(app, verifier, public=["/health"])
    app.add_exception_handler(RequestRefused, protected.on_refusal)  # type: ignore[arg-type]
    async with in_process(protected) as client:
        yield client


def in_process(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://inside.test")


@asynccontextmanager
async def sanic(verifier: Verifier) -> AsyncIterator[httpx.AsyncClient]:
    app: Sanic[Any, Any] = Sanic(f"notes-{uuid4().hex}", configure_logging=False)
    protect(app, verifier, public=["/health"])

    @app.get("/mcp")
    async def read(request: SanicRequest) -> HTTPResponse:
        return text(request.ctx.access_token.subject)

    @app.get("/mcp/<_name>")
    async def read_one(request: SanicRequest, _name: str) -> HTTPResponse:
        return await read(request)

    @app.post("/mcp")
    async def write(request: SanicRequest) -> HTTPResponse:
        request.ctx.access_token.require("notes.write")
        return text("written")

    @app.get("/health")
    async def health(_request: SanicRequest) -> HTTPResponse:
        return text("ok")

    app.config.TOUCHUP = False  # it rewrites Sanic's classes, which works for one application a process
    bound = listening_socket("127.0.0.1:0")
    server = await app.create_server(sock=bound, return_asyncio_server=True)
    await server.startup()
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as made:
        yield made
    await server.close()


def serving(framework: str, verifier: Verifier) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """Requests to the server in a framework."""
    if framework == "sanic":
        return sanic(verifier)
    return asgi(in_fastapi() if framework == "fastapi" else in_starlette(), verifier)


@pytest.fixture(params=["starlette", "fastapi", "sanic"])
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def client(framework: str, verifier: Verifier) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(framework, verifier) as made:
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
    assert answer.headers["www-authenticate"] == f'Bearer scope="notes.read", resource_metadata="{METADATA}"'
    assert answer.headers["cache-control"] == "no-store"


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


async def test_two_authorization_headers_are_malformed(site: Site, client: httpx.AsyncClient) -> None:
    """400 `invalid_request` (RFC 6750 section 3.1): readers on the way might choose another one."""
    header = ("Authorization", f"Bearer {site.token()}")
    assert (await client.get("/mcp", headers=[header])).status_code == 200

    answer = await client.get("/mcp", headers=[header, header])

    assert answer.status_code == 400
    assert 'error="invalid_request"' in answer.headers["www-authenticate"]


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


async def test_a_token_that_is_refused_is_named_invalid(site: Site, client: httpx.AsyncClient) -> None:
    """401 `invalid_token` (RFC 6750 section 3.1)."""
    assert (await client.get("/mcp", headers=bearer(site.token()))).status_code == 200
    answer = await client.get("/mcp", headers=bearer(site.token(audience=site.issuer)))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token", ')


def bound(site: Site, holder: Holder) -> str:
    """A token that is bound to the holder's key."""
    form = {"grant_type": "client_credentials", "resource": TOOLS, **site.agent.form}
    answer = site.post(form, DPoP=holder.proof(f"{site.issuer}/oauth/token"))
    return str(answer.json()["access_token"])


@pytest.mark.parametrize("escaped", ["a%20b", "caf%c3%a9", "%7Eann", "a%2Fb"])
async def test_a_proof_is_for_a_path_however_it_is_escaped(
    site: Site, client: httpx.AsyncClient, escaped: str
) -> None:
    """Escapes of one path are compared in one form (RFC 3986 section 6.2.2); another path is another."""
    holder = Holder()
    token = bound(site, holder)

    async def ask(uri: str) -> int:
        proof = holder.proof(uri, "GET", access_token=token)
        answer = await client.get(
            f"/mcp/{escaped}", headers={"Authorization": f"DPoP {token}", "DPoP": proof}
        )
        return answer.status_code

    spellings = (escaped, escaped.replace("%c3%a9", "%C3%A9").replace("%7E", "~"))
    told = {await ask(f"{TOOLS}/{each}") for each in spellings}
    assert told <= {200, 404}  # frameworks route an escaped slash in different ways
    others = ("a b", "a/b", f"{escaped}x")
    assert [await ask(f"{TOOLS}/{each}") for each in others] == [401] * len(others)


async def test_a_bound_token_needs_a_proof_of_its_key(site: Site, client: httpx.AsyncClient) -> None:
    """For this request, once; its URL is that of the resource, whatever the server's own address is."""
    holder = Holder()
    token = bound(site, holder)

    async def ask(*proofs: str) -> tuple[int, str]:
        headers = [("Authorization", f"DPoP {token}"), *(("DPoP", each) for each in proofs)]
        answer = await client.get("/mcp", headers=headers)
        return answer.status_code, answer.headers.get("www-authenticate", "").partition(",")[0]

    refused = 401, 'DPoP error="invalid_dpop_proof"'
    proof = holder.proof(TOOLS, "GET", access_token=token)
    assert await ask(proof) == (200, "")
    assert await ask(proof) == refused
    assert await ask() == refused
    assert await ask(*(holder.proof(TOOLS, "GET", access_token=token) for _ in range(2))) == refused
    elsewhere = f"{client.base_url}mcp"
    assert await ask(holder.proof(elsewhere, "GET", access_token=token)) == refused
    assert await ask(holder.proof(TOOLS, "POST", access_token=token)) == refused
    assert await ask(Holder().proof(TOOLS, "GET", access_token=token)) == refused
    assert (await client.get("/mcp", headers=bearer(token))).status_code == 401


async def test_while_the_zone_is_away_requests_are_told_to_wait(
    framework: str, site: Site, client: httpx.AsyncClient
) -> None:
    """503 with `Retry-After`: the token may be valid."""
    assert (await client.get("/mcp", headers=bearer(site.token()))).status_code == 200
    verifier = Verifier("http://127.0.0.1:9", TOOLS)
    async with serving(framework, verifier) as away:
        answer = await away.get("/mcp", headers=bearer(site.token()))
        assert (await away.get("/health")).status_code == 200
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (503, "5", b"")
    assert "www-authenticate" not in answer.headers
    await verifier.aclose()


class TestRetryLater:
    """An application that asks the zone by itself, in a framework that answers 500 to unknown errors."""

    def answering(self, failure: Exception | None, status: int = 200) -> ASGIApp:
        async def handler(_request: Request) -> PlainTextResponse:
            if failure is not None:
                raise failure
            return PlainTextResponse("the answer", status_code=status)

        return RetryLater(Starlette(routes=[Route("/mcp", handler)]))

    async def test_the_failure_to_reach_the_zone_is_503(self) -> None:
        """With the time that the zone has named, if it has."""
        for seconds, told in ((None, "5"), (17, "17")):
            failure = ZoneUnreachable("away", retry_after_seconds=seconds)
            async with in_process(self.answering(failure)) as client:
                answer = await client.get("/mcp")
            assert (answer.status_code, answer.headers["retry-after"], answer.content) == (503, told, b"")

    @pytest.mark.parametrize("status", [200, 500])
    async def test_an_answer_of_the_application_is_its_own(self, status: int) -> None:
        """An error, too."""
        async with in_process(self.answering(None, status)) as client:
            answer = await client.get("/mcp")
        assert (answer.status_code, answer.text) == (status, "the answer")

    async def test_another_failure_is_the_frameworks(self) -> None:
        """It is answered 500, and goes on to the server's log."""
        transport = httpx.ASGITransport(app=self.answering(KeyError("x")), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://inside.test") as client:
            assert (await client.get("/mcp")).status_code == 500
        async with in_process(self.answering(KeyError("x"))) as client:
            with pytest.raises(KeyError):
                await client.get("/mcp")

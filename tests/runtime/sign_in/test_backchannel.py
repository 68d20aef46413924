"""Sessions that end, told server to server: by a zone's provider to the zone, and by the zone to clients."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl

import httpx
import jwt
import pytest
from sqlalchemy import select
from tests.runtime.sign_in.support import (
    CALLBACK,
    Answer,
    Browser,
    Chain,
    Client,
    Page,
    Site,
    chained,
    claims,
)
from tests.support.certificates import self_signed, serving, trusting

from runtime.adapters.outbound import Outbound
from runtime.domain.oauth.logout import LOGOUT_EVENT
from runtime.storage.sql.tables import METADATA, token_events

_sessions = METADATA.tables["sessions"]


class Provider:
    """The home zone, as it tells the product zone that who holds these tokens has left."""

    def __init__(self, site: Site, chain: Chain, tokens: dict[str, Any]) -> None:
        self.site, self.chain = site, chain
        self.known = self._known(claims(tokens["id_token"])["sid"])
        self.number = 0

    def _known(self, session_id: str) -> Any:
        async def read() -> Any:
            parent = select(_sessions.c.parent_id).where(_sessions.c.id == session_id).scalar_subquery()
            async with self.site.parts.database.reading() as conn:
                found = await conn.execute(
                    select(_sessions.c.provider_subject, _sessions.c.provider_session).where(
                        _sessions.c.zone_id == self.chain.product.id, _sessions.c.id == parent
                    )
                )
                return found.one()

        return self.site.run(read())

    def token(self, typ: str = "logout+jwt", *, zone_id: str | None = None, **changes: Any) -> str:
        """A logout token, right unless changed; a change of None leaves a claim out."""
        self.number += 1
        now = int(self.site.parts.clock().timestamp())
        said = {
            "iss": str(self.chain.home.protocols.oauth2.issuer),
            "aud": self.chain.door.client_id,
            "iat": now,
            "exp": now + 120,
            "jti": f"token-{self.number}",
            "sid": self.known.provider_session,
            "sub": self.known.provider_subject,
            "events": {LOGOUT_EVENT: {}},
        } | changes

        async def sign() -> str:
            view = await self.site.parts.zones.view(zone_id or self.chain.home.id)
            return view.signing("RS256").sign({k: v for k, v in said.items() if v is not None}, typ=typ)

        return self.site.run(sign())

    def send(self, token: str | None) -> int:
        """The status of the product zone's answer."""
        issuer = self.chain.product.protocols.oauth2.issuer
        answer = httpx.post(f"{issuer}/openid/backchannel", data={"logout_token": token} if token else {})
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] != "None"
        return answer.status_code


def alive(client: Client, tokens: dict[str, Any]) -> bool:
    """Whether a session's access token is good."""
    return client.userinfo(tokens["access_token"]).status_code == 200


async def _scalars(site: Site, query: Any) -> list[Any]:
    async with site.parts.database.reading() as conn:
        return list(await conn.scalars(query))


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize("left_out", [(), ("sid",), ("sub",)])
def test_ends_the_sessions_that_are_meant(site: Site, left_out: tuple[str, ...]) -> None:
    """By `sid` that browser's; by `sub` alone all of that user; nobody else's, and a token counts once."""
    chain = chained(site)
    client = site.app(chain.product)
    site.user(chain.home, "grace@acme.example")
    first, second = client.sign_in(Browser()), client.sign_in(Browser())
    graces_browser = Browser()
    place = graces_browser.open(client.url())
    grace = client.redeem(graces_browser.sign_in(place, "grace@acme.example").code).json()
    provider = Provider(site, chain, first)
    token = provider.token(**dict.fromkeys(left_out))

    assert provider.send(token) == 200

    assert not alive(client, first)
    assert client.refresh(first["refresh_token"]).status_code == 400
    assert alive(client, second) is ("sid" not in left_out)
    assert alive(client, grace)
    assert provider.send(token) == 400
    ended = select(token_events.c.event).where(
        token_events.c.zone_id == chain.product.id, token_events.c.outcome == "ended"
    )
    assert site.run(_scalars(site, ended)) == ["provider-sign-out"] * (2 if "sid" in left_out else 1)


@pytest.mark.threat(13)
@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_anything_else_is_refused_and_ends_nothing(site: Site) -> None:
    """Other classes of token, signers, audiences and times; and a logout token opens nothing."""
    chain = chained(site)
    client = site.app(chain.product)
    tokens = client.sign_in(Browser())
    provider = Provider(site, chain, tokens)
    now = int(site.parts.clock().timestamp())

    for attack in (
        {"typ": "JWT"},
        {"typ": "at+jwt"},
        {"zone_id": chain.product.id},
        {"iss": str(chain.product.protocols.oauth2.issuer)},
        {"aud": "somebody else"},
        {"aud": None},
        {"nonce": "n"},
        {"events": None},
        {"events": {"http://schemas.openid.net/event/other": {}}},
        {"events": [LOGOUT_EVENT]},
        {"jti": None},
        {"sid": None, "sub": None},
        {"sid": ["x"]},
        {"exp": None},
        {"exp": now - 3600, "iat": now - 3700},
        {"exp": now + 90_000},
        {"iat": now + 600},
    ):
        assert provider.send(provider.token(**attack)) == 400, attack  # type: ignore[arg-type]
    for text in (None, "x", tokens["id_token"], tokens["access_token"]):
        assert provider.send(text) == 400
    assert alive(client, tokens)

    right = provider.token()
    assert client.userinfo(right).status_code == 401
    assert provider.send(right) == 200
    assert not alive(client, tokens)


def test_a_zone_of_its_own_listens_to_nobody(site: Site) -> None:
    """Without a provider there is nobody who could say so."""
    chain = chained(site)
    provider = Provider(site, chain, site.app(chain.product).sign_in(Browser()))
    issuer = chain.home.protocols.oauth2.issuer

    answer = httpx.post(f"{issuer}/openid/backchannel", data={"logout_token": provider.token()})

    assert answer.status_code == 400
    assert claims(provider.token())["sid"]


@pytest.fixture
def listening(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """A client's server at an https address that this server trusts: the forms that are posted there."""
    certificate = self_signed(tmp_path / "client.pem", "localhost")
    heard: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode())))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = serving(certificate).wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    trusted = Outbound(allow_private_addresses=True, ssl_context=trusting(certificate))
    monkeypatch.setattr(site.parts.outbound, "post_form", trusted.post_form)
    heard.append({"address": f"https://localhost:{server.server_port}/logout"})
    yield heard
    server.shutdown()
    server.server_close()
    site.run(trusted.aclose())


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_clients_that_want_to_hear_of_it_are_told(site: Site, listening: list[dict[str, str]]) -> None:
    """A client that registered itself with an address for it; not the others, and each session once."""
    zone = site.zone()
    site.user(zone)
    address = listening.pop()["address"]
    issuer = str(zone.protocols.oauth2.issuer)
    metadata = {"redirect_uris": [CALLBACK], "post_logout_redirect_uris": ["https://app.example/bye"]}
    quiet, told = (
        site.stranger(zone, httpx.post(f"{issuer}/oauth/register", json=each).json()["client_id"], CALLBACK)
        for each in (metadata, metadata | {"backchannel_logout_uri": address})
    )
    browser = Browser()
    quiet.sign_in(browser)
    page = browser.open(told.url())
    assert isinstance(page, Page)
    answer = browser.send(page, decision="allow")
    assert isinstance(answer, Answer)
    tokens = told.redeem(answer.code).json()

    gone = browser.http.get(
        f"{issuer}/openid/logout",
        params={
            "id_token_hint": tokens["id_token"],
            "post_logout_redirect_uri": "https://app.example/bye",
        },
    )

    assert gone.headers["location"] == "https://app.example/bye"
    site.run(site.parts.outbox.deliver_due())
    deadline = time.monotonic() + 20
    while not listening and time.monotonic() < deadline:  # the poke may have been faster
        time.sleep(0.05)
    (form,) = listening
    header, said = jwt.get_unverified_header(form["logout_token"]), claims(form["logout_token"])
    known = claims(tokens["id_token"])
    assert header["typ"] == "logout+jwt"
    assert (said["iss"], said["aud"]) == (issuer, known["aud"])
    assert (said["sub"], said["sid"]) == (known["sub"], known["sid"])
    assert said["events"] == {LOGOUT_EVENT: {}}
    assert said["exp"] - said["iat"] == 120
    assert "nonce" not in said
    assert told.userinfo(form["logout_token"]).status_code == 401
    for wrong in ("http://app.example/logout", "https://app.example/logout#x", "javascript:alert(1)"):
        refused = httpx.post(f"{issuer}/oauth/register", json=metadata | {"backchannel_logout_uri": wrong})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata")

"""Back-channel logout: logout tokens from a zone's provider, and those that a zone sends to clients."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl

import httpx
import jwt
import pytest
from sqlalchemy import select
from tests.support.oauth_site import (
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

from runtime.domain.kinds.zone import Zone
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
            async with self.site.services.database.reading() as conn:
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
        now = int(self.site.services.clock().timestamp())
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
            zone = await self.site.services.zones.get(zone_id or self.chain.home.id)
            return zone.signing("RS256").sign({k: v for k, v in said.items() if v is not None}, typ=typ)

        return self.site.run(sign())

    def send(self, token: str | None) -> int:
        """The status of the product zone's answer."""
        issuer = self.chain.product.protocols.oauth2.issuer
        form = {"logout_token": token} if token else {}
        answer = httpx.post(f"{issuer}/openid/backchannel", data=form, timeout=30)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] != "None"
        return answer.status_code


API = "https://api.acme.example"


def with_api(site: Site, chain: Chain) -> Client:
    """An application of the product zone that exchanges its users' tokens for those of an API."""
    api = site.run(site.company.resource(chain.product, API, scopes=["read"]))
    return site.app(chain.product, dependencies=[api])


def exchange(client: Client, tokens: dict[str, Any]) -> httpx.Response:
    """Ask for a token of the API with the session's access token."""
    return client.token(
        grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
        subject_token=tokens["access_token"],
        subject_token_type="urn:ietf:params:oauth:token-type:access_token",
        resource=API,
    )


def alive(client: Client, tokens: dict[str, Any]) -> bool:
    """Whether a session's access token is good, at the zone and for an exchange: always for both or none."""
    answers = client.userinfo(tokens["access_token"]), exchange(client, tokens)
    assert [each.status_code for each in answers] in ([200, 200], [401, 400]), [each.text for each in answers]
    return answers[0].status_code == 200


async def _scalars(site: Site, query: Any) -> list[Any]:
    async with site.services.database.reading() as conn:
        return list(await conn.scalars(query))


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize("left_out", [(), ("sid",), ("sub",)])
def test_ends_the_sessions_that_are_meant(site: Site, left_out: tuple[str, ...]) -> None:
    """By `sid` that browser's; by `sub` alone all of that user; nobody else's, and a token counts once."""
    chain = chained(site)
    client = with_api(site, chain)
    site.user(chain.home, "grace@acme.example")
    first, second = client.sign_in(Browser()), client.sign_in(Browser())
    graces_browser = Browser()
    place = graces_browser.open(client.url())
    grace = client.redeem(graces_browser.sign_in(place, "grace@acme.example").code).json()
    provider = Provider(site, chain, first)
    token = provider.token(**dict.fromkeys(left_out))
    assert all(alive(client, tokens) for tokens in (first, second, grace))

    assert provider.send(token) == 200

    assert not alive(client, first)
    assert client.refresh(first["refresh_token"]).status_code == 400
    assert alive(client, second) is ("sid" not in left_out)
    assert alive(client, grace)
    assert provider.send(token) == 400
    ended = select(token_events.c.event).where(
        token_events.c.zone_id == chain.product.id, token_events.c.outcome == "ended"
    )
    assert site.run(_scalars(site, ended)) == ["provider_sign_out"] * (2 if "sid" in left_out else 1)


class Attacked:
    """A session of the product zone that somebody who is not its provider would like to end."""

    def __init__(self, site: Site) -> None:
        self.chain = chained(site)
        self.client = with_api(site, self.chain)
        self.tokens = self.client.sign_in(Browser())
        self.provider = Provider(site, self.chain, self.tokens)


@pytest.fixture(scope="module")
def attacked(site: Site) -> Attacked:
    return Attacked(site)


def _wrong(own_issuer: str, own_zone: str, now: int) -> dict[str, dict[str, Any]]:
    """What is changed in a logout token so that the product zone, whose issuer that is, refuses it."""
    return {
        "ID token": {"typ": "JWT"},
        "access token": {"typ": "at+jwt"},
        "signed by the zone itself": {"zone_id": own_zone},
        "issued by the zone itself": {"iss": own_issuer},
        "another audience": {"aud": "somebody else"},
        "no audience": {"aud": None},
        "with a nonce": {"nonce": "n"},
        "no event": {"events": None},
        "another event": {"events": {"http://schemas.openid.net/event/other": {}}},
        "events that are a list": {"events": [LOGOUT_EVENT]},
        "no id": {"jti": None},
        "of nobody": {"sid": None, "sub": None},
        "session that is no text": {"sid": ["x"]},
        "no end": {"exp": None},
        "no time of issue": {"iat": None},
        "over": {"exp": now - 3600, "iat": now - 3700},
        "good for more than a day": {"exp": now + 90_000},
        "issued in ten minutes": {"iat": now + 600},
    }


@pytest.mark.threat("13j", "13n")
@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize("case", list(_wrong("", "", 0)))
def test_a_logout_token_with_anything_else_in_it_is_refused_and_ends_nothing(
    site: Site, attacked: Attacked, case: str
) -> None:
    """Other classes of token, signers, audiences, events and times."""
    product, now = attacked.chain.product, int(site.services.clock().timestamp())
    wrong = _wrong(str(product.protocols.oauth2.issuer), product.id, now)[case]

    assert attacked.provider.send(attacked.provider.token(**wrong)) == 400

    assert alive(attacked.client, attacked.tokens)


@pytest.mark.threat("13j", "13n")
@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize("kind", ["nothing", "nonsense", "id_token", "access_token"])
def test_what_is_no_logout_token_is_refused_and_ends_nothing(attacked: Attacked, kind: str) -> None:
    """Nothing, no JWT, and the tokens of the session itself."""
    text = {"nothing": None, "nonsense": "x"}.get(kind, attacked.tokens.get(kind))

    assert attacked.provider.send(text) == 400

    assert alive(attacked.client, attacked.tokens)


@pytest.mark.threat("13j", "13n")
@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_a_logout_token_opens_nothing(site: Site) -> None:
    """Userinfo refuses it as an access token, and it ends the session afterwards all the same."""
    own = Attacked(site)
    right = own.provider.token()

    assert own.client.userinfo(right).status_code == 401

    assert own.provider.send(right) == 200
    assert not alive(own.client, own.tokens)


def test_a_zone_of_its_own_listens_to_nobody(site: Site) -> None:
    """Without a provider there is nobody who could say so."""
    chain = chained(site)
    provider = Provider(site, chain, site.app(chain.product).sign_in(Browser()))
    issuer = chain.home.protocols.oauth2.issuer

    answer = httpx.post(f"{issuer}/openid/backchannel", data={"logout_token": provider.token()})

    assert answer.status_code == 400
    assert claims(provider.token())["sid"]


class Receiver:
    """A client's server on this machine, and the logout tokens that it was told."""

    def __init__(self, site: Site, url: str) -> None:
        self._site, self.address, self._heard = site, f"{url}/logout", list[str]()

    def hear(self, form: dict[str, str]) -> None:
        """Take what was posted."""
        self._heard.append(form["logout_token"])

    def told(self) -> list[str]:
        """The tokens since it was last asked, once everything in the outbox is delivered."""
        for _ in range(2):  # a zone that is told tells its own clients
            self._site.run(self._site.services.outbox.deliver_due())
        heard, self._heard = self._heard, []
        return heard


@pytest.fixture
def receiver(site: Site) -> Iterator[Receiver]:
    """A receiver at a loopback address, which a server for development lets clients name."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.hear(dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode())))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Receiver(site, f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield made
        server.shutdown()


def checked(client: Client, token: str) -> dict[str, Any]:
    """What a logout token says, checked as its receiver does."""
    keys = jwt.PyJWKSet.from_dict(httpx.get(f"{client.issuer}/.well-known/jwks.json").json())
    header = jwt.get_unverified_header(token)
    assert header["typ"] == "logout+jwt"
    read: dict[str, Any] = jwt.decode(
        token,
        keys[header["kid"]].key,
        algorithms=["RS256"],
        issuer=client.issuer,
        audience=client.app.client_id,
        options={"require": ["iss", "aud", "iat", "exp", "jti", "events"]},
    )
    return read


METADATA_OF_A_CLIENT = {
    "redirect_uris": [CALLBACK],
    "post_logout_redirect_uris": ["https://app.example/bye"],
}


@dataclass
class SignedOut:
    """Ada was signed in to two clients that had registered themselves, and one of them signed her out.

    Attributes:
        client: the one that registered an address to be told at.
        tokens: what it had got.
        logout_tokens: everything that was delivered to that address.
    """

    client: Client
    tokens: dict[str, Any]
    logout_tokens: list[str]


@pytest.fixture
def signed_out(site: Site, receiver: Receiver) -> SignedOut:
    zone = site.zone()
    site.user(zone)
    issuer = str(zone.protocols.oauth2.issuer)
    wanting = METADATA_OF_A_CLIENT | {
        "backchannel_logout_uri": receiver.address,
        "backchannel_logout_session_required": True,
    }
    registered = [
        httpx.post(f"{issuer}/oauth/register", json=each).json() for each in (METADATA_OF_A_CLIENT, wanting)
    ]
    assert registered[1].items() >= wanting.items()
    quiet, told = (site.stranger(zone, each["client_id"], CALLBACK) for each in registered)
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
    return SignedOut(told, tokens, receiver.told())


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_a_client_that_registered_an_address_is_sent_one_logout_token(signed_out: SignedOut) -> None:
    """For its own session of that user, and for the logout event alone; a client without one gets none."""
    (token,) = signed_out.logout_tokens
    said, known = checked(signed_out.client, token), claims(signed_out.tokens["id_token"])
    assert (said["iss"], said["aud"]) == (signed_out.client.issuer, known["aud"])
    assert (said["sub"], said["sid"]) == (known["sub"], known["sid"])
    assert said["events"] == {LOGOUT_EVENT: {}}


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_a_logout_token_is_good_for_two_minutes_and_as_nothing_else(signed_out: SignedOut) -> None:
    """It has no nonce, so it is no ID token, and userinfo refuses it."""
    (token,) = signed_out.logout_tokens
    said = checked(signed_out.client, token)
    assert said["exp"] - said["iat"] == 120
    assert "nonce" not in said
    assert signed_out.client.userinfo(token).status_code == 401


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
@pytest.mark.parametrize(
    "wrong",
    ["http://app.example/logout", "https://app.example/logout#x", "javascript:alert(1)"],
    ids=["without TLS", "fragment", "script"],
)
def test_an_address_that_cannot_be_told_is_not_registered(site: Site, wrong: str) -> None:
    """The registration is refused as a whole."""
    metadata = METADATA_OF_A_CLIENT | {"backchannel_logout_uri": wrong}
    endpoint = site.zone().protocols.oauth2.registration_endpoint
    refused = httpx.post(str(endpoint), json=metadata)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata")


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_applications_are_told_however_a_session_ends(site: Site, receiver: Receiver) -> None:
    """By the user, by an administrator, with the user, and because the provider's session has ended.

    The session is the one of the application's tokens; who else the user signed in to hears of its own.
    The ways follow one another in one pair of zones, whose user is there until the last one deletes them.
    """
    chain = chained(site)
    places = {"redirect_uris": [CALLBACK], "backchannel_logout_uri": receiver.address}
    clients = {
        name: site.app(chain.product, name, protocols={"oauth2": places}) for name in ("told", "other")
    }
    base, headers = f"{site.server.url}/zones/{chain.product.id}", site.server.headers

    def managed(method: str, path: str, body: dict[str, str] | None = None) -> None:
        httpx.request(method, f"{base}/{path}", headers=headers, json=body).raise_for_status()

    def sign_out(zone: Zone, browser: Browser) -> None:
        page = browser.open(f"{zone.protocols.oauth2.issuer}/openid/logout")
        assert isinstance(page, Page)
        browser.send(page)

    def user_of(session_id: str) -> str:
        found = httpx.get(f"{base}/sessions/{session_id}", headers=headers).json()
        return f"users/{found['user_id']}"

    def change(path: str, **values: str) -> None:
        managed("PATCH", path, values)

    ways: tuple[tuple[Callable[[Browser, str], None], set[str]], ...] = (
        (lambda browser, sid: sign_out(chain.product, browser), {"told", "other"}),
        (lambda browser, sid: sign_out(chain.home, browser), {"told", "other"}),
        (lambda browser, sid: change(f"sessions/{sid}", status="revoked"), {"told"}),
        (lambda browser, sid: managed("DELETE", f"sessions/{sid}"), {"told"}),
        (lambda browser, sid: change(user_of(sid), status="disabled"), {"told", "other"}),
        (lambda browser, sid: managed("DELETE", user_of(sid)), {"told", "other"}),
    )
    for end, expected in ways:
        browser = Browser()
        signed_in = {name: claims(client.sign_in(browser)["id_token"]) for name, client in clients.items()}
        sid = signed_in["told"]["sid"]
        user = user_of(sid)
        assert receiver.told() == []

        end(browser, sid)

        heard = [(claims(token)["sid"], token) for token in receiver.told()]
        assert len({sid for sid, _ in heard}) == len(heard)
        for name, known in signed_in.items():
            tokens = [token for sid, token in heard if sid == known["sid"]]
            assert [checked(clients[name], token)["sub"] for token in tokens] == (
                [known["sub"]] if name in expected else []
            )
        if end is not ways[-1][0]:
            change(user, status="active")


@dataclass
class Offline:
    """Ada is signed in to a client that was granted `offline_access` and gave an address to be told at.

    Attributes:
        signed_in: its tokens.
    """

    site: Site
    client: Client
    browser: Browser
    receiver: Receiver
    signed_in: dict[str, Any]

    @property
    def sid(self) -> str:
        return str(claims(self.signed_in["id_token"])["sid"])

    def sign_out(self) -> None:
        """Sign out of the browser, on the zone's page."""
        page = self.browser.open(f"{self.client.issuer}/openid/logout")
        assert isinstance(page, Page)
        self.browser.send(page)

    def told(self) -> list[str]:
        """The sessions that the client has been told of since it was last asked."""
        return [checked(self.client, token)["sid"] for token in self.receiver.told()]


@pytest.fixture
def offline(site: Site, receiver: Receiver) -> Offline:
    zone = site.zone()
    site.user(zone)
    addresses = {"redirect_uris": [CALLBACK], "backchannel_logout_uri": receiver.address}
    client, browser = site.app(zone, "sync", protocols={"oauth2": addresses}), Browser()
    tokens = client.sign_in(browser, scope="openid offline_access")
    return Offline(site, client, browser, receiver, tokens)


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_offline_access_spares_the_refresh_token_and_no_more(offline: Offline) -> None:
    """The client is told that its user has signed out, once, and may act for them all the same."""
    assert offline.told() == []

    offline.sign_out()

    assert offline.told() == [offline.sid]
    refreshed = offline.client.refresh(offline.signed_in["refresh_token"])
    assert refreshed.status_code == 200
    offline.client.sign_in(offline.browser)
    offline.sign_out()
    assert offline.sid not in offline.told()


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_an_offline_session_is_of_the_browser_session_that_takes_the_place_of_its_own(
    offline: Offline,
) -> None:
    """Who proves again who they are, and then signs out, has signed out of what was begun before, too."""
    offline.browser.sign_in(offline.browser.open(offline.client.url(prompt="login")))
    assert offline.told() == []

    offline.sign_out()

    assert offline.told() == [offline.sid]


@pytest.mark.standard("OpenID Connect Back-Channel Logout")
def test_an_administrator_who_ends_the_browser_session_signs_offline_clients_out(
    offline: Offline,
) -> None:
    """As when the user signs out; ending the client's own session ends its refresh token, too."""
    server = offline.site.server
    base = f"{server.url}/zones/{offline.client.zone.id}/sessions"
    listed = httpx.get(base, headers=server.headers).json()["items"]
    (browser_session,) = {each["id"] for each in listed} - {offline.sid}

    httpx.patch(f"{base}/{browser_session}", headers=server.headers, json={"status": "revoked"})

    assert offline.told() == [offline.sid]
    tokens = offline.client.refresh(offline.signed_in["refresh_token"]).json()

    httpx.patch(f"{base}/{offline.sid}", headers=server.headers, json={"status": "revoked"})

    assert offline.told() == [offline.sid]
    assert offline.client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"

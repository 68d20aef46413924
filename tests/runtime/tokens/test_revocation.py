"""Revocation of tokens by the clients that hold them, and what those are told who verify by themselves."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from tests.runtime.login.conftest import pytest_generate_tests as _both_forms
from tests.runtime.login.conftest import site
from tests.support.factories import App
from tests.support.oauth_site import Browser, Site, claims
from tests.support.rewired import run_job

from runtime.domain.kinds.resource import Resource
from runtime.services import revocation_list
from runtime.services.container import Services
from runtime.services.revocation_list import JOB, Revocations, digest
from runtime.services.token_event_log import Decision
from runtime.services.tokens import revocation

__all__ = ["site"]
STORAGE = ("embedded", "servers")
API = "https://api.test"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On both forms of storage."""
    _both_forms(metafunc)


class Shop:
    """A zone with an application that signs people in, one that it calls, and one that provides both APIs."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.zone = site.zone()
        run, company = site.run, site.company
        self.server: App = run(company.app(self.zone, "api-server"))
        self.api: Resource = run(
            company.resource(self.zone, API, scopes=["read"], application_id=self.server.id)
        )
        self.notes = site.app(self.zone, dependencies=[self.api])
        self.public = site.app(self.zone, "public", dependencies=[self.api], public=True)
        site.user(self.zone)

    def post(self, endpoint: str, app: App | None, /, **form: Any) -> httpx.Response:
        """The answer of an endpoint to a form."""
        fields = {**(app.form if app else {}), **form}
        return httpx.post(f"{self.notes.issuer}/oauth/{endpoint}", data=fields)

    def revoke(self, app: App | None, token: str, **more: Any) -> httpx.Response:
        return self.post("revoke", app, token=token, **more)

    def is_active(self, app: App, token: str) -> bool:
        answer = self.post("introspect", app, token=token)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["active"])

    def exchange(self, app: App, subject: str) -> str:
        answer = self.post(
            "token",
            app,
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            subject_token=subject,
            subject_token_type="urn:ietf:params:oauth:token-type:access_token",
            resource=API,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def delta(self, **more: Any) -> httpx.Response:
        return httpx.get(f"{self.notes.issuer}/.well-known/revocations", **more)

    def told(self) -> list[Mapping[str, Any]]:
        entries: list[Mapping[str, Any]] = self.delta().json()["revocations"]
        return entries


@pytest.fixture(scope="module")
def shop(site: Site) -> Shop:
    return Shop(site)


@pytest.fixture
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.http.close()


@pytest.fixture
def moments(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be answered from a moment ago."""
    monkeypatch.setattr("runtime.services.revocation_list.FRESH_SECONDS", 0.0)


@pytest.mark.threat("18j", "18k", "18n")
@pytest.mark.standard("RFC 7009")
@pytest.mark.parametrize("which", ["refresh_token", "access_token"])
def test_a_token_of_a_sign_in_ends_what_came_from_it(
    shop: Shop, browser: Browser, moments: None, which: str
) -> None:
    """The family, its access tokens, and chains of exchanges; not the browser's session or other clients."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    others = shop.public.sign_in(browser)
    derived = shop.exchange(shop.notes.app, tokens["access_token"])
    assert shop.is_active(shop.server, tokens["access_token"])
    assert shop.is_active(shop.server, derived)
    assert shop.is_active(shop.notes.app, tokens["refresh_token"])

    answer = shop.revoke(shop.notes.app, tokens[which], token_type_hint="refresh_token")

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Cache-Control"] == "no-store"
    assert not shop.is_active(shop.server, tokens["access_token"])
    assert not shop.is_active(shop.server, derived)
    assert not shop.is_active(shop.notes.app, tokens["refresh_token"])
    assert shop.notes.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert {"sid": claims(tokens["access_token"])["sid"]} in shop.told()
    assert shop.public.userinfo(others["access_token"]).status_code == 200
    assert shop.notes.sign_in(browser)["access_token"], "the browser is still signed in"
    # Again is as good as once.
    assert shop.revoke(shop.notes.app, tokens[which]).status_code == 200


@pytest.mark.threat("43h", "43i", "43k")
@pytest.mark.parametrize("seconds", [0, 5, 20, 600])
@pytest.mark.parametrize("which", ["of a sign-in", "exchanged"])
def test_a_token_from_a_clock_ahead_is_revoked(
    shop: Shop, browser: Browser, moments: None, which: str, seconds: int
) -> None:
    """It seems not to have begun yet where it is given up, is good elsewhere, and ends all the same."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    token = str(tokens["access_token"])
    if which == "exchanged":
        token = shop.exchange(shop.notes.app, token)
    services, decision = shop.site.services, Decision("", "", datetime.now(UTC), "test-request")
    behind = services.clock() - timedelta(seconds=seconds)
    assert shop.is_active(shop.server, token)

    async def revoke() -> None:
        zone = await services.zones.get(shop.zone.id)
        client = await zone.clients.get(shop.notes.app.client_id)
        assert client is not None
        await revocation.revoke(services, zone, client, token, behind, decision)

    shop.site.run(revoke())

    assert decision.outcome == "revoked"
    assert not shop.is_active(shop.server, token)


def test_an_exchanged_token_ends_alone(shop: Shop, browser: Browser, moments: None) -> None:
    """The session is its subject's client's; the same request brings a new token, not the one given up."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    derived = shop.exchange(shop.notes.app, tokens["access_token"])
    assert shop.exchange(shop.notes.app, tokens["access_token"]) == derived
    own = shop.post("token", shop.notes.app, grant_type="client_credentials", resource=API).json()
    for token in (derived, own["access_token"]):
        assert shop.is_active(shop.server, token)

        assert shop.revoke(shop.notes.app, token).status_code == 200

        assert not shop.is_active(shop.server, token)
        assert {"jti": claims(token)["jti"]} in shop.told()
    refused = shop.post(
        "token",
        shop.notes.app,
        grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
        subject_token=derived,
        subject_token_type="urn:ietf:params:oauth:token-type:access_token",
        resource=API,
    )
    assert refused.json()["error"] == "invalid_grant"
    assert shop.is_active(shop.server, tokens["access_token"])
    anew = shop.exchange(shop.notes.app, tokens["access_token"])
    assert anew != derived
    assert shop.is_active(shop.server, anew)


@pytest.mark.threat("14d")
@pytest.mark.standard("RFC 7009")
def test_what_is_not_the_clients_stays(shop: Shop, browser: Browser) -> None:
    """Unknown, foreign and forged tokens are answered as the right one is, and nothing happens."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    refresh, access = tokens["refresh_token"], tokens["access_token"]
    family = refresh.partition(".")[0]
    for app, token in (
        (shop.server, refresh),
        (shop.server, access),
        (shop.public.app, refresh),
        (shop.notes.app, f"{family}.guessed"),
        (shop.notes.app, access[:-4] + "AAAA"),
        (shop.notes.app, "a.b.c"),
        (shop.notes.app, "unknown"),
    ):
        answer = shop.revoke(app, token)
        assert (answer.status_code, answer.content) == (200, b"")
    assert shop.is_active(shop.server, access)
    assert shop.is_active(shop.notes.app, refresh)

    answer = shop.revoke(shop.notes.app, tokens["id_token"])
    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_token_type")


@pytest.mark.threat("36b", "36f")
def test_requests_that_are_refused(shop: Shop, browser: Browser) -> None:
    """Both endpoints take a form from an authenticated client, each parameter once."""
    token = shop.notes.sign_in(browser)["refresh_token"]
    app = shop.notes.app
    for endpoint in ("revoke", "introspect"):
        url = f"{shop.notes.issuer}/oauth/{endpoint}"
        twice = httpx.post(url, content=f"token=a&token=b&client_id={app.client_id}", headers=FORM)
        cases = [
            (httpx.post(url, data={"token": token}), 401, "invalid_client"),
            (shop.post(endpoint, app, token=token, client_secret="wrong"), 401, "invalid_client"),
            (shop.post(endpoint, app), 400, "invalid_request"),
            (twice, 400, "invalid_request"),
            (httpx.post(url, params={"token": token}, data=app.form), 400, "invalid_request"),
            (httpx.post(url, json={"token": token}), 400, "invalid_request"),
            (httpx.post(url, data={"token": "a" * 70_000}), 413, "invalid_request"),
        ]
        for number, (answer, status, code) in enumerate(cases):
            assert (answer.status_code, answer.json()["error"]) == (status, code), f"{endpoint} {number}"
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert httpx.get(url).status_code == 405
        basic = httpx.post(url, data={"token": token}, auth=(app.client_id, "wrong"))
        assert basic.headers["WWW-Authenticate"].startswith("Basic ")
        allowed = httpx.options(url, headers={"Origin": "null", "Access-Control-Request-Method": "POST"})
        assert allowed.status_code == 204
        assert "Access-Control-Allow-Credentials" not in allowed.headers
    assert shop.is_active(app, token)
    assert shop.post("introspect", shop.public.app, token=token).json()["error"] == "invalid_client"


def test_a_database_that_is_away(shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is told that a token was revoked when it was not: 503, to be tried again."""
    from runtime.domain.errors import Unavailable
    from runtime.storage.sql.database import Database

    token = shop.notes.sign_in(browser)["refresh_token"]
    assert shop.is_active(shop.notes.app, token)

    def away(_database: Database) -> Any:
        raise Unavailable("away")

    with monkeypatch.context() as context:
        context.setattr(Database, "querying", away)
        answers = [shop.revoke(shop.notes.app, token), shop.post("introspect", shop.notes.app, token=token)]
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"] == "temporarily_unavailable"
        assert int(answer.headers["Retry-After"]) > 0


def test_the_delta_is_a_list_that_goes_on(shop: Shop, browser: Browser, moments: None) -> None:
    """Everything at first, then what is new since a cursor; a tag saves the body; nothing names anybody."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    sid = claims(tokens["access_token"])["sid"]
    first = shop.delta()
    assert first.headers["Access-Control-Allow-Origin"] == "*"
    assert first.headers["Cache-Control"] == "max-age=1, must-revalidate"
    assert shop.delta(headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    assert {"sid": sid} not in first.json()["revocations"]

    shop.revoke(shop.notes.app, tokens["refresh_token"])

    cursor = first.json()["next"]
    again = shop.delta(headers={"If-None-Match": first.headers["ETag"]}, params={"since": cursor})
    assert again.status_code == 200
    assert {"sid": sid} in again.json()["revocations"]
    assert again.json()["issuer"] == shop.notes.issuer
    far = shop.delta(params={"since": str(int(cursor) + 1000)})
    assert far.json()["revocations"] == []
    for wrong in ("x", "-1", "1.5", "9" * 12, "٣"):
        assert shop.delta(params={"since": wrong}).json()["error"] == "invalid_request"
    assert "ada@acme.example" not in shop.delta().text


@pytest.mark.threat("41m")
def test_what_is_listed_is_worked_out_once(
    shop: Shop, moments: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many strangers ask for all of a long list: one new entry is the work for one entry."""

    def revoked() -> str:
        own = shop.post("token", shop.notes.app, grant_type="client_credentials", resource=API).json()
        assert shop.revoke(shop.notes.app, own["access_token"]).status_code == 200
        return str(claims(own["access_token"])["jti"])

    first = [revoked() for _ in range(5)]
    assert set(first) <= {each.get("jti") for each in shop.told()}
    worked_out: list[Any] = []

    def counted(entry: Any) -> dict[str, Any]:
        worked_out.append(entry)
        return told(entry)

    told = revocation_list._published
    monkeypatch.setattr(revocation_list, "_published", counted)
    answers = {shop.delta().content.partition(b'"revocations"')[2] for _ in range(20)}
    assert len(answers) == 1
    assert worked_out == []

    last = revoked()
    assert {*first, last} <= {each.get("jti") for each in shop.told()}
    assert [each.claims for each in worked_out] == [{"jti": last}]


def test_the_delta_tells_of_clients_by_digest(shop: Shop, moments: None) -> None:
    """A client id or an identifier stands there as its digest."""
    from runtime.domain.kinds import APPLICATION

    gone = shop.site.run(shop.site.company.app(shop.zone, "gone"))
    shop.site.run(shop.site.company.delete(APPLICATION, shop.zone.id, gone.id))

    told = {name: value for entry in shop.told() for name, value in entry.items() if "#" in name}
    assert told["client_id#S256"] == digest(gone.client_id)
    assert told["actor#S256"] == digest("gone")
    assert "gone" not in shop.delta().text


def test_entries_go_when_nobody_needs_them(shop: Shop) -> None:
    """The job forgets what has expired by itself."""
    from datetime import timedelta

    own = shop.post("token", shop.notes.app, grant_type="client_credentials", resource=API).json()
    shop.revoke(shop.notes.app, own["access_token"])

    async def later(services: Services) -> tuple[int, int]:
        assert await run_job(services, JOB) is not None
        future = Revocations(services.database, lambda: services.clock() + timedelta(days=2))
        return await future.prune(), await future.prune()

    first, second = shop.site.server.call(later)
    assert first > 0
    assert second == 0

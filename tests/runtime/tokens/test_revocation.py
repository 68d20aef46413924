"""Revocation (RFC 7009) by the clients that hold tokens, and the list for APIs that verify by themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest
from jwt import PyJWKClient
from sqlalchemy import select
from tests.runtime.login.conftest import pytest_generate_tests as _both_forms
from tests.runtime.login.conftest import site
from tests.support.factories import App
from tests.support.oauth_site import Browser, Site, claims
from tests.support.rewired import run_job

from runtime.domain.kinds.resource import Resource
from runtime.services import revocation_list
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.rate_limits import RECORDED_REFUSALS_OF_ADDRESS
from runtime.services.revocation_list import JOB, Revocations, digest
from runtime.services.tokens import revocation
from runtime.storage.sql.tables import token_events

__all__ = ["site"]
STORAGE = ("embedded", "servers")
API = "https://api.test"
FRESH = "runtime.services.revocation_list.FRESH_SECONDS"
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
    monkeypatch.setattr(FRESH, 0.0)


@dataclass(frozen=True)
class Revoked:
    """A sign-in whose token was revoked, what came from it, and another client of the same browser."""

    browser: Browser
    tokens: Mapping[str, Any]
    derived: str
    others: Mapping[str, Any]
    which: str
    answer: httpx.Response


@pytest.fixture(scope="module", params=["refresh_token", "access_token"])
def revoked(shop: Shop, request: pytest.FixtureRequest) -> Iterator[Revoked]:
    """One sign-in, one exchange and one revocation for all the tests of what it ends and what it leaves."""
    browser = Browser()
    tokens = shop.notes.sign_in(browser, resources=[API])
    others = shop.public.sign_in(browser)
    derived = shop.exchange(shop.notes.app, tokens["access_token"])
    assert shop.is_active(shop.server, tokens["access_token"])
    assert shop.is_active(shop.server, derived)
    assert shop.is_active(shop.notes.app, tokens["refresh_token"])
    answer = shop.revoke(shop.notes.app, tokens[request.param], token_type_hint="refresh_token")
    yield Revoked(browser, tokens, derived, others, request.param, answer)
    browser.http.close()


@pytest.mark.standard("RFC 7009")
def test_revocation_is_answered_200_without_a_body(revoked: Revoked) -> None:
    """Whichever token of the sign-in it was, and whatever the hint said; no cache keeps it."""
    assert (revoked.answer.status_code, revoked.answer.content) == (200, b"")
    assert revoked.answer.headers["Cache-Control"] == "no-store"


@pytest.mark.standard("RFC 7009")
def test_an_answer_without_a_body_has_no_content_type(revoked: Revoked) -> None:
    """A client that parses by content type finds nothing that it would have to parse."""
    assert "Content-Type" not in revoked.answer.headers


@pytest.mark.threat("18n")
@pytest.mark.standard("RFC 7009")
def test_revocation_ends_the_access_token(shop: Shop, moments: None, revoked: Revoked) -> None:
    """Revoking the refresh token ends it as revoking itself does."""
    assert not shop.is_active(shop.server, revoked.tokens["access_token"])


@pytest.mark.threat("18n")
def test_revocation_ends_what_was_exchanged_for_the_access_token(
    shop: Shop, moments: None, revoked: Revoked
) -> None:
    """Chains of exchanges end with the sign-in that they began with."""
    assert not shop.is_active(shop.server, revoked.derived)


@pytest.mark.threat("18k", "18n")
@pytest.mark.standard("RFC 7009")
def test_revocation_ends_the_refresh_token(shop: Shop, moments: None, revoked: Revoked) -> None:
    """It is inactive, and a refresh with it is refused."""
    assert not shop.is_active(shop.notes.app, revoked.tokens["refresh_token"])
    assert shop.notes.refresh(revoked.tokens["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.threat("18j")
def test_revocation_lists_the_session_of_the_sign_in(shop: Shop, moments: None, revoked: Revoked) -> None:
    """APIs that verify by themselves find its `sid` in the delta."""
    assert {"sid": claims(revoked.tokens["access_token"])["sid"]} in shop.told()


def test_revocation_leaves_other_clients_and_the_browsers_session(shop: Shop, revoked: Revoked) -> None:
    """Another client's token still works, and the user need not sign in again."""
    assert shop.public.userinfo(revoked.others["access_token"]).status_code == 200
    assert shop.notes.sign_in(revoked.browser)["access_token"], "the browser is still signed in"


@pytest.mark.standard("RFC 7009")
def test_revoking_again_is_as_good_as_once(shop: Shop, revoked: Revoked) -> None:
    """A token that has ended is answered as one that ends now."""
    assert shop.revoke(shop.notes.app, revoked.tokens[revoked.which]).status_code == 200


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


def own_token(shop: Shop) -> str:
    """A token that the application has for itself."""
    answer = shop.post("token", shop.notes.app, grant_type="client_credentials", resource=API)
    return str(answer.json()["access_token"])


@pytest.mark.parametrize("which", ["exchanged", "own"])
def test_a_token_without_a_family_is_listed_by_its_id(
    shop: Shop, browser: Browser, moments: None, which: str
) -> None:
    """An exchanged token, and an application's own, is inactive once revoked, and the delta has its `jti`."""
    token = own_token(shop)
    if which == "exchanged":
        token = shop.exchange(shop.notes.app, shop.notes.sign_in(browser, resources=[API])["access_token"])
    assert shop.is_active(shop.server, token)

    assert shop.revoke(shop.notes.app, token).status_code == 200

    assert not shop.is_active(shop.server, token)
    assert {"jti": claims(token)["jti"]} in shop.told()


@dataclass(frozen=True)
class GivenUp:
    """The access token of a sign-in, and one that was exchanged for it and revoked."""

    subject: str
    derived: str


@pytest.fixture
def given_up(shop: Shop, browser: Browser, moments: None) -> GivenUp:
    subject = str(shop.notes.sign_in(browser, resources=[API])["access_token"])
    derived = shop.exchange(shop.notes.app, subject)
    assert shop.exchange(shop.notes.app, subject) == derived
    assert shop.revoke(shop.notes.app, derived).status_code == 200
    return GivenUp(subject, derived)


def test_a_revoked_exchanged_token_is_no_subject(shop: Shop, given_up: GivenUp) -> None:
    """It cannot be exchanged further."""
    refused = shop.post(
        "token",
        shop.notes.app,
        grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
        subject_token=given_up.derived,
        subject_token_type="urn:ietf:params:oauth:token-type:access_token",
        resource=API,
    )

    assert refused.json()["error"] == "invalid_grant"


def test_a_revoked_exchanged_token_leaves_its_subject(shop: Shop, given_up: GivenUp) -> None:
    """The session is its subject's client's: the token that was exchanged goes on."""
    assert shop.is_active(shop.server, given_up.subject)


def test_the_same_exchange_after_a_revocation_brings_a_new_token(shop: Shop, given_up: GivenUp) -> None:
    """The cached token, which the same request was answered with before, is not given out again."""
    anew = shop.exchange(shop.notes.app, given_up.subject)

    assert anew != given_up.derived
    assert shop.is_active(shop.server, anew)


@pytest.fixture(scope="module")
def kept(shop: Shop) -> Iterator[Mapping[str, Any]]:
    """The tokens of a sign-in that nothing may end."""
    browser = Browser()
    yield shop.notes.sign_in(browser, resources=[API])
    browser.http.close()


NOT_THE_CLIENTS = {
    "refresh token at its API": ("server", "{refresh}"),
    "access token at its API": ("server", "{access}"),
    "refresh token at another client": ("public", "{refresh}"),
    "guessed secret": ("notes", "{family}.guessed"),
    "forged signature": ("notes", "{signed}AAAA"),
    "dots": ("notes", "a.b.c"),
    "unknown": ("notes", "unknown"),
}


@pytest.mark.threat("14d")
@pytest.mark.standard("RFC 7009")
@pytest.mark.parametrize(("client", "token"), NOT_THE_CLIENTS.values(), ids=NOT_THE_CLIENTS)
def test_revoking_what_is_not_the_clients_does_nothing(
    shop: Shop, kept: Mapping[str, Any], client: str, token: str
) -> None:
    """Unknown, foreign and forged tokens are answered as the right one is, and nothing happens."""
    refresh, access = kept["refresh_token"], kept["access_token"]
    app = {"server": shop.server, "public": shop.public.app, "notes": shop.notes.app}[client]
    family = refresh.partition(".")[0]

    answer = shop.revoke(app, token.format(refresh=refresh, access=access, family=family, signed=access[:-4]))

    assert (answer.status_code, answer.content) == (200, b"")
    assert shop.is_active(shop.server, access)
    assert shop.is_active(shop.notes.app, refresh)


@pytest.mark.standard("RFC 7009")
def test_an_id_token_cannot_be_revoked(shop: Shop, kept: Mapping[str, Any]) -> None:
    """There is nothing to end: `unsupported_token_type`."""
    answer = shop.revoke(shop.notes.app, kept["id_token"])

    assert (answer.status_code, answer.json()["error"]) == (400, "unsupported_token_type")


REFUSED: dict[str, tuple[int, str]] = {
    "no client": (401, "invalid_client"),
    "wrong secret": (401, "invalid_client"),
    "no token": (400, "invalid_request"),
    "token twice": (400, "invalid_request"),
    "token in the query": (400, "invalid_request"),
    "JSON": (400, "invalid_request"),
    "too large": (413, "invalid_request"),
}
BOTH = pytest.mark.parametrize("endpoint", ["revoke", "introspect"])


def mistaken(shop: Shop, endpoint: str, token: str, mistake: str) -> httpx.Response:
    """The answer to a request with one mistake."""
    app, url = shop.notes.app, f"{shop.notes.issuer}/oauth/{endpoint}"
    if mistake == "wrong secret":
        return shop.post(endpoint, app, token=token, client_secret="wrong")
    sent: dict[str, dict[str, Any]] = {
        "no client": {"data": {"token": token}},
        "no token": {"data": app.form},
        "token twice": {"content": f"token=a&token=b&client_id={app.client_id}", "headers": FORM},
        "token in the query": {"params": {"token": token}, "data": app.form},
        "JSON": {"json": {"token": token}},
        "too large": {"data": {"token": "a" * 70_000}},
    }
    return httpx.post(url, **sent[mistake])


@pytest.mark.threat("36b", "36f")
@BOTH
@pytest.mark.parametrize("mistake", REFUSED)
def test_a_request_with_a_mistake_is_refused(
    shop: Shop, kept: Mapping[str, Any], endpoint: str, mistake: str
) -> None:
    """Both endpoints take a form from an authenticated client, each parameter once; nothing is revoked."""
    answer = mistaken(shop, endpoint, kept["refresh_token"], mistake)

    assert (answer.status_code, answer.json()["error"]) == REFUSED[mistake]
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert shop.is_active(shop.notes.app, kept["refresh_token"])


@BOTH
def test_get_is_answered_405(shop: Shop, endpoint: str) -> None:
    """Tokens do not belong in an address."""
    assert httpx.get(f"{shop.notes.issuer}/oauth/{endpoint}").status_code == 405


@BOTH
def test_a_wrong_secret_in_the_header_is_answered_with_a_challenge(
    shop: Shop, kept: Mapping[str, Any], endpoint: str
) -> None:
    """Who used Basic is asked for it again."""
    basic = httpx.post(
        f"{shop.notes.issuer}/oauth/{endpoint}",
        data={"token": kept["refresh_token"]},
        auth=(shop.notes.app.client_id, "wrong"),
    )

    assert basic.headers["WWW-Authenticate"].startswith("Basic ")
    assert shop.is_active(shop.notes.app, kept["refresh_token"])


@pytest.mark.threat("36b")
@BOTH
def test_preflights_are_answered_without_credentials(shop: Shop, endpoint: str) -> None:
    """Any origin may ask, and cookies are never part of it."""
    allowed = httpx.options(
        f"{shop.notes.issuer}/oauth/{endpoint}",
        headers={"Origin": "null", "Access-Control-Request-Method": "POST"},
    )

    assert allowed.status_code == 204
    assert "Access-Control-Allow-Credentials" not in allowed.headers


def test_a_public_client_may_not_introspect(shop: Shop, kept: Mapping[str, Any]) -> None:
    """Introspection is for clients that prove who they are."""
    refused = shop.post("introspect", shop.public.app, token=kept["refresh_token"])

    assert refused.json()["error"] == "invalid_client"


@BOTH
def test_without_a_database_the_answer_is_503(
    shop: Shop, kept: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """Nobody is told that a token was revoked when it was not: it is to be tried again."""
    from runtime.domain.errors import Unavailable
    from runtime.storage.sql.database import Database

    token = kept["refresh_token"]
    assert shop.is_active(shop.notes.app, token)

    def away(_database: Database) -> Any:
        raise Unavailable("away")

    with monkeypatch.context() as context:
        context.setattr(Database, "querying", away)
        answer = shop.post(endpoint, shop.notes.app, token=token)

    assert answer.status_code == 503
    assert answer.json()["error"] == "temporarily_unavailable"
    assert int(answer.headers["Retry-After"]) > 0


def test_the_delta_is_open_and_hardly_kept(shop: Shop, moments: None) -> None:
    """Any origin may read it, and after a second whoever keeps it asks again; it names the zone."""
    first = shop.delta()

    assert first.headers["Access-Control-Allow-Origin"] == "*"
    assert first.headers["Cache-Control"] == "max-age=1, must-revalidate"
    assert first.json()["issuer"] == shop.notes.issuer


def test_an_entity_tag_saves_the_body_of_the_delta(shop: Shop, moments: None) -> None:
    """While nothing is new the answer is 304."""
    tag = shop.delta().headers["ETag"]

    assert shop.delta(headers={"If-None-Match": tag}).status_code == 304


def test_the_delta_goes_on_from_a_cursor(shop: Shop, browser: Browser, moments: None) -> None:
    """What is revoked after an answer is in the one to its cursor, whatever tag comes with it."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    sid = claims(tokens["access_token"])["sid"]
    first = shop.delta()
    assert {"sid": sid} not in first.json()["revocations"]

    shop.revoke(shop.notes.app, tokens["refresh_token"])

    again = shop.delta(
        headers={"If-None-Match": first.headers["ETag"]}, params={"since": first.json()["next"]}
    )
    assert again.status_code == 200
    assert {"sid": sid} in again.json()["revocations"]
    assert again.json()["issuer"] == shop.notes.issuer


def test_a_cursor_beyond_the_end_has_an_empty_delta(shop: Shop, moments: None) -> None:
    """There is nothing there yet."""
    far = shop.delta(params={"since": str(int(shop.delta().json()["next"]) + 1000)})

    assert far.json()["revocations"] == []


@pytest.mark.parametrize(
    "wrong",
    ["x", "-1", "1.5", "9" * 12, "٣"],
    ids=["letter", "negative", "fraction", "too large", "Arabic digit"],
)
def test_a_cursor_that_is_none_is_refused(shop: Shop, moments: None, wrong: str) -> None:
    """A cursor is a whole number in ASCII digits."""
    assert shop.delta(params={"since": wrong}).json()["error"] == "invalid_request"


def test_the_delta_names_nobody(shop: Shop, browser: Browser, moments: None) -> None:
    """A session that was revoked stands there, and its user's name does not."""
    tokens = shop.notes.sign_in(browser, resources=[API])
    shop.revoke(shop.notes.app, tokens["refresh_token"])

    assert claims(tokens["access_token"])["sid"] in shop.delta().text
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
    assert '"gone"' not in shop.delta().text


class TestSigned:
    """The list as a JWS, for who asks for its media type."""

    TYPE = f"application/{revocation_list.TYPE}"

    def signed(self, shop: Shop, **parameters: str) -> dict[str, Any]:
        """The claims, verified with the zone's published keys."""
        answer = shop.delta(params=parameters, headers={"Accept": self.TYPE})
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, self.TYPE), answer.text
        key = PyJWKClient(f"{shop.notes.issuer}/.well-known/jwks.json").get_signing_key_from_jwt(answer.text)
        found: dict[str, Any] = jwt.decode(answer.text, key, ["ES256"], issuer=shop.notes.issuer)
        return found

    def test_it_has_the_entries_of_the_json_form(self, shop: Shop, browser: Browser, moments: None) -> None:
        """And says until when it is good; a browser's application may read it."""
        tokens = shop.notes.sign_in(browser, resources=[API])
        shop.revoke(shop.notes.app, tokens["refresh_token"])
        claims_ = self.signed(shop)
        assert {"sid": claims(tokens["access_token"])["sid"]} in claims_["revocations"]
        assert claims_["revocations"] == shop.told()
        assert claims_["exp"] - claims_["iat"] == 30
        assert claims_.keys() == {"iss", "iat", "exp", "next", "revocations"}

    def test_it_begins_less_than_a_minute_before_the_cursor(
        self, shop: Shop, browser: Browser, moments: None
    ) -> None:
        """What is revoked after a list is in the one to its cursor."""
        first = self.signed(shop)
        tokens = shop.notes.sign_in(browser, resources=[API])
        shop.revoke(shop.notes.app, tokens["refresh_token"])
        again = self.signed(shop, since=first["next"])
        assert {"sid": claims(tokens["access_token"])["sid"]} in again["revocations"]
        assert 0 <= int(first["next"]) - int(again["since"]) < 60

    @pytest.mark.parametrize("accept", [None, "*/*", "application/json", "text/html", ";;"])
    def test_every_other_caller_gets_json(self, shop: Shop, accept: str | None) -> None:
        """No cache takes one for the other."""
        headers = {} if accept is None else {"Accept": accept}
        answer = shop.delta(headers=headers)
        assert (answer.headers["Content-Type"], answer.headers["Vary"]) == ("application/json", "Accept")
        assert answer.json()["issuer"] == shop.notes.issuer
        assert shop.delta(headers={"Accept": self.TYPE}).headers["Vary"] == "Accept"

    def test_a_tag_does_not_save_its_body(self, shop: Shop, moments: None) -> None:
        """304 would be signed by nobody: whoever stands between could answer it for ever."""
        tag = shop.delta().headers["ETag"]
        assert shop.delta(headers={"If-None-Match": tag}).status_code == 304
        answer = shop.delta(headers={"If-None-Match": tag, "Accept": self.TYPE})
        assert (answer.status_code, "ETag" in answer.headers) == (200, False)

    def test_a_cursor_that_is_none_is_refused(self, shop: Shop) -> None:
        """As it is for the JSON form."""
        self.signed(shop, since="1")
        answer = shop.delta(params={"since": "x"}, headers={"Accept": self.TYPE})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")

    @pytest.mark.threat("41m")
    def test_strangers_make_the_zone_sign_few_lists(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever cursors they think of: twelve as long as nothing is read anew, and those serve all."""
        made: list[bytes] = []

        def counted(*arguments: Any) -> bytes:
            made.append(sign(*arguments))
            return made[-1]

        sign = revocation_list._sign
        monkeypatch.setattr(revocation_list, "_sign", counted)
        monkeypatch.setattr(FRESH, 3600.0)

        async def flood(services: Services) -> set[bytes]:
            zone = await services.zones.get(shop.zone.id)
            instant = services.clock()
            now = int(instant.timestamp())
            cursors = [None, *map(str, range(now - 2_000, now + 2_000)), *map(str, range(0, now, 10**6))]
            lists = Revocations(services.database, lambda: instant)
            return {await lists.signed_since(zone, each) for each in cursors}

        answers = shop.site.server.call(flood)
        assert len(made) == len(answers) <= 12


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


def _recorded(site: Site, app: App) -> list[tuple[str, int | None]]:
    """The outcomes of an application's revocations, and of those that are only counted, as they stand."""

    async def read(services: Services) -> list[tuple[str, int | None]]:
        await services.decisions.flush()
        whose = token_events.c.application_id
        rows = (
            select(token_events.c.outcome, token_events.c.requests)
            .where(token_events.c.event == "revocation", (whose == app.application.id) | whose.is_(None))
            .order_by(token_events.c.id)
        )
        async with services.database.reading() as conn:
            return [(row.outcome, row.requests) for row in (await conn.execute(rows)).all()]

    return site.server.call(read)


@pytest.mark.threat("0e", "41k")
@pytest.mark.usefixtures("one_window")
def test_unknown_tokens_of_a_public_client_are_counted(site: Site, browser: Browser) -> None:
    """So many have a row each, the rest have one together; what is revoked in fact has its row as ever."""
    shop = Shop(site)
    most = RECORDED_REFUSALS_OF_ADDRESS.amount_under(site.services.settings)
    first, second = (shop.public.sign_in(browser)["access_token"] for _ in range(2))
    before = _recorded(site, shop.public.app)
    assert shop.revoke(shop.public.app, first).status_code == 200
    assert _recorded(site, shop.public.app) == [*before, ("revoked", None)]

    assert {shop.revoke(shop.public.app, f"unknown-{number}").status_code for number in range(most + 20)} == {
        200
    }
    assert shop.revoke(shop.public.app, second).status_code == 200

    told = _recorded(site, shop.public.app)
    single = [outcome for outcome, requests in told if requests is None]
    assert (single.count("ignored"), single.count("revoked")) == (most, 2)
    assert [each for each in told if each[1] is not None and each not in before] == [("ignored", 20)]


@pytest.mark.threat("41k")
@pytest.mark.usefixtures("one_window")
def test_unknown_tokens_of_a_known_client_have_a_row_each(site: Site) -> None:
    """An application that has proved itself is no stranger: nothing that it does is only counted."""
    shop = Shop(site)
    most = RECORDED_REFUSALS_OF_ADDRESS.amount_under(site.services.settings)

    assert {shop.revoke(shop.notes.app, f"unknown-{number}").status_code for number in range(most + 5)} == {
        200
    }

    own = [outcome for outcome, requests in _recorded(site, shop.notes.app) if requests is None]
    assert own.count("ignored") == most + 5

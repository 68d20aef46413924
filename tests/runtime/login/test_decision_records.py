"""Every sign-in that succeeds or is refused at a browser leaves a record, found by its request id."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from sqlalchemy import select, update
from tests.runtime.login.federation import federated
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Client, Page, Site, chained
from tests.support.openid_server import openid_server
from tests.support.possession import Holder

from runtime.domain.kinds import USER
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.container import Services
from runtime.storage.sql.tables import refresh_families, token_events

STORAGE = ("embedded", "servers")


def records(site: Site, zone: Zone) -> list[Any]:
    """What is recorded of a zone, the oldest first."""

    async def read(services: Services) -> list[Any]:
        await services.decisions.flush()
        async with services.database.reading() as conn:
            found = await conn.execute(
                select(token_events).where(token_events.c.zone_id == zone.id).order_by(token_events.c.at)
            )
            return list(found.all())

    return site.server.call(read)


def last(site: Site, zone: Zone) -> Any:
    return records(site, zone)[-1]


@pytest.fixture
def client(site: Site) -> Client:
    zone = site.zone()
    site.user(zone)
    return site.app(zone)


def test_a_page_that_is_only_shown_leaves_no_record(site: Site, browser: Browser, client: Client) -> None:
    """An authorize request that leads to the sign-in page has not come to anything yet."""
    browser.open(client.url())

    assert records(site, client.zone) == []


def test_a_wrong_password_leaves_a_record_of_whose_account_it_was_tried_at(
    site: Site, browser: Browser, client: Client
) -> None:
    """The answer does not tell an unknown user from a wrong password; the record does, by the user's id."""
    page = browser.open(client.url())
    assert isinstance(page, Page)

    back = browser.send(page, email="ada@acme.example", password="not the password")

    record = last(site, client.zone)
    assert isinstance(back, Page)
    assert record.request_id == back.response.headers["X-Request-ID"]
    assert (record.event, record.outcome) == ("sign_in", "refused")
    assert record.reason.startswith("wrong_password")
    assert record.user_id is not None
    assert "not the password" not in str(record)


def test_an_unknown_user_leaves_a_record_without_the_name_that_was_tried(
    site: Site, browser: Browser, client: Client
) -> None:
    """What is typed into the field of the address may be a password: no record has it."""
    page = browser.open(client.url())
    assert isinstance(page, Page)

    browser.send(page, email="nobody@acme.example", password=PASSWORD)

    record = last(site, client.zone)
    assert (record.event, record.outcome, record.user_id) == ("sign_in", "refused", None)
    assert "nobody" not in str(record)
    assert PASSWORD not in str(record)


def test_a_sign_in_leaves_a_record_of_user_and_application(
    site: Site, browser: Browser, client: Client
) -> None:
    """Whatever follows it, a question or a code."""
    page = browser.open(client.url())

    browser.sign_in(page)

    signed_in = next(each for each in records(site, client.zone) if each.event == "sign_in")
    assert signed_in.outcome == "signed_in"
    assert signed_in.application_id == client.app.id
    assert signed_in.user_id is not None


def test_a_denied_consent_leaves_a_record(site: Site, browser: Browser) -> None:
    """The user's no is a refusal, with the user and the application."""
    zone = site.zone()
    user = site.user(zone)
    client = site.app(zone, consent="required")
    page = browser.open(client.url())
    assert isinstance(page, Page)
    question = browser.send(page, email="ada@acme.example", password=PASSWORD)
    assert isinstance(question, Page)

    browser.send(question, decision="deny")

    record = last(site, zone)
    assert (record.event, record.outcome, record.reason) == (
        "consent",
        "refused",
        "access_denied: the user denied the request",
    )
    assert (record.user_id, record.application_id) == (user.id, client.app.id)


def test_a_code_for_who_is_signed_in_leaves_a_record(site: Site, browser: Browser, client: Client) -> None:
    """A second authorize request of the same browser is answered with a code at once."""
    browser.sign_in(browser.open(client.url()))

    again = browser.open(client.url())

    assert isinstance(again, Answer)
    record = last(site, client.zone)
    assert (record.event, record.outcome) == ("authorize", "issued")
    assert record.application_id == client.app.id


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        (
            {"scope": "nothing"},
            "invalid_scope: none of the scopes can be granted; scopes of a resource require `resource`",
        ),
        ({"prompt": "none"}, "login_required: no session satisfies the request (`prompt=none`)"),
    ],
    ids=["invalid_scope", "login_required"],
)
def test_a_refused_authorize_request_leaves_a_record_with_the_error(
    site: Site, browser: Browser, client: Client, parameters: dict[str, str], error: str
) -> None:
    """The error, and the text, that is told to the application by redirect."""
    browser.open(client.url(**parameters))

    record = last(site, client.zone)
    assert (record.event, record.outcome, record.reason) == ("authorize", "refused", error)
    assert record.application_id == client.app.id


def test_a_link_that_leads_nowhere_leaves_a_record_with_the_reason(
    site: Site, browser: Browser, client: Client
) -> None:
    """An address that is not registered is told to the person at the browser, and to the record."""
    browser.open(client.url(redirect_uri=f"{CALLBACK}/other"))

    record = last(site, client.zone)
    assert record.reason == "bad_link: this `redirect_uri` is not registered for the application"
    assert record.application_id is None


def test_a_provider_that_refuses_leaves_a_record(site: Site, browser: Browser) -> None:
    """What the provider answers instead of a code is recorded with the application that waits for it."""
    chain = chained(site)
    client = site.app(chain.product)
    away = browser.http.get(client.url(), follow_redirects=False).headers["location"]
    state = dict(parse_qsl(urlsplit(away).query))["state"]
    answer = {"error": "access_denied", "state": state, "iss": str(chain.home.protocols.oauth2.issuer)}

    browser.open(f"{chain.product.protocols.oauth2.redirect_uri}?{urlencode(answer)}")

    record = last(site, chain.product)
    assert (record.event, record.outcome) == ("callback", "refused")
    provider = f"provider `{chain.home.protocols.oauth2.issuer}`"
    assert record.reason == f"access_denied: {provider}: the identity provider did not complete the sign-in"
    assert record.application_id == client.app.id


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((400, {"error": "invalid_grant"}), "the token endpoint: `invalid_grant`, HTTP status 400"),
        ((401, {"error": "invalid_client"}), "the token endpoint: `invalid_client`, HTTP status 401"),
        ((503, {}), "the token endpoint: `unavailable`, HTTP status 503"),
        (
            (200, {"access_token": "at", "token_type": "Bearer"}),
            "the ID token: the provider sent no ID token",
        ),
    ],
    ids=["code", "secret", "away", "no ID token"],
)
def test_a_code_that_the_provider_refuses_leaves_a_record(
    site: Site, browser: Browser, answer: tuple[int, Any], said: str
) -> None:
    """Which provider, at which step, and with which error; the page has the request id alone."""
    with openid_server() as provider:
        provider.says = {"sub": "ada", "email": "ada@acme.example", "email_verified": True}
        client = site.app(federated(site, provider.issuer))
        assert isinstance(Browser().open(client.url()), Answer)
        provider.token_answer = answer

        page = browser.open(client.url())

    assert isinstance(page, Page)
    record = last(site, client.zone)
    assert record.reason == f"sign_in_unavailable: provider `{provider.issuer}`: {said}"
    assert record.request_id in page.text
    assert provider.issuer not in page.text


@pytest.mark.threat("41a")
def test_refusals_beyond_the_limit_of_an_address_are_counted(
    site: Site, client: Client, browser: Browser
) -> None:
    """100 links that lead nowhere leave 60 rows, and one that says how many more there were."""
    for _ in range(100):
        browser.open(client.url(redirect_uri=f"{CALLBACK}/other"))

    found = records(site, client.zone)
    assert len([each for each in found if each.requests is None]) <= 2 * 60
    assert sum(each.requests or 1 for each in found) == 100


PAGES = (
    "account",
    "oauth/authorize",
    "oauth/callback",
    "oauth/connect",
    "oauth/consent",
    "oauth/forgot-password",
    "oauth/reset-password",
    "oauth/sign-in",
    "oauth/sign-out",
    "oauth/sign-up",
    "oauth/signed-out",
    "openid/logout",
    "openid/logout/callback",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_the_same_with_a_slash_at_the_end(client: Client, page: str) -> None:
    """Clients and proxies append one; the record is of the same event."""
    answers = [httpx.get(f"{client.issuer}/{page}{end}", timeout=30) for end in ("", "/")]

    assert answers[0].status_code in (200, 303, 400)
    assert answers[0].status_code == answers[1].status_code


@pytest.mark.threat("31u")
@pytest.mark.parametrize(
    "query",
    [
        "logout?a%00=1&a%00=2",
        "logout?client_id=%00",
        "logout/callback?state=%00",
        "../oauth/authorize?client_id=a%00b",
        "../oauth/callback?state=%00",
        "../oauth/connect?link=%00",
    ],
)
def test_what_databases_do_not_take_stops_no_record(site: Site, client: Client, query: str) -> None:
    """The record of a request with a NUL is one that every database takes, and later ones are written."""
    ordinary = httpx.get(f"{client.issuer}/openid/logout?a=1&a=2", timeout=30)
    assert ordinary.status_code == 400
    assert last(site, client.zone).request_id == ordinary.headers["X-Request-ID"]

    attack = httpx.get(f"{client.issuer}/openid/{query}", timeout=30)

    assert attack.status_code == 400
    assert last(site, client.zone).request_id == attack.headers["X-Request-ID"]


@pytest.mark.parametrize("redeemed", ["code", "refresh token"])
def test_what_policy_refuses_of_a_sign_in_is_recorded_as_that(
    site: Site, browser: Browser, redeemed: str
) -> None:
    """At the step that refused, with the user, the resource and the rule; what was issued had a rule, too."""
    zone = site.zone()
    ada = site.user(zone)
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
    client = site.app(zone, dependencies=[files])
    tokens = client.sign_in(browser, resources=[files.identifier])
    issued = last(site, zone)
    assert (issued.event, issued.outcome, issued.step) == ("authorization_code", "issued", None)
    assert (issued.user_id, issued.resource_id) == (ada.id, files.id)
    assert issued.determining
    site.run(site.company.policies(zone, '@id("never") forbid (principal, action, resource);'))

    if redeemed == "code":
        place = browser.open(client.url(resources=[files.identifier]))
        assert isinstance(place, Answer)
        answer = client.redeem(place.code)
    else:
        answer = client.refresh(tokens["refresh_token"])

    assert answer.json()["reason"] == "policy_denied"
    refused = last(site, zone)
    assert refused.request_id == answer.headers["X-Request-ID"]
    assert (refused.reason, refused.step) == ("access_denied: policy_denied", Step.POLICY)
    assert (refused.user_id, refused.resource_id) == (ada.id, files.id)
    assert [name.partition("#")[2] for name in refused.determining] == ["never"]


def test_a_code_of_a_disabled_user_is_refused_at_the_session(
    site: Site, browser: Browser, client: Client
) -> None:
    """An attempt on what this process had of the user leaves nothing else in the record."""
    client.sign_in(browser)
    place = browser.open(client.url())
    assert isinstance(place, Answer)
    user_id = last(site, client.zone).user_id
    site.run(site.company.update(USER, client.zone.id, user_id, status="disabled"))

    assert client.redeem(place.code).json()["error"] == "invalid_grant"

    refused = last(site, client.zone)
    assert (refused.step, refused.user_id, refused.resource_id) == (Step.SESSION, user_id, None)
    assert not refused.determining


class Refreshing:
    """A sign-in, and refusals of its refresh token.

    Attributes:
        user_id, session_id: whose it is, and what it rests on.
        token: the current one.
        used: one that was used before the one before.
    """

    def __init__(self, site: Site, client: Client) -> None:
        self._site = site
        self._client = client
        self.used = client.sign_in()["refresh_token"]
        following = client.refresh(self.used).json()["refresh_token"]
        answer = client.refresh(following)
        assert answer.status_code == 200
        self.token = answer.json()["refresh_token"]
        issued = last(site, client.zone)
        assert (issued.event, issued.outcome, issued.step) == ("refresh_token", "issued", None)
        self.user_id = issued.user_id
        self.session_id = site.run(self._session())

    async def _session(self) -> str:
        async with self._site.services.database.reading() as conn:
            of_zone = refresh_families.c.zone_id == self._client.zone.id
            found: str = (await conn.scalars(select(refresh_families.c.session_id).where(of_zone))).one()
            return found

    def change(self, **values: Any) -> None:
        """Let the row of the family say something else."""

        async def changed() -> None:
            async with self._site.services.database.transaction() as conn:
                of_zone = refresh_families.c.zone_id == self._client.zone.id
                await conn.execute(update(refresh_families).where(of_zone).values(**values))

        self._site.run(changed())


@pytest.mark.parametrize("why", ["used", "expired", "revoked", "without its key", "with another key"])
def test_a_refused_refresh_token_is_recorded_with_its_user_and_session(
    site: Site, client: Client, why: str
) -> None:
    """At the step that looks at the token: who signed in is known, and which session it was."""
    of = Refreshing(site, client)
    changes: dict[str, dict[str, Any]] = {
        "expired": {"expires_at": site.services.clock() - timedelta(seconds=1)},
        "revoked": {"status": "revoked"},
        "without its key": {"jkt": "of a key"},
        "with another key": {"jkt": "of a key"},
    }
    of.change(**changes.get(why, {"status": "active"}))
    told = {
        "used": "refresh token reuse, which ends the session",
        "expired": "the refresh token has expired",
        "revoked": "the refresh token was revoked",
        "without its key": "bound to a key, and sent without a DPoP proof of it",
        "with another key": "bound to a key, and sent with a DPoP proof of another, which ends the session",
    }

    endpoint = f"{client.issuer}/oauth/token"
    answer = httpx.post(
        endpoint,
        data={
            **client.app.form,
            "grant_type": "refresh_token",
            "refresh_token": of.used if why == "used" else of.token,
        },
        headers={"DPoP": Holder().proof(endpoint)} if why == "with another key" else {},
        timeout=30,
    )

    assert answer.json()["error"] == "invalid_grant"
    refused = last(site, client.zone)
    assert refused.request_id == answer.headers["X-Request-ID"]
    assert (refused.event, refused.step) == ("refresh_token", Step.SUBJECT_TOKEN)
    assert refused.user_id == of.user_id
    assert refused.reason == f"invalid_grant: {told[why]} (session `{of.session_id}`)"


@pytest.mark.parametrize("whose", ["nobody's", "another client's"])
def test_an_unknown_refresh_token_is_recorded_without_a_user(site: Site, client: Client, whose: str) -> None:
    """What a client presents that is not its own says nothing of who signed in elsewhere."""
    of = Refreshing(site, client)
    stranger = site.app(client.zone, "stranger")

    answer = stranger.refresh(of.token if whose == "another client's" else f"{'a' * 26}.secret")

    assert answer.json()["error"] == "invalid_grant"
    refused = last(site, client.zone)
    assert (refused.step, refused.user_id) == (Step.SUBJECT_TOKEN, None)
    assert refused.reason == "invalid_grant: unknown, or of another client"
    assert client.refresh(of.token).status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        {"grant_type": "authorization_code", "code": "x" * 43, "redirect_uri": CALLBACK},
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": "e30.e30.AAAA"},
    ],
    ids=["code", "assertion"],
)
def test_what_is_redeemed_is_refused_behind_the_client(
    site: Site, client: Client, form: dict[str, str]
) -> None:
    """The client has authenticated itself: what it presents is at fault, as a subject token would be."""
    answer = client.token(**form)

    assert answer.json()["error"] == "invalid_grant"
    refused = last(site, client.zone)
    assert (refused.step, refused.application_id) == (Step.SUBJECT_TOKEN, client.app.id)
    client.token(**form, client_secret="wrong")
    assert last(site, client.zone).step == Step.CLIENT

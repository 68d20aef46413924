"""A user connects an account at an outside provider, which is a real HTTP server here."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from sqlalchemy import update
from tests.runtime.connect.conftest import Account, Desk, Event, account_on, desk_on, returning
from tests.runtime.connect.test_connect_links import ENDS
from tests.runtime.login.test_decision_records import last
from tests.support.account_provider import AccountProvider, account_provider
from tests.support.logs import logged_lines
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Page, assert_page
from tests.support.scene import claims_of
from tests.support.scripted_provider import Received, Scripted

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import APPLICATION, PROVIDER, RESOURCE, USER
from runtime.services.issuing.target_checks import PROVIDER_DELETED
from runtime.services.vault import upstream_revocations
from runtime.storage.sql.tables import TABLES

STORAGE = ("embedded", "servers")


def test_the_tokens_of_the_account_are_handed_out(account: Account) -> None:
    """The page says at which provider; afterwards the exchange has what it issued."""
    token = account.desk.sign_in(account.agent)
    page = account.desk.page(account.link(token))
    assert "Account at Tracker" in page.text
    assert "Continue to Tracker" in page.text

    done = account.desk.allow(page)

    assert isinstance(done, Page)
    assert_page(done.response, 200)
    assert "Tracker Agent may now use https://issues.example in your name." in done.text
    assert account.exchange(token)["access_token"] == account.tracker.issued[0]


def test_the_provider_is_asked_as_the_standard_says(account: Account) -> None:
    """With the zone's one redirect URI, PKCE, and the scopes of the exchange alone."""
    account.connect(account.desk.sign_in(account.agent), scope="read")

    (asked,), (redeemed,) = account.tracker.asked, account.tracker.redeemed
    assert asked["response_type"] == "code"
    assert asked["redirect_uri"] == redeemed["redirect_uri"] == f"{account.desk.issuer}/oauth/callback"
    assert asked["scope"] == "read"
    assert asked["code_challenge_method"] == "S256"
    assert len(redeemed["code_verifier"]) >= 43
    assert "nonce" not in asked


@pytest.mark.standard("RFC 8707")
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, None),
        ({"authorization_resource_enabled": False, "authorization_resource_parameter": "target"}, None),
        ({"authorization_resource_enabled": True}, "resource"),
        (
            {"authorization_resource_enabled": True, "authorization_resource_parameter": "audience"},
            "audience",
        ),
    ],
)
def test_the_provider_is_told_the_resource_where_it_wants_to_be(
    account: Account, settings: dict[str, Any], name: str | None
) -> None:
    """Its identifier, under the name that the provider has for it, in both requests."""
    oauth2 = account.tracker.settings["protocols"]["oauth2"] | settings
    account.desk.update(PROVIDER, account.provider.id, protocols={"oauth2": oauth2})

    account.connect(account.desk.sign_in(account.agent))

    requests = (*account.tracker.asked, *account.tracker.redeemed)
    told = [{each: sent[each] for each in ("resource", "audience") if each in sent} for sent in requests]
    assert told == [{name: account.issues.identifier} if name else {}] * len(requests)


def test_a_provider_without_pkce_is_sent_no_verifier(account: Account) -> None:
    """RFC 9700 section 4.8: a verifier without a challenge means that somebody took it out."""
    oauth2 = account.tracker.settings["protocols"]["oauth2"] | {"code_challenge_methods_supported": []}
    account.desk.update(PROVIDER, account.provider.id, protocols={"oauth2": oauth2})

    done = account.connect(account.desk.sign_in(account.agent))

    assert isinstance(done, Page)
    assert "may now use" in done.text
    assert "code_verifier" not in account.tracker.redeemed[0]


def test_the_grant_and_the_consent_are_stored_together(account: Account) -> None:
    """The grant with the scopes that the provider granted, the consent for this application."""
    account.connect(account.desk.sign_in(account.agent), scope="read")

    (grant,) = [each for each in account.rows("delegated_grants") if each["resource_id"] == account.issues.id]
    assert (grant["status"], grant["scopes"], grant["refresh_token_set"]) == ("active", ["read"], True)
    (consent,) = [each for each in account.rows("consents") if each["resource_id"] == account.issues.id]
    assert (consent["application_id"], consent["scopes"]) == (account.agent.app.id, ["read"])


def test_an_account_can_be_connected_for_more_later(account: Account) -> None:
    """An exchange for a scope that it was not connected for leads to the user, who is asked for both."""
    token = account.desk.sign_in(account.agent)
    account.connect(token, scope="read")

    account.connect(token, scope="write")

    assert account.tracker.asked[1]["scope"] == "read write"
    assert account.exchange(token)["scope"] == "read write"


class TestAnswers:
    """What the application is told at its own address."""

    def test_success_has_state_and_issuer_alone(self, account: Account) -> None:
        """No code and no token pass through the browser."""
        link = returning(account.link(account.desk.sign_in(account.agent)), CALLBACK)

        answer = account.desk.allow(account.desk.page(link))

        assert isinstance(answer, Answer)
        assert answer.values == {"state": "s-1", "iss": account.desk.issuer}

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            ("access_denied", "access_denied"),
            ("temporarily_unavailable", "temporarily_unavailable"),
            ("invalid_scope", "server_error"),
        ],
    )
    def test_an_error_of_the_provider_is_passed_on(self, account: Account, error: str, told: str) -> None:
        """As far as it is the application's concern; nothing is stored."""
        account.tracker.answers_with = {"error": error}
        token = account.desk.sign_in(account.agent)
        link = returning(account.link(token), CALLBACK)

        answer = account.desk.allow(account.desk.page(link))

        assert isinstance(answer, Answer)
        assert answer.values["error"] == told
        assert (answer.values["state"], answer.values["iss"]) == ("s-1", account.desk.issuer)
        assert _nothing_is_linked(account)

    def test_without_an_address_an_error_is_a_page(self, account: Account) -> None:
        """The user reads what has happened."""
        account.tracker.answers_with = {"error": "access_denied"}

        done = account.connect(account.desk.sign_in(account.agent))

        assert isinstance(done, Page)
        assert_page(done.response, 400)
        assert "The account was not connected" in done.text
        assert "has granted no access that Tracker Agent asks for" in done.text

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            ((503, {}), "temporarily_unavailable"),
            ((400, {"error": "invalid_grant"}), "server_error"),
            ((401, {"error": "invalid_client"}), "server_error"),
            ((200, {"ok": False}), "server_error"),
        ],
    )
    def test_a_code_that_is_not_redeemed_stores_nothing(
        self, account: Account, answer: tuple[int, dict[str, object]], told: str
    ) -> None:
        """The application is told whether to try again."""
        account.tracker.token_answer = answer
        link = returning(account.link(account.desk.sign_in(account.agent)), CALLBACK)

        heard = account.desk.allow(account.desk.page(link))

        assert isinstance(heard, Answer)
        assert heard.values["error"] == told
        assert _nothing_is_linked(account)

    @pytest.mark.parametrize(
        ("pointer", "answer", "reason"),
        [
            (
                "user.token",
                None,
                "`invalid_response`, no access token at `user.token`, where `token_response_access_token_",
            ),
            ("access_token", (404, "<html>"), "`invalid_response`, neither JSON nor a form, HTTP status 404"),
            ("access_token", (401, {"error": "invalid_client"}), "`invalid_client`, HTTP status 401"),
            ("access_token", (400, {"error": "se cret <b>"}), "`unknown_error`, HTTP status 400"),
        ],
        ids=["pointer", "path", "secret", "words of the provider"],
    )
    def test_a_configuration_that_is_wrong_is_said_so(
        self, account: Account, pointer: str, answer: tuple[int, Any] | None, reason: str
    ) -> None:
        """The page has the request id; the record by that id, and the log, have the reason."""
        token = account.desk.sign_in(account.agent)
        assert "may now use" in account.connect(token, scope="read").text
        oauth2 = account.tracker.settings["protocols"]["oauth2"]
        patch = {"oauth2": oauth2 | {"token_response_access_token_pointer": pointer}}
        account.desk.update(PROVIDER, account.provider.id, protocols=patch)
        account.tracker.token_answer = answer

        with logged_lines() as lines:
            told = account.connect(token, scope="write")

        assert isinstance(told, Page)
        assert_page(told.response, 502)
        request_id = told.response.headers["X-Request-ID"]
        assert "Tracker could not be connected. Its configuration in Acme Workforce may be wrong" in told.text
        assert request_id in told.text
        record = last(account.desk.site, account.desk.zone)
        assert (record.request_id, record.outcome) == (request_id, "refused")
        provider = f"provider `{account.provider.identifier}`"
        assert record.reason.startswith(f"provider_failed: {provider}: the token endpoint: {reason}")
        (line,) = [each for each in lines if each["event"].startswith("an outside provider cannot be used")]
        assert (line["log_level"], line["request_id"]) == ("warning", request_id)
        assert (line["provider_id"], line["reason"]) == (account.provider.id, record.reason)
        assert "se cret" not in f"{record} {lines} {told.text}"

    @pytest.mark.parametrize(
        ("issuer", "why"),
        [
            ("http://127.0.0.1:1", "The provider cannot be reached"),
            (None, "The provider refused the request (HTTP status 404)"),
        ],
        ids=["away", "refuses"],
    )
    def test_a_provider_without_metadata_leaves_the_link_unused(
        self, account: Account, issuer: str | None, why: str
    ) -> None:
        """The page says what is wrong, with the request id, and the user may try again once it is mended."""
        no_addresses = {"authorization_endpoint": None, "token_endpoint": None}
        bare = {"oauth2": {"issuer": issuer or account.tracker.url, **no_addresses}}
        account.desk.update(PROVIDER, account.provider.id, protocols=bare, client_secret="again")
        link = account.link(account.desk.sign_in(account.agent))

        told = account.desk.allow(account.desk.page(link))

        assert isinstance(told, Page)
        assert_page(told.response, 503)
        assert why in told.text
        assert told.response.headers["X-Request-ID"] in told.text
        assert "Continue to Tracker" in account.desk.page(link).text


class TestScopes:
    """The provider's word on scopes is what counts, within what was requested."""

    def test_fewer_than_requested_is_said(self, account: Account) -> None:
        """And the application gets those."""
        account.tracker.grants = "read"
        token = account.desk.sign_in(account.agent)

        done = account.connect(token)

        assert isinstance(done, Page)
        assert "Not granted, although it was requested: write" in done.text
        assert account.exchange(token)["scope"] == "read"

    @pytest.mark.threat("45f")
    def test_more_than_requested_is_dropped_and_said(self, account: Account) -> None:
        """Neither the grant nor the consent has them; exactly what was requested is not remarked on."""
        token = account.desk.sign_in(account.agent)
        plain = account.connect(token, scope="read")
        assert isinstance(plain, Page)
        assert "without having been requested" not in plain.text
        account.desk.browser.send(
            account.desk.page(f"{account.desk.issuer}/account"), grant=_grant_id(account)
        )
        account.tracker.grants = "read admin"

        done = account.connect(token, scope="read")

        assert isinstance(done, Page)
        assert "without having been requested, and not part of what you have allowed here: admin" in done.text
        assert account.exchange(token)["scope"] == "read"
        assert _grant(account)["scopes"] == ["read"]
        (consent,) = [each for each in account.rows("consents") if each["resource_id"] == account.issues.id]
        assert consent["scopes"] == ["read"]

    @pytest.mark.threat("45f")
    def test_it_is_said_before_the_user_goes_back(self, account: Account) -> None:
        """The page has the way back to the application, with its state."""
        account.tracker.grants = "read write admin"
        link = returning(account.link(account.desk.sign_in(account.agent)), CALLBACK)

        done = account.desk.allow(account.desk.page(link))

        assert isinstance(done, Page)
        query = urlencode({"iss": account.desk.issuer, "state": "s-1"}).replace("&", "&amp;")
        assert f'href="{CALLBACK}?{query}"' in done.response.text

    def test_none_of_those_requested_is_a_refusal(self, account: Account) -> None:
        """There would be nothing to use, so the provider is to revoke what it has issued."""
        account.tracker.grants = "admin"

        done = account.connect(account.desk.sign_in(account.agent))

        assert isinstance(done, Page)
        assert_page(done.response, 400)
        assert "The account was not connected" in done.text
        assert "none of the scopes that Tracker Agent asks for, so your account there was not" in done.text
        assert _nothing_is_linked(account)
        assert _revocations(account) == 1

    def test_what_is_used_is_not_given_back(self, account: Account) -> None:
        """The tokens of a connection stay as they are."""
        account.connect(account.desk.sign_in(account.agent))

        assert not _nothing_is_linked(account)
        assert _revocations(account) == 0


class TestCallback:
    """The provider's answer counts once, in the session that was asked, from the provider that was asked."""

    @pytest.mark.threat("4c")
    @pytest.mark.standard("RFC 9207")
    def test_another_issuer_is_refused_before_its_code_is_used(self, account: Account) -> None:
        """RFC 9207; the issuer itself is taken."""
        token = account.desk.sign_in(account.agent)
        account.tracker.answers_with = {"iss": "https://evil.example"}

        done = account.connect(token)

        assert isinstance(done, Page)
        assert_page(done.response, 403)
        assert account.tracker.redeemed == []
        account.tracker.answers_with = {"iss": account.tracker.url}
        assert "may now use" in _text(account.connect(token))

    @pytest.mark.threat("4g")
    @pytest.mark.standard("RFC 9700")
    def test_what_came_to_anothers_redirect_uri_is_refused_before_its_code_is_used(
        self, account: Account
    ) -> None:
        """A provider has the user answered at another one, without `iss`: it does not get that code."""
        desk, token = account.desk, account.desk.sign_in(account.agent)
        body = {"identifier": "https://good.example", "name": "Good", "client_id": "zone"}
        oauth2 = {"issuer": "https://good.example", "distinct_redirect_uri": True}
        company = desk.site.company
        good = desk.site.run(company.create(PROVIDER, desk.zone.id, **body, protocols={"oauth2": oauth2}))
        pages = [desk.page(account.link(token)) for _ in range(2)]
        first, second = (account.callback(page) for page in pages)
        assert "may now use" in _text(desk.browser.open(first))

        desk.page(f"{second}&answered_by={good.id}", status=403)

        assert len(account.tracker.redeemed) == 1

    @pytest.mark.threat("4g")
    @pytest.mark.standard("RFC 9700")
    @pytest.mark.parametrize("answered_by", [None, "other"])
    def test_only_what_came_to_its_own_redirect_uri_is_its_answer(
        self, desk: Desk, tracker: AccountProvider, answered_by: str | None
    ) -> None:
        """The zone's address, or another's, is not where this provider answers."""
        protocols = {"oauth2": {**tracker.settings["protocols"]["oauth2"], "distinct_redirect_uri": True}}
        account = account_on(desk, tracker, protocols=protocols)
        token = desk.sign_in(account.agent)
        pages = [desk.page(account.link(token)) for _ in range(2)]
        first, second = (account.callback(page) for page in pages)
        assert "may now use" in _text(desk.browser.open(first))
        named = f"answered_by={account.provider.id}"
        uri = f"{desk.issuer}/oauth/callback?{named}"
        assert [each["redirect_uri"] for each in (*tracker.asked, *tracker.redeemed)] == [uri] * 3

        changed = second.replace(f"{named}&", "" if answered_by is None else f"answered_by={answered_by}&")
        desk.page(changed, status=403)

        assert changed != second
        assert len(tracker.redeemed) == 1

    @pytest.mark.threat("21d")
    def test_a_state_works_once(self, account: Account) -> None:
        """The same answer again is a page, and changes nothing."""
        back = account.callback(account.desk.page(account.link(account.desk.sign_in(account.agent))))
        account.desk.page(back)

        account.desk.page(back, status=400)

        assert len(account.tracker.redeemed) == 1

    @pytest.mark.threat("45c")
    def test_of_many_decisions_at_once_one_counts(self, account: Account) -> None:
        """One is sent to the provider, the others get a page; its answer counts once, too."""
        desk = account.desk
        link = account.link(desk.sign_in(account.agent))
        forms = [desk.page(link) for _ in range(6)]

        with ThreadPoolExecutor(len(forms)) as pool:
            sent = list(pool.map(lambda form: desk.browser.post(form, decision="allow"), forms))
        (gone,) = [each for each in sent if each.status_code == 303]
        assert [each.status_code for each in sent].count(400) == 5
        back = desk.browser.http.get(gone.headers["location"]).headers["location"]
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: desk.browser.http.get(back).status_code, range(6)))

        assert sorted(answers) == [200, 400, 400, 400, 400, 400]
        assert len(account.tracker.redeemed) == 1

    @pytest.mark.threat("21c")
    def test_a_state_is_no_use_without_the_session(self, account: Account, other_browser: Browser) -> None:
        """The answer of one browser opened in another that has no cookies."""
        back = account.callback(account.desk.page(account.link(account.desk.sign_in(account.agent))))

        account.desk.page(back, other_browser, status=400)

        assert account.tracker.redeemed == []
        assert _nothing_is_linked(account)

    @pytest.mark.threat("21b")
    def test_an_attackers_answer_links_nothing_in_the_victims_session(
        self, account: Account, other_browser: Browser
    ) -> None:
        """Eve begins, and has Ada's browser open the answer: Ada would use Eve's account unknowingly."""
        desk = account.desk
        ada = desk.sign_in(account.agent)
        desk.site.user(desk.zone, "eve@acme.example")
        other_browser.sign_in(other_browser.open(account.agent.url()), email="eve@acme.example")
        eves = _token_of(account, other_browser, "eve@acme.example")
        back = account.callback(desk.page(account.link(eves), other_browser), other_browser)

        desk.page(back, status=400)

        assert account.tracker.redeemed == []
        assert "error" in account.exchange(ada)

    @pytest.mark.threat("21b")
    def test_an_attackers_code_with_the_victims_state_links_nothing(self, account: Account) -> None:
        """It was issued for another challenge, so the provider does not redeem it."""
        token = account.desk.sign_in(account.agent)
        attackers = account.callback(account.desk.page(account.link(token)))
        victims = account.callback(account.desk.page(account.link(token)))
        code = parse_qs(urlsplit(attackers).query)["code"][0]
        state = parse_qs(urlsplit(victims).query)["state"][0]

        mixed = urlencode({"code": code, "state": state})
        account.desk.page(f"{account.desk.issuer}/oauth/callback?{mixed}", status=400)

        assert _nothing_is_linked(account)

    @pytest.mark.threat("4e")
    def test_a_state_of_another_zone_is_no_use(self, account: Account) -> None:
        """And no code is exchanged there."""
        desk = account.desk
        back = account.callback(desk.page(account.link(desk.sign_in(account.agent))))
        other = desk_on(desk.site, desk.browser)
        other.sign_in()

        desk.page(f"{other.issuer}/oauth/callback?{urlsplit(back).query}", status=400)

        assert account.tracker.redeemed == []

    @pytest.mark.parametrize("state", ["c.made-up", "c.", "made-up"])
    def test_a_made_up_state_gets_a_page(self, account: Account, state: str) -> None:
        """Whichever flow it seems to be of."""
        account.desk.sign_in(account.agent)

        account.desk.page(f"{account.desk.issuer}/oauth/callback?state={state}&code=x", status=400)


def _sign_out(account: Account) -> None:
    page = account.desk.browser.open(f"{account.desk.issuer}/oauth/sign-out")
    assert isinstance(page, Page)
    account.desk.browser.send(page)


def _of_account(end: Event, account: Account) -> None:
    """What ends a link of the desk, for that of the account."""
    end(replace(account.desk, agent=account.agent, tickets=account.issues))


def _take_tokens_elsewhere(account: Account) -> None:
    """The resource has its tokens from another provider."""
    desk = account.desk
    another = {**account.tracker.settings, "identifier": "https://other.example", "name": "Other"}
    made = desk.site.run(desk.site.company.create(PROVIDER, desk.zone.id, **another))
    desk.update(RESOURCE, account.issues.id, credential_provider_id=made.id)


MEANWHILE: dict[str, Callable[[Account], None]] = {
    "user signs out": _sign_out,
    "user disabled": lambda account: account.desk.update(USER, account.desk.ada.id, status="disabled"),
    "provider changed": lambda account: account.desk.update(PROVIDER, account.provider.id, name="Other"),
    "application deleted": lambda account: account.desk.delete(APPLICATION, account.agent.app.id),
}


@pytest.mark.threat("45d")
@pytest.mark.parametrize("event", MEANWHILE)
def test_what_ends_while_the_user_is_at_the_provider_ends_the_connection(
    account: Account, event: str
) -> None:
    """The code is not redeemed, and nothing is linked; without the event the same answer is."""
    token = account.desk.sign_in(account.agent)
    back = account.callback(account.desk.page(account.link(token)))

    MEANWHILE[event](account)

    account.desk.page(back, status=400)
    assert account.tracker.redeemed == []
    assert _nothing_is_linked(account)


@pytest.mark.threat("45d")
def test_a_provider_that_is_deleted_ends_the_links_from_before(account: Account) -> None:
    """The link was for the account; what is there now would authorize tokens of the zone."""
    token = account.desk.sign_in(account.agent)
    link = account.link(token)
    assert "Allow Tracker Agent to act for you?" in account.desk.page(link).text

    account.desk.delete(PROVIDER, account.provider.id)

    assert "no longer valid" in account.desk.page(link, status=400).text
    assert account.exchange(token)["reason"] == PROVIDER_DELETED


def test_a_sign_in_for_a_resource_without_its_provider_is_for_the_zone(account: Account) -> None:
    """As for any resource that takes an exchange: the code is redeemed, for a token of the zone alone."""
    agent, issues = account.agent, account.issues.identifier
    account.desk.delete(PROVIDER, account.provider.id)
    page = account.desk.browser.open(agent.url(resources=[issues], scope="openid read"))
    while isinstance(page, Page):
        is_consent = page.action.endswith("/oauth/consent")
        values = {"decision": "allow"} if is_consent else {"email": "ada@acme.example", "password": PASSWORD}
        page = account.desk.browser.send(page, **values)

    redeemed = agent.redeem(page.code)

    assert claims_of(redeemed.json()["access_token"])["aud"] == agent.issuer
    assert account.rows("delegated_grants") == []
    assert account.exchange(redeemed.json()["access_token"])["reason"] == PROVIDER_DELETED
    page = account.desk.browser.open(agent.url(resources=[issues], scope="openid read"))
    assert isinstance(page, Answer)
    assert agent.redeem(page.code, resource=issues).json()["reason"] == PROVIDER_DELETED


@pytest.mark.threat("45d")
def test_a_provider_that_is_changed_ends_the_links_from_before(account: Account) -> None:
    """Before its page is opened, too: the user was asked about another configuration."""
    token = account.desk.sign_in(account.agent)
    fine, before = account.link(token), account.link(token)
    assert "Tracker" in account.desk.page(fine).text

    account.desk.update(PROVIDER, account.provider.id, name="Other")

    account.desk.page(before, status=400)
    assert "Other" in account.desk.page(account.link(token)).text


@pytest.mark.threat("45d")
def test_a_provider_that_a_late_clock_has_changed_ends_the_connection(account: Account) -> None:
    """By its revision: the time of the change may be that of a node whose clock is behind."""
    desk = account.desk
    back = account.callback(desk.page(account.link(desk.sign_in(account.agent))))

    async def at_an_earlier_time() -> None:
        table, then = TABLES[PROVIDER.name], account.provider.updated_at
        async with desk.site.services.database.transaction() as conn:
            await conn.execute(update(table).where(table.c.id == account.provider.id).values(updated_at=then))

    desk.update(PROVIDER, account.provider.id, name="Other")
    desk.site.run(at_an_earlier_time())

    desk.page(back, status=400)
    assert account.tracker.redeemed == []
    assert _nothing_is_linked(account)


@pytest.mark.threat("45g")
def test_an_account_that_was_connected_for_more_is_asked_about_again(account: Account) -> None:
    """The page said `read`, and the account can `write` by now: the page says both, and then it counts."""
    desk = account.desk
    token = desk.sign_in(account.agent)
    assert "may now use" in _text(account.connect(token, scope="read"))
    other = desk.site.app(desk.zone, "Other", consent="required", dependencies=[account.issues])
    other_token = desk.sign_in(other)
    form = desk.page(account.link(other_token, other, scope="read"))
    assert "write" not in form.text
    assert "may now use" in _text(account.connect(token, scope="write"))

    again = desk.allow(form)

    assert "Something has changed since this page was shown" in _text(again)
    assert "write" in _text(again)
    assert account.exchange(other_token, other)["reason"] == "user_authorization_required"
    assert isinstance(again, Page)
    assert "may now use" in _text(desk.allow(again))
    answer = account.exchange(other_token, other)
    assert answer.get("access_token") == account.tracker.issued[1], answer


@pytest.mark.threat("45h")
def test_a_resource_that_moves_while_the_user_is_at_the_provider_ends_the_connection(
    account: Account,
) -> None:
    """The code is not redeemed; with a link for the new address the account is connected."""
    token = account.desk.sign_in(account.agent)
    back = account.callback(account.desk.page(account.link(token)))

    moved = account.desk.update(RESOURCE, account.issues.id, identifier="https://moved.example")

    account.desk.page(back, status=400)
    assert account.tracker.redeemed == []
    assert _nothing_is_linked(account)
    account.issues = moved
    assert "may now use" in _text(account.connect(token))


WHILE_REDEEMED: dict[str, Callable[[Account], None]] = {
    **{name: partial(_of_account, end) for name, end in ENDS.items()},
    "provider changed": MEANWHILE["provider changed"],
    "provider of the resource changed": _take_tokens_elsewhere,
    "resource moved": lambda account: account.desk.update(
        RESOURCE, account.issues.id, identifier="https://moved.example"
    ),
}


@pytest.mark.threat("45i")
@pytest.mark.parametrize("event", ["nothing", *WHILE_REDEEMED])
def test_what_ends_while_the_code_is_redeemed_ends_the_connection(account: Account, event: str) -> None:
    """What the provider answers is not stored; it is where nothing happens."""
    status = 200 if event == "nothing" else 400
    token = account.desk.sign_in(account.agent)
    back = account.callback(account.desk.page(account.link(token)))
    answer = account.tracker.answer

    def end_first(received: Received) -> Scripted:
        if event in WHILE_REDEEMED:
            WHILE_REDEEMED[event](account)
        return answer(received)

    account.tracker.server.script = end_first

    account.desk.page(back, status=status)

    assert len(account.tracker.issued) == 1
    assert _nothing_is_linked(account) == (status == 400)


@pytest.mark.threat("46g")
def test_a_connection_takes_no_secret_elsewhere(account: Account) -> None:
    """Neither by a change through the service, which is refused, nor by one that went around it."""
    desk = account.desk
    token = desk.sign_in(account.agent)
    assert "may now use" in _text(account.connect(token, scope="read"))
    with account_provider() as evil:
        oauth2 = account.tracker.settings["protocols"]["oauth2"] | {"token_endpoint": f"{evil.url}/token"}
        with pytest.raises(ValidationFailed, match="send it again"):
            desk.update(PROVIDER, account.provider.id, protocols={"oauth2": oauth2})

        async def around() -> None:
            table = TABLES[PROVIDER.name]
            async with desk.site.services.database.transaction() as conn:
                moved = {"protocols": {"oauth2": oauth2}}
                await conn.execute(update(table).where(table.c.id == account.provider.id).values(moved))

        desk.site.run(around())
        desk.update(PROVIDER, account.provider.id, description="any other change")
        told = account.connect(token, scope="write")

        assert isinstance(told, Page)
        assert_page(told.response, 503)
        assert evil.server.received == []


def _token_of(account: Account, browser: Browser, email: str) -> str:
    """The agent's access token of somebody who is signed in in that browser."""
    place = browser.open(account.agent.url())
    answer = place if isinstance(place, Answer) else browser.sign_in(place, email=email)
    token: str = account.agent.redeem(answer.code).json()["access_token"]
    return token


def _text(place: Page | Answer) -> str:
    assert isinstance(place, Page), place
    return place.text


def _revocations(account: Account) -> int:
    """How many of the provider's tokens it is to revoke."""
    return sum(row["topic"] == upstream_revocations.TOPIC for row in account.rows("outbox"))


def _nothing_is_linked(account: Account) -> bool:
    tables = ("delegated_grants", "vault_tokens", "consents")
    return not [
        row
        for table in tables
        for row in account.rows(table)
        if row.get("resource_id") in (account.issues.id, None)
    ]


def _grant(account: Account) -> dict[str, object]:
    (grant,) = [each for each in account.rows("delegated_grants") if each["resource_id"] == account.issues.id]
    return grant


def _grant_id(account: Account) -> str:
    return str(_grant(account)["id"])

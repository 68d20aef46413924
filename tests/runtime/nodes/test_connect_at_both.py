"""Connect links over two nodes: what one node has made, shown or ended, the other one takes it for.

Each test runs in both directions: `here` and `there` are one desk with one account and one browser, at two
nodes. What ends at one node is over at the other one within a second.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.runtime.connect.conftest import REQUIRED, Account, Desk, account_on, desk_on, returning
from tests.runtime.connect.test_connect_links import ENDS
from tests.runtime.connect.test_connecting_accounts import MEANWHILE, WHILE_REDEEMED
from tests.runtime.connect.test_consent_per_application import SORTS, asker
from tests.runtime.connect.test_whose_account import Workforce
from tests.runtime.login.federation import federated
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.views import account_at, browser_at, client_at, site_at
from tests.support.account_provider import AccountProvider, account_provider
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Client, Page, assert_page
from tests.support.openid_server import OpenIDServer, openid_server
from tests.support.scripted_provider import Received, Scripted
from tests.support.server import Server
from tests.support.waiting import let_pass

from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, RESOURCE, ZONE, Verb

pytestmark = pytest.mark.long

Event = Callable[[Account], None]
ONE_WAY = pytest.mark.parametrize("ends", ["from the first"], indirect=True)  # of many cases
BOUND_SECONDS = 1.0
EVE = "eve@acme.example"
MOVED = "https://moved.example"
AT_ONCE = 4  # decisions at each node


@pytest.fixture(params=["from the first", "from the second"])
def ends(request: pytest.FixtureRequest, nodes: Nodes) -> tuple[Server, Server]:
    """The node of `here`, and that of `there`."""
    for node in nodes.both:
        nodes.wait(node)
    first, second = nodes.both
    return (first, second) if request.param == "from the first" else (second, first)


@pytest.fixture
def tracker() -> Iterator[AccountProvider]:
    """A running provider of this test's own."""
    with account_provider() as running:
        yield running


@pytest.fixture
def here(nodes: Nodes, ends: tuple[Server, Server], tracker: AccountProvider) -> Account:
    return new_account(nodes, ends[0], tracker)


@pytest.fixture
def there(nodes: Nodes, ends: tuple[Server, Server], here: Account) -> Account:
    return account_at(nodes, ends[1], here)


@pytest.fixture
def eve(nodes: Nodes, here: Account, there: Account) -> Browser:
    """The browser of somebody else, who is signed in; at the other node."""
    here.desk.site.user(here.desk.zone, EVE)
    portal = here.desk.site.app(here.desk.zone, "Portal")
    browser = another_browser(nodes, there)
    browser.sign_in(browser.open(portal.url()), email=EVE)
    return browser


def new_account(nodes: Nodes, node: Server, tracker: AccountProvider) -> Account:
    """A desk of its own, at a node."""
    made = account_on(desk_on(site_at(nodes, node), browser_at(nodes, node)), tracker)
    return account_at(nodes, node, made)


def another_browser(nodes: Nodes, account: Account) -> Browser:
    """A browser without cookies, at the account's node."""
    return browser_at(nodes, account.desk.site.server)


def text(place: Page | Answer) -> str:
    """What a page says."""
    assert isinstance(place, Page), place
    return place.text


def linked(account: Account) -> list[object]:
    """What is stored of the account at the provider."""
    tables = ("delegated_grants", "vault_tokens", "consents")
    found = [row for table in tables for row in account.rows(table)]
    return [row for row in found if row.get("resource_id") in (account.issues.id, None)]


def test_an_account_is_connected_over_both(here: Account, there: Account) -> None:
    """The link is made at one node, opened at the other, and the provider's answer comes to the first."""
    token = here.desk.sign_in(here.agent)
    back = there.callback(there.desk.page(here.link(token)))

    assert "may now use" in here.desk.page(back).text
    assert {each.exchange(token)["access_token"] for each in (here, there)} == {here.tracker.issued[0]}


def test_a_key_is_stored_over_both(here: Account, there: Account) -> None:
    """The page is shown by one node, and sent to the other."""
    token = here.desk.sign_in()
    page = here.desk.page(there.desk.link(token, here.desk.tickets))

    assert "may now use" in text(there.desk.allow(page, credential="sk-of-ada"))
    assert here.desk.exchange(token, here.desk.tickets)["access_token"] == "sk-of-ada"


@pytest.mark.threat("6l")
def test_an_address_that_was_taken_away_there_leads_nowhere(here: Account, there: Account) -> None:
    """Neither opened nor sent; before, the user would have come back there."""
    link = returning(here.link(here.desk.sign_in(here.agent)), CALLBACK)
    form = here.desk.page(link)

    registered = {"oauth2": {"redirect_uris": ["https://other.example/callback"]}}
    there.desk.update(APPLICATION, there.agent.app.id, protocols=registered)

    let_pass(BOUND_SECONDS)
    here.desk.page(link, status=400)
    assert_page(here.desk.browser.post(form, decision="allow"), 400)


class TestOtherHands:
    """A link that was made here is opened, there, by somebody else, or in another browser."""

    @pytest.mark.threat("21a", "45a")
    def test_another_user_is_told_so_and_nothing_else(
        self, here: Account, there: Account, eve: Browser
    ) -> None:
        """Neither the page nor the form of the right user is any use; it goes on working for Ada."""
        link = here.link(here.desk.sign_in(here.agent))
        form = here.desk.page(link)

        told = there.desk.page(link, eve, status=403)

        assert "another user" in told.text
        assert not [name for name in ("Tracker", "issues", "ada@", "Ada") if name in told.text]
        assert_page(eve.post(form, decision="allow"), 403)
        assert "may now use" in text(here.desk.allow(form))

    @pytest.mark.threat("45b")
    def test_another_browser_signs_in_first(self, nodes: Nodes, here: Account, there: Account) -> None:
        """It is told what for, not for whom. A page of one browser is no use in the other; its own is."""
        link = here.link(here.desk.sign_in(here.agent))
        form, other = here.desk.page(link), another_browser(nodes, there)
        page = there.desk.page(link, other)
        assert page.action.endswith("/oauth/sign-in")
        assert "to decide whether Tracker Agent may act for you" in page.text
        assert not [name for name in ("ada@", "Ada") if name in page.response.text]

        question = other.send(page, email="ada@acme.example", password=PASSWORD)

        assert "Tracker Agent" in text(question)
        assert_page(other.post(form, decision="allow"), 403)
        assert isinstance(question, Page)
        assert "may now use" in text(there.desk.allow(question, other))

    @pytest.mark.threat("21b")
    def test_an_answer_links_nothing_in_another_users_session(
        self, here: Account, there: Account, eve: Browser
    ) -> None:
        """Ada begins, and Eve's browser opens the answer; in Ada's it counts no more."""
        token = here.desk.sign_in(here.agent)
        back = here.callback(here.desk.page(here.link(token)))

        there.desk.page(back, eve, status=400)

        assert here.tracker.redeemed == []
        here.desk.page(back, status=400)
        assert linked(here) == []

    @pytest.mark.threat("21b")
    def test_a_code_of_another_connection_links_nothing(self, here: Account, there: Account) -> None:
        """Put beside the state of this one: it was issued for another challenge."""
        token = here.desk.sign_in(here.agent)
        attackers, victims = (each.callback(each.desk.page(each.link(token))) for each in (there, here))
        code = parse_qs(urlsplit(attackers).query)["code"][0]
        state = parse_qs(urlsplit(victims).query)["state"][0]

        mixed = urlencode({"code": code, "state": state})
        there.desk.page(f"{there.desk.issuer}/oauth/callback?{mixed}", status=400)

        assert linked(here) == []

    @pytest.mark.threat("21c")
    def test_a_state_is_no_use_without_its_cookie(self, nodes: Nodes, here: Account, there: Account) -> None:
        """In a browser without a session; no code is redeemed."""
        back = here.callback(here.desk.page(here.link(here.desk.sign_in(here.agent))))

        there.desk.page(back, another_browser(nodes, there), status=400)

        assert here.tracker.redeemed == []
        assert linked(here) == []


class TestOnce:
    """What counts once counts once at both nodes together."""

    @pytest.mark.threat("21d")
    def test_a_state_that_was_used_here(self, here: Account, there: Account) -> None:
        """The same answer again, there, changes nothing."""
        back = here.callback(here.desk.page(here.link(here.desk.sign_in(here.agent))))
        here.desk.page(back)

        there.desk.page(back, status=400)

        assert len(here.tracker.redeemed) == 1

    @pytest.mark.threat("45c")
    @pytest.mark.parametrize("decision", ["allow", "deny"])
    def test_a_link_that_was_used_here(self, here: Account, there: Account, decision: str) -> None:
        """Neither opened nor sent there, also when nothing was authorized."""
        token = here.desk.sign_in()
        link = here.desk.link(token, here.desk.documents)
        form = there.desk.page(link)
        here.desk.browser.send(here.desk.page(link), decision=decision)

        assert "used already" in there.desk.page(link, status=400).text
        assert_page(there.desk.browser.post(form, decision="allow"), 400)

    @pytest.mark.threat("21d", "45c")
    def test_of_many_at_both_at_once_one_counts(self, here: Account, there: Account) -> None:
        """One decision leads to the provider, the others to a page; its answer counts once, too."""
        link = here.link(here.desk.sign_in(here.agent))
        asked = [each.desk for each in (here, there) for _ in range(AT_ONCE)]
        forms = [(desk, desk.page(link)) for desk in asked]

        with ThreadPoolExecutor(len(forms)) as pool:
            sent = list(pool.map(lambda one: one[0].browser.post(one[1], decision="allow"), forms))
            (gone,) = [each for each in sent if each.status_code == 303]
            back = here.desk.browser.http.get(gone.headers["location"]).headers["location"]
            answers = pool.map(lambda desk: desk.browser.http.get(back).status_code, asked)

        refused = [400] * (len(forms) - 1)
        assert sorted(each.status_code for each in sent) == [303, *refused]
        assert sorted(answers) == [200, *refused]
        assert len(here.tracker.redeemed) == 1


@pytest.mark.threat("45d")
@ONE_WAY
def test_what_a_link_rests_on_ends_there(
    nodes: Nodes, ends: tuple[Server, Server], tracker: AccountProvider
) -> None:
    """Sessions, users, access, applications, credentials, dependencies, resources: each ends its link here.

    The question is there before; within a second neither the link nor the form that is open is any use.
    """
    asked: dict[str, tuple[Desk, str, Page]] = {}
    for name, end in ENDS.items():
        account = new_account(nodes, ends[0], tracker)
        desk = account.desk
        link = desk.link(desk.sign_in(), desk.tickets)
        asked[name] = desk, link, desk.page(link)
        end(account_at(nodes, ends[1], account).desk)

    let_pass(BOUND_SECONDS)

    assert [name for name, each in asked.items() if _is_good(*each)] == []


def _is_good(desk: Desk, link: str, form: Page) -> bool:
    """Whether a form authorizes anything, or its link asks the question again, once Ada has signed in."""
    if "may now use" in desk.browser.post(form, decision="allow", credential="sk-of-ada").text:
        return True
    again = desk.browser.open(link)
    if isinstance(again, Page) and again.action.endswith("/oauth/sign-in"):
        again = desk.browser.send(again, email="ada@acme.example", password=PASSWORD)
    return "Allow Research Agent" in text(again)


@pytest.mark.threat("45d")
@ONE_WAY
def test_what_ends_there_while_the_user_is_at_the_provider(
    nodes: Nodes, ends: tuple[Server, Server], tracker: AccountProvider
) -> None:
    """The answer comes here: its code is not redeemed, and nothing is linked."""
    begun: dict[str, tuple[Account, str]] = {}
    for name, end in MEANWHILE.items():
        account = new_account(nodes, ends[0], tracker)
        token = account.desk.sign_in(account.agent)
        begun[name] = account, account.callback(account.desk.page(account.link(token)))
        end(account_at(nodes, ends[1], account))

    let_pass(BOUND_SECONDS)

    told = {name: each.desk.browser.http.get(back).status_code for name, (each, back) in begun.items()}
    assert told == dict.fromkeys(MEANWHILE, 400)
    assert tracker.redeemed == []
    assert [name for name, (each, _) in begun.items() if linked(each)] == []


@pytest.mark.threat("45i")
@ONE_WAY
def test_what_ends_there_while_the_code_is_redeemed(
    nodes: Nodes, ends: tuple[Server, Server], tracker: AccountProvider
) -> None:
    """The provider has answered with tokens by then, which are not stored."""
    answer, told, stored = tracker.answer, {}, []
    for name, end in WHILE_REDEEMED.items():
        account = new_account(nodes, ends[0], tracker)
        back = account.callback(account.desk.page(account.link(account.desk.sign_in(account.agent))))

        def end_first(received: Received, end: Event = end, account: Account = account) -> Scripted:
            end(account_at(nodes, ends[1], account))
            return answer(received)

        tracker.server.script = end_first
        told[name] = account.desk.browser.http.get(back).status_code
        tracker.server.script = answer
        stored += [name] if linked(account) else []

    assert told == dict.fromkeys(WHILE_REDEEMED, 400)
    assert stored == []
    assert len(tracker.issued) == len(WHILE_REDEEMED)


class TestMeanwhile:
    """Something changes there between a page of this node and its form."""

    @pytest.mark.threat("45g")
    def test_a_page_that_says_less_by_now_is_shown_again(
        self, nodes: Nodes, here: Account, there: Account
    ) -> None:
        """The account can write by the time that the user agrees to reading; then it counts."""
        desk = here.desk
        token = desk.sign_in(here.agent)
        assert "may now use" in text(here.connect(token, scope="read"))
        made = desk.site.app(desk.zone, "Other", consent="required", dependencies=[here.issues])
        other = client_at(nodes, desk.site.server, made)
        other_token = desk.sign_in(other)
        form = desk.page(here.link(other_token, other, scope="read"))
        assert "may now use" in text(there.connect(token, scope="write"))
        let_pass(BOUND_SECONDS)

        again = desk.allow(form)

        assert "Something has changed since this page was shown" in text(again)
        assert here.exchange(other_token, other)["reason"] == REQUIRED
        assert isinstance(again, Page)
        assert "may now use" in text(desk.allow(again))

    @pytest.mark.threat("45h")
    def test_a_resource_that_moves_while_the_user_is_at_the_provider(
        self, here: Account, there: Account
    ) -> None:
        """The code is not redeemed; with a link for the new address the account is connected."""
        token = here.desk.sign_in(here.agent)
        back = here.callback(here.desk.page(here.link(token)))

        moved = there.desk.update(RESOURCE, there.issues.id, identifier=MOVED)

        let_pass(BOUND_SECONDS)
        here.desk.page(back, status=400)
        assert here.tracker.redeemed == []
        assert linked(here) == []
        here.issues = moved
        assert "may now use" in text(here.connect(token))

    @pytest.mark.threat("45j")
    def test_a_key_for_the_former_address_is_not_stored(self, here: Account, there: Account) -> None:
        """The page named another place for it; with a page of the new one it is stored."""
        token = here.desk.sign_in()
        form = here.desk.page(here.desk.link(token, here.desk.tickets))

        moved = there.desk.update(RESOURCE, there.desk.tickets.id, identifier=MOVED)

        let_pass(BOUND_SECONDS)
        assert_page(here.desk.browser.post(form, decision="allow", credential="sk-of-ada"), 400)
        assert here.rows("vault_tokens") == []
        page = here.desk.page(here.desk.link(token, moved))
        assert "may now use" in text(here.desk.allow(page, credential="sk-of-ada"))


@pytest.mark.threat("45f")
def test_scopes_beyond_the_request_are_dropped_and_said(here: Account, there: Account) -> None:
    """By the node that hears them; the other one tells nobody of them either."""
    here.tracker.grants = "read admin"
    token = here.desk.sign_in(here.agent)
    back = here.callback(here.desk.page(here.link(token, scope="read")))

    assert "not part of what you have allowed here: admin" in there.desk.page(back).text
    assert here.exchange(token)["scope"] == "read"


@pytest.mark.threat("44a", "44b", "44c")
@ONE_WAY
@pytest.mark.parametrize("second", SORTS)
@pytest.mark.parametrize("first", SORTS)
def test_each_client_asks_for_itself(
    nodes: Nodes, here: Account, there: Account, first: str, second: str
) -> None:
    """Ada lets one client use the account here; there the other one is refused until she agrees to it."""
    here.connect(here.desk.sign_in(here.agent))
    one, other = asker(here, first, "one"), asker(there, second, "other")
    for each in (one, other):
        each.client = client_at(nodes, each.account.desk.site.server, each.client)

    one.authorize()

    assert one.is_authorized()
    assert not other.is_authorized()
    other.authorize()
    assert other.is_authorized()
    assert len(here.tracker.asked) == 1


@pytest.fixture
def signing_in() -> Iterator[OpenIDServer]:
    """A running OpenID provider."""
    with openid_server() as running:
        yield running


@pytest.mark.threat("45e")
def test_another_users_account_is_refused(
    nodes: Nodes, ends: tuple[Server, Server], signing_in: OpenIDServer
) -> None:
    """Eve has signed in here with it, and Ada's answer comes there: she connects her own alone."""
    workforce = Workforce(site_at(nodes, ends[0]), signing_in, separate=False)
    eve, ada = browser_at(nodes, ends[0]), browser_at(nodes, ends[1])
    workforce.sign_in(eve, "eve")
    token = workforce.sign_in(ada, "ada")

    for wrong in ({"sub": "eve"}, {"sub": "ada", "nonce": "another"}):
        assert_page(workforce.connect(ada, token, **wrong).response, 403)
        assert workforce.exchange(token)["error"] == "access_denied"
    assert "may now use" in workforce.connect(ada, token, sub="ada").text


@pytest.mark.threat("21e")
def test_an_attackers_sign_in_changes_nothing(
    nodes: Nodes, ends: tuple[Server, Server], signing_in: OpenIDServer
) -> None:
    """Mallory begins here, and the answer is opened there in the browser of Ada, who is signed in."""
    site = site_at(nodes, ends[0])
    client = site.app(federated(site, signing_in.issuer))
    ada, mallory = browser_at(nodes, ends[1]), browser_at(nodes, ends[0])
    signing_in.says = {"sub": "ada", "email": "ada@acme.example", "email_verified": True}
    answer = ada.open(client.url())
    assert isinstance(answer, Answer)
    token = client.redeem(answer.code).json()["access_token"]
    signing_in.says = {"sub": "mallory", "email": "mallory@acme.example", "email_verified": True}
    at_provider = mallory.http.get(client.url()).headers["location"]
    back = mallory.http.get(at_provider).headers["location"]
    before = dict(ada.http.cookies)

    assert ada.http.get(back).status_code == 400

    assert dict(ada.http.cookies) == before
    assert client.userinfo(token).json()["email"] == "ada@acme.example"


@pytest.mark.threat("18p")
def test_another_way_to_sign_in_ends_what_the_former_has_signed_in(
    nodes: Nodes, ends: tuple[Server, Server], signing_in: OpenIDServer
) -> None:
    """An administrator takes the provider away there; what it has signed in is refused here."""
    here, there = (site_at(nodes, node) for node in ends)
    zone = federated(here, signing_in.issuer)
    client = client_at(nodes, ends[0], here.app(zone))
    signing_in.says = {"sub": "ada", "email": "ada@acme.example", "email_verified": True}
    answer = browser_at(nodes, ends[0]).open(client.url())
    assert isinstance(answer, Answer)
    token = client.redeem(answer.code).json()["access_token"]
    assert client.userinfo(token).status_code == 200

    nobody = {"user_identity_provider_id": None}
    there.run(there.company.run(ZONE, Verb.UPDATE, {}, zone.id, nobody))

    let_pass(BOUND_SECONDS)
    assert client.userinfo(token).status_code == 401


@pytest.mark.threat("18q")
def test_a_grant_that_is_given_again_here_is_given_to_one_application(
    nodes: Nodes, here: Account, there: Account
) -> None:
    """It was revoked there; Ada gives it to the agent again, and the other one has to ask at both nodes."""
    desk = here.desk
    other = desk.site.app(desk.zone, "Other", consent="required", dependencies=[desk.documents])
    token, others = desk.sign_in(), desk.sign_in(other)

    def exchanged(application: Client, subject: str) -> list[str | None]:
        """What both nodes answer: None for a token, or the reason of the refusal."""
        at_both = ((each, client_at(nodes, each.desk.site.server, application)) for each in (here, there))
        answers = [each.desk.exchange(subject, desk.documents, client) for each, client in at_both]
        return [each.get("reason") for each in answers]

    desk.allow(desk.page(desk.link(token, desk.documents)))
    desk.allow(desk.page(desk.link(others, desk.documents, other)))
    assert exchanged(desk.agent, token) + exchanged(other, others) == [None] * 4
    (grant,) = here.rows("delegated_grants")
    there.desk.update(DELEGATED_GRANT, str(grant["id"]), status="revoked")
    let_pass(BOUND_SECONDS)
    assert exchanged(desk.agent, token) + exchanged(other, others) == [REQUIRED] * 4

    desk.allow(desk.page(desk.link(token, desk.documents)))

    let_pass(BOUND_SECONDS)
    assert exchanged(desk.agent, token) == [None] * 2
    assert exchanged(other, others) == [REQUIRED] * 2

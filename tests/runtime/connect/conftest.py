"""A zone in which Ada has signed in to an agent, and the connect links that its refused exchanges lead to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import select
from tests.runtime.login.conftest import browser, pytest_generate_tests, site
from tests.support.account_provider import AccountProvider, account_provider
from tests.support.oauth_site import Answer, Browser, Client, Page, Site, assert_page

from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql import entities
from runtime.storage.sql.tables import METADATA

__all__ = ["browser", "pytest_generate_tests", "site"]

SCOPES = ("read", "write")
REQUIRED = "user_authorization_required"


@dataclass
class Desk:
    """An agent that asks for consent, and what it needs Ada's authorization for.

    Attributes:
        documents: a resource whose tokens the zone issues.
        tickets: a resource of the vault.
    """

    site: Site
    browser: Browser
    zone: Zone
    ada: User
    documents: Resource
    tickets: Resource
    agent: Client

    @property
    def issuer(self) -> str:
        """The zone's."""
        return self.agent.issuer

    def sign_in(self, client: Client | None = None, browser: Browser | None = None) -> str:
        """Ada signs in to an application, by default the agent; its access token, which is for the zone."""
        client, browser = client or self.agent, browser or self.browser
        place = browser.open(client.url())
        if isinstance(place, Page) and place.action.endswith("/oauth/consent"):
            place = browser.send(place, decision="allow")
        answer = place if isinstance(place, Answer) else browser.sign_in(place)
        redeemed = client.redeem(answer.code)
        assert redeemed.status_code == 200, redeemed.text
        token: str = redeemed.json()["access_token"]
        return token

    def exchange(
        self, token: str, resource: Resource, client: Client | None = None, **more: Any
    ) -> dict[str, Any]:
        """What an exchange is answered with."""
        answer: dict[str, Any] = (
            (client or self.agent)
            .token(
                grant_type=GRANT_TYPE,
                subject_token=token,
                subject_token_type=ACCESS_TOKEN,
                resource=resource.identifier,
                **more,
            )
            .json()
        )
        return answer

    def link(self, token: str, resource: Resource, client: Client | None = None, **more: Any) -> str:
        """The `error_uri` of a refused exchange."""
        refused = self.exchange(token, resource, client, **more)
        assert (refused["error"], refused["reason"]) == ("access_denied", REQUIRED), refused
        link: str = refused["error_uri"]
        assert link.startswith(f"{self.issuer}/oauth/connect?link=")
        return link

    def page(self, address: str, browser: Browser | None = None, status: int = 200) -> Page:
        """The page at an address."""
        place = (browser or self.browser).open(address)
        assert isinstance(place, Page), place
        assert_page(place.response, status)
        return place

    def allow(self, page: Page, browser: Browser | None = None, **values: str) -> Page | Answer:
        """Say yes on a connect page."""
        return (browser or self.browser).send(page, decision="allow", **values)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What the zone has in a table."""

        async def read() -> list[dict[str, Any]]:
            rows = METADATA.tables[table]
            async with self.site.services.database.reading() as conn:
                found = await conn.execute(select(rows).where(rows.c.zone_id == self.zone.id))
                return [dict(row) for row in found.mappings()]

        return self.site.run(read())

    def update(self, kind: Any, entity_id: str, **patch: Any) -> Any:
        """Change something in the zone, as an administrator does."""
        return self.site.run(self.site.company.update(kind, self.zone.id, entity_id, **patch))

    def delete(self, kind: Any, entity_id: str) -> None:
        """Delete something in the zone, as an administrator does."""
        self.site.run(self.site.company.delete(kind, self.zone.id, entity_id))


def returning(link: str, redirect_uri: str, state: str = "s-1") -> str:
    """A link as an application sends its user there that wants them back."""
    return f"{link}&{urlencode({'redirect_uri': redirect_uri, 'state': state})}"


def desk_on(site: Site, browser: Browser) -> Desk:
    """A desk of its own."""
    zone = site.zone("Acme Workforce")
    ada = site.user(zone)
    vault = site.run(vault_of(site, zone))
    company = site.company
    documents = site.run(company.resource(zone, "https://documents.example", scopes=SCOPES))
    tickets = site.run(
        company.resource(zone, "https://tickets.example", scopes=SCOPES, credential_provider_id=vault.id)
    )
    agent = site.app(zone, "Research Agent", consent="required", dependencies=[documents, tickets])
    return Desk(site, browser, zone, ada, documents, tickets, agent)


async def vault_of(site: Site, zone: Zone) -> Provider:
    """The zone's own provider for stored keys."""
    async with site.services.database.reading() as conn:
        found = await entities.find_by(conn, PROVIDER, "type", "service-vault", within={"zone_id": zone.id})
    assert isinstance(found, Provider)
    return found


@pytest.fixture
def desk(site: Site, browser: Browser) -> Desk:
    return desk_on(site, browser)


@pytest.fixture
def other_browser() -> Iterator[Browser]:
    """A second browser without cookies."""
    made = Browser()
    yield made
    made.http.close()


Event = Callable[[Desk], None]


@dataclass
class Account:
    """A desk, and a provider at which Ada has an account.

    Attributes:
        issues: a resource whose tokens the provider issues; the agent depends on it.
    """

    desk: Desk
    tracker: AccountProvider
    provider: Provider
    issues: Resource
    agent: Client

    def link(self, token: str, client: Client | None = None, **more: Any) -> str:
        """The `error_uri` of a refused exchange for the resource."""
        return self.desk.link(token, self.issues, client or self.agent, **more)

    def exchange(self, token: str, client: Client | None = None, **more: Any) -> dict[str, Any]:
        """What an exchange for the resource is answered with."""
        return self.desk.exchange(token, self.issues, client or self.agent, **more)

    def connect(self, token: str, client: Client | None = None, **more: Any) -> Page | Answer:
        """Open the link of a refused exchange and go through with it."""
        return self.desk.allow(self.desk.page(self.link(token, client, **more)))

    def callback(self, page: Page, browser: Browser | None = None) -> str:
        """Say yes on a connect page; the address at which the provider sends the browser back."""
        browser = browser or self.desk.browser
        to_provider = browser.post(page, decision="allow")
        assert to_provider.status_code == 303, to_provider.text
        back = browser.http.get(to_provider.headers["location"])
        assert back.status_code == 302
        return str(back.headers["location"])

    def rows(self, table: str) -> list[dict[str, Any]]:
        """What the zone has in a table."""
        return self.desk.rows(table)


def account_on(desk: Desk, tracker: AccountProvider, **provider: Any) -> Account:
    """An account at that provider, which a new agent of the zone wants to use.

    Args:
        provider: other members of the provider.
    """
    company, site = desk.site.company, desk.site
    made = site.run(company.create(PROVIDER, desk.zone.id, **{**tracker.settings, **provider}))
    issues = site.run(
        company.resource(desk.zone, "https://issues.example", scopes=SCOPES, credential_provider_id=made.id)
    )
    agent = site.app(desk.zone, "Tracker Agent", consent="required", dependencies=[issues])
    return Account(desk, tracker, made, issues, agent)


@pytest.fixture
def tracker() -> Iterator[AccountProvider]:
    """A running provider of this test's own."""
    with account_provider() as running:
        yield running


@pytest.fixture
def account(desk: Desk, tracker: AccountProvider) -> Account:
    return account_on(desk, tracker)

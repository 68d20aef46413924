"""People who sign in at their organization's home zone, as far as the management API."""

from dataclasses import dataclass, field, replace
from typing import cast

import httpx
from tests.runtime.management.conftest import Api, caller
from tests.support.factories import App, operator
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, ZONE
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.values import OrganizationRole
from runtime.domain.kinds.zone import Zone
from runtime.services.authority import users
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import unit_of_work
from runtime.storage.sql import entities

REDIRECT_URI = "http://127.0.0.1:43211/callback"


@dataclass
class Someone:
    """An organization user with a password, and the browser they use."""

    api: Api
    email: str
    user: OrganizationUser
    client: Client
    browser: Browser = field(default_factory=Browser)

    def tokens(self) -> dict[str, str]:
        """Sign in through the platform's client, with PKCE, for the management API."""
        url = self.client.url(resources=[self.api.server.url], scope="openid", nonce=None)
        place = self.browser.open(url)
        answer = place if isinstance(place, Answer) else self.browser.sign_in(place, self.email)
        redeemed = self.client.redeem(answer.code)
        assert redeemed.status_code == 200, redeemed.text
        return cast(dict[str, str], redeemed.json())

    def calling(self) -> Api:
        """The management API, called with an access token of this person."""
        return self.with_token(self.tokens()["access_token"])

    def with_token(self, token: str) -> Api:
        return caller(self.api.server, token, self.api.organization_id)

    def exchanged(self, mine: Api, organization: str | None = None) -> Api:
        """The same person with a token of one organization."""
        path = f"/organizations/{organization or self.api.organization_id}/token"
        token = mine.ok("POST", path, status=200)
        assert token["token_type"] == "Bearer"
        assert 0 < token["expires_in"] <= 3600
        return self.with_token(token["access_token"])

    @property
    def path(self) -> str:
        return f"/organizations/{self.api.organization_id}/users/{self.user.id}"


def someone(api: Api, role: str = "org_member") -> Someone:
    """Somebody new who acts for the organization and can sign in."""
    email = f"{new_id()}@example.com"
    zone_id = api.home_zone().id

    async def make(services: Services) -> tuple[OrganizationUser, Zone, Application]:
        user = await users.create_local_user(services, zone_id, email, PASSWORD, verified=True)
        acting = operator(api.organization_id)
        async with unit_of_work(services, acting, new_id()) as unit:
            made = await organization_users.add_home_user(unit, user, OrganizationRole(role))
            zone = await entities.get(unit.conn, ZONE, zone_id, within={})
            app = await entities.find_by(
                unit.conn, APPLICATION, "identifier", "zonectl", within={"zone_id": zone_id}
            )
        return made, cast(Zone, zone), cast(Application, app)

    person, zone, app = api.server.call(make)
    client = Client(zone, App(app, "zonectl", None, ""), redirect_uri=REDIRECT_URI)
    return Someone(api, email, person, client)


def with_own_application(api: Api, who: Someone) -> Someone:
    """The same person, who signs in to an application that an administrator has made, with a secret."""
    zone = api.home_zone()
    redirects = {"oauth2": {"redirect_uris": [REDIRECT_URI]}}
    made = zone.make("applications", protocols=redirects, consent="implicit")
    secret = zone.password(made["id"])
    (resource,) = api.ok("GET", zone.path(f"/resources?identifier={api.server.url}"))["items"]
    api.ok("PUT", zone.path(f"/applications/{made['id']}/dependencies/{resource['id']}"))
    app = App(Application.model_validate(made), secret["identifier"], secret["password"], secret["id"])
    return replace(who, client=Client(who.client.zone, app, redirect_uri=REDIRECT_URI))


def status(api: Api, path: str = "/zones") -> int:
    """How a read is answered."""
    response: httpx.Response = api("GET", path)
    return response.status_code

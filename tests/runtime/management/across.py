"""Two organizations that share people, and what an administrator of the one can set up against the other."""

from dataclasses import dataclass, replace
from typing import Any

import httpx
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.members.inviting import accept, address, token_of
from tests.runtime.management.signing_in import REDIRECT_URI, Someone, someone, status
from tests.support.oauth_site import Answer, Browser, Client, Page
from tests.support.openid_server import OpenIDServer

from runtime.domain.identifiers import new_id
from runtime.services.management.organizations import organizations

GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def company(api: Api, name: str) -> Api:
    """A new organization, called by its administrator."""
    made, key = api.server.call(lambda services: organizations.create_organization(services, api.named(name)))
    return caller(api.server, key, made.id)


def connect(api: Api, provider: OpenIDServer, **more: Any) -> None:
    """Have the people of an organization sign in at a provider."""
    body = {"client_id": "organization", "client_secret": "s", "identifier": provider.issuer, **more}
    api.ok("POST", f"/organizations/{api.organization_id}/sso-connection", body)


def reconnect(api: Api, **patch: Any) -> None:
    """Change the connection; its secret is given again, which a new address asks for."""
    patch = {"client_secret": "s", **patch}
    api.ok("PATCH", f"/organizations/{api.organization_id}/sso-connection", patch)


def disconnect(api: Api) -> None:
    api.ok("DELETE", f"/organizations/{api.organization_id}/sso-connection")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass
class Person:
    """Somebody whose account is at home, as a provider knows them."""

    who: Someone
    subject: str

    def signed_in_by(self, provider: OpenIDServer, browser: Browser | None = None) -> "Answer | Page":
        """Where a new sign-in leads in which the provider says that it is them."""
        provider.says = {"sub": self.subject, "email": self.who.email, "email_verified": True}
        url = self.who.client.url(resources=[self.who.api.server.url], scope="openid", nonce=None)
        return (browser or Browser()).open(url)

    def by(self, provider: OpenIDServer) -> Api:
        """The management API with the token of such a sign-in, through the service's own client."""
        answer = self.signed_in_by(provider)
        assert isinstance(answer, Answer), answer.text
        redeemed = self.who.client.redeem(answer.code)
        assert redeemed.status_code == 200, redeemed.text
        return self.who.with_token(redeemed.json()["access_token"])


def federated(home: Api, provider: OpenIDServer, name: str) -> Person:
    """Somebody new at home whom the provider signs in."""
    person = Person(replace(someone(home), email=address(name)), f"{name}-{new_id()}")
    home.invite(person.who.email)
    assert token_of(home, person.who.email)
    assert status(person.by(provider)) == 200
    return person


def token_in(mine: Api) -> str:
    return str(mine.client.headers["authorization"]).removeprefix("Bearer ")


def join(away: Api, email: str, mine: Api) -> httpx.Response:
    """Accept an invitation of another organization, with a token from home."""
    away.invite(email)
    return accept(away, token_of(away, email), **bearer(token_in(mine)))


def swapped(mine: Api, organization: Api) -> httpx.Response:
    return mine("POST", f"/organizations/{organization.organization_id}/token")


def acts_for(mine: Api, organization: Api) -> bool:
    """Whether a token gets its holder into an organization."""
    answer = swapped(mine, organization)
    if answer.status_code != 200:
        assert answer.status_code in (401, 404), answer.text
        return False
    there = caller(mine.server, answer.json()["access_token"], organization.organization_id)
    return status(there, f"/organizations/{organization.organization_id}/users") == 200


def application(home: Api, *, public: bool = True, consent: str = "implicit") -> dict[str, Any]:
    """A credential of an application of the home zone that may call the management API."""
    zone, redirects = home.home_zone(), {"oauth2": {"redirect_uris": [REDIRECT_URI]}}
    app = zone.make("applications", protocols=redirects, consent=consent)
    (resource,) = home.ok("GET", zone.path(f"/resources?identifier={home.server.url}"))["items"]
    home.ok("PUT", zone.path(f"/applications/{app['id']}/dependencies/{resource['id']}"))
    if public:
        return zone.make("application-credentials", type="public", application_id=app["id"])
    return zone.password(app["id"])


def through(person: Someone, credential: dict[str, Any]) -> Api:
    """The management API with a token that an application of the home organization has got."""
    client = Client(
        person.client.zone, replace(person.client.app, client_id=credential["identifier"]), REDIRECT_URI
    )
    place = person.browser.open(client.url(resources=[person.api.server.url], scope="openid", nonce=None))
    if isinstance(place, Page) and place.action.endswith("/oauth/consent"):
        place = person.browser.send(place, decision="allow")
    answer = place if isinstance(place, Answer) else person.browser.sign_in(place, person.email)
    return person.with_token(client.redeem(answer.code).json()["access_token"])


def assert_refused(place: "Answer | Page") -> None:
    assert isinstance(place, Page), place
    assert place.response.status_code == 403
    assert "other organizations" in place.text

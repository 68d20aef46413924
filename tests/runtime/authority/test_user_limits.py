"""Limits that a user sets for applications: one loosens it only if the user was asked for exactly that."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from tests.runtime.management.bundles.holding import PERMIT, archive_of
from tests.support.oauth_site import Answer, Browser, Page, Site, claims

from runtime.contract.bundles import MEDIA_TYPE
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.storage.sql.tables import TABLES

STORAGE = ("embedded", "servers")
API = "https://api.example"
SCOPE = "openid policy_bundle"
NO_API = f'forbid (principal, action, resource == Resource::"{API}");\n'


def ask(site: Site, method: str, token: str, content: bytes | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE}
    return httpx.request(
        method, f"{site.server.url}/policy/bundle", content=content, headers=headers, timeout=30
    )


class Limited:
    """Ada signs in to `notes`, which is never asked about, and with `tool` she has forbidden it the API."""

    def __init__(self, site: Site) -> None:
        self.site, self.zone = site, site.zone()
        site.user(self.zone)
        self.api = site.run(site.company.resource(self.zone, API, scopes=["read"]))
        self.notes = site.app(self.zone, dependencies=[self.api])
        self.tool = site.app(self.zone, "tool")
        self.browser = Browser()
        self.tokens = self.notes.sign_in(self.browser)
        assert self.exchange().status_code == 200
        page = self.browser.open(self.tool.url(scope=SCOPE))
        assert isinstance(page, Page)
        assert "change the policies" in page.text
        agreed = self.browser.send(page, decision="allow")
        assert isinstance(agreed, Answer)
        self.allowed = self.tool.redeem(agreed.code).json()
        files = {"some": PERMIT, "but": NO_API}
        limits = archive_of(*({"new_policy": name} for name in files), files=files)
        stored = ask(site, "PUT", self.allowed["access_token"], limits)
        assert stored.status_code == 200, stored.text
        assert self.is_limited()

    def exchange(self) -> httpx.Response:
        return self.notes.token(
            grant_type=GRANT_TYPE,
            subject_token=self.tokens["access_token"],
            subject_token_type=ACCESS_TOKEN,
            resource=API,
        )

    def is_limited(self) -> bool:
        answer = self.exchange()
        if answer.status_code == 200:
            return False
        assert answer.json()["error"] == "access_denied", answer.text
        return True

    def refused(self, token: str) -> set[int]:
        """What an attempt to read, to replace and to reset the policies is answered."""
        tried = [
            ask(self.site, "GET", token),
            ask(self.site, "PUT", token, archive_of()),
            ask(self.site, "DELETE", token),
        ]
        assert self.is_limited()
        return {each.status_code for each in tried}


@pytest.fixture(scope="module")
def limited(site: Site) -> Limited:
    return Limited(site)


@pytest.mark.threat("29j")
def test_no_token_that_an_application_gets_by_itself(site: Site, limited: Limited) -> None:
    """Signed in, refreshed, exchanged, its own: each is refused, and what is missing is said."""
    told = ask(site, "GET", limited.allowed["access_token"])
    assert told.status_code == 200
    signed_in = limited.tokens["access_token"]
    assert limited.notes.userinfo(signed_in).status_code == 200
    assert limited.refused(signed_in) == {403}
    challenge = ask(site, "DELETE", signed_in).headers["www-authenticate"]
    error, scope, metadata = challenge.split(", ")
    assert (error, scope) == ('Bearer error="insufficient_scope"', 'scope="policy_bundle"')
    assert metadata == f'resource_metadata="{site.server.url}/.well-known/oauth-protected-resource"'

    again = limited.notes.refresh(limited.tokens["refresh_token"])
    limited.tokens["refresh_token"] = again.json()["refresh_token"]
    assert limited.refused(again.json()["access_token"]) == {403}
    more = limited.notes.refresh(limited.tokens["refresh_token"], scope=SCOPE)
    assert more.json()["error"] == "invalid_scope"
    own = limited.notes.token(grant_type="client_credentials", scope="policy_bundle", resource=API)
    token = own.json().get("access_token", "none")
    assert limited.refused(token) == {401}
    to_itself = limited.notes.token(
        grant_type=GRANT_TYPE,
        subject_token=signed_in,
        subject_token_type=ACCESS_TOKEN,
        resource=limited.notes.issuer,
        scope="policy_bundle",
    )
    assert to_itself.status_code == 400


@pytest.mark.threat("29j")
def test_silence_is_no_consent_whatever_an_administrator_has_set(limited: Limited) -> None:
    """An application with implicit consent cannot get this scope without asking: `prompt=none` fails."""
    silent = limited.browser.open(limited.notes.url(prompt="none"))
    assert isinstance(silent, Answer)
    assert limited.notes.redeem(silent.code).status_code == 200

    refused = limited.browser.open(limited.notes.url(prompt="none", scope=SCOPE))

    assert isinstance(refused, Answer)
    assert refused.values["error"] == "consent_required"
    assert limited.is_limited()


@pytest.mark.threat("29j")
def test_a_user_who_is_never_asked_is_asked_for_this_and_may_say_no(limited: Limited) -> None:
    """The consent page names what is wanted; after a no the limits are as they were."""
    page = limited.browser.open(limited.notes.url(scope=SCOPE))
    assert isinstance(page, Page)
    assert page.action.endswith("/oauth/consent")
    assert "change the policies" in page.text

    denied = limited.browser.send(page, decision="deny")

    assert isinstance(denied, Answer)
    assert denied.values["error"] == "access_denied"
    assert limited.is_limited()


async def rename_as_before(site: Site, resource_id: str, identifier: str) -> None:
    """Give a resource a name that the service refuses."""
    async with site.services.database.transaction() as conn:
        resources = TABLES["Resource"]
        await conn.execute(
            update(resources).where(resources.c.id == resource_id).values(identifier=identifier)
        )


@pytest.mark.threat("29j")
def test_a_scope_of_a_resource_is_another(site: Site, limited: Limited) -> None:
    """A resource that goes by the zone's own name, with a scope of that name, opens nothing of the zone's.

    None can be made by now; a database from before may have one.
    """
    issuer = limited.notes.issuer
    scopes = ["policy_bundle", "openid"]
    mine = site.run(site.company.resource(limited.zone, "https://mine.example", scopes=scopes))
    site.run(rename_as_before(site, mine.id, issuer))
    acting = site.app(limited.zone, "acting", dependencies=[mine])
    tokens = acting.sign_in(limited.browser, resources=[issuer])
    exchanged = acting.token(
        grant_type=GRANT_TYPE,
        subject_token=tokens["access_token"],
        subject_token_type=ACCESS_TOKEN,
        resource=issuer,
    )
    assert exchanged.status_code == 200, exchanged.text
    direct, further = tokens["access_token"], exchanged.json()["access_token"]
    assert [(claims(each)["aud"], "act" in claims(each)) for each in (direct, further)] == [
        (issuer, False),
        (issuer, True),
    ]
    assert (limited.refused(direct), limited.refused(further)) == ({403}, {401})
    statuses = [acting.userinfo(each["access_token"]).status_code for each in (tokens, exchanged.json())]
    assert statuses == [200, 401]


@pytest.mark.threat("29j", "24h")
def test_who_registered_itself_is_not_offered_it(site: Site, limited: Limited) -> None:
    """It asks, the scope is left out, and its token is refused."""
    address = limited.zone.protocols.oauth2.registration_endpoint
    metadata: Mapping[str, Any] = {"redirect_uris": ["http://127.0.0.1/callback"], "client_name": "tool"}
    registered = httpx.post(str(address), json=metadata, timeout=30).json()
    client = site.stranger(limited.zone, registered["client_id"], "http://127.0.0.1:43211/callback")
    page = limited.browser.open(client.url(scope=SCOPE))
    assert isinstance(page, Page)
    assert "change the policies" not in page.text
    agreed = limited.browser.send(page, decision="allow")
    assert isinstance(agreed, Answer)
    tokens = client.redeem(agreed.code).json()
    assert tokens["scope"] == "openid"
    assert limited.refused(tokens["access_token"]) == {403}


@pytest.mark.threat("29j", "18l")
def test_what_the_user_agreed_to_ends_with_their_word(site: Site) -> None:
    """Until they take it back, the application that was asked for changes them; others never do."""
    limited = Limited(site)
    token = limited.allowed["access_token"]
    assert ask(site, "GET", token).status_code == 200
    page = limited.browser.open(f"{limited.notes.issuer}/account")
    assert isinstance(page, Page)
    assert "change the policies" in page.text
    limited.browser.send(page, application=limited.tool.app.id)
    assert limited.refused(token) == {401}

    page = limited.browser.open(limited.tool.url(scope=SCOPE))
    assert isinstance(page, Page), "asked anew"
    agreed = limited.browser.send(page, decision="allow")
    assert isinstance(agreed, Answer)
    token = limited.tool.redeem(agreed.code).json()["access_token"]
    assert ask(site, "DELETE", token).status_code == 204
    assert not limited.is_limited()

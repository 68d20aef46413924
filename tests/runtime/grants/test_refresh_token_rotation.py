"""Refresh tokens: rotated, repeated for a moment, and ended together."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import update
from tests.support.oauth_site import Browser, Client, Site, claims

from runtime.storage.sql.tables import METADATA

_families = METADATA.tables["refresh_families"]

STORAGE = ("embedded", "servers")


def prepared(site: Site, **app: object) -> Client:
    """An application of a zone in which Ada can sign in."""
    zone = site.zone()
    site.user(zone)
    return site.app(zone, **app)


def age(site: Site, client: Client, seconds: int) -> None:
    """Let the last rotations have happened earlier."""

    async def shift() -> None:
        async with site.services.database.transaction() as conn:
            await conn.execute(
                update(_families)
                .where(_families.c.zone_id == client.zone.id)
                .values(rotated_at=site.services.clock() - timedelta(seconds=seconds))
            )

    site.run(shift())


class TestReplay:
    """One family never becomes two."""

    @pytest.mark.threat("19a")
    def test_repeating_at_once_gives_the_same_successor(self, site: Site) -> None:
        """A client that did not hear the answer asks again, and nothing has forked."""
        client = prepared(site)
        first = client.sign_in()["refresh_token"]

        second = client.refresh(first).json()["refresh_token"]
        again = client.refresh(first).json()["refresh_token"]

        assert second == again != first
        assert client.refresh(second).status_code == 200

    @pytest.mark.threat("19b")
    @pytest.mark.standard("RFC 9700")
    def test_repeating_later_ends_the_family(self, site: Site) -> None:
        """After half a minute two parties have the token, and neither keeps it."""
        client = prepared(site)
        tokens = client.sign_in()
        first = tokens["refresh_token"]
        second = client.refresh(first).json()
        age(site, client, 31)

        assert client.refresh(first).json()["error"] == "invalid_grant"

        assert client.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
        assert client.userinfo(second["access_token"]).status_code == 401

    @pytest.mark.threat("19e")
    def test_an_older_token_ends_the_family_at_once(self, site: Site) -> None:
        """Two steps back there is no grace."""
        client = prepared(site)
        first = client.sign_in()["refresh_token"]
        second = client.refresh(first).json()["refresh_token"]
        third = client.refresh(second).json()["refresh_token"]

        assert client.refresh(first).json()["error"] == "invalid_grant"

        assert client.refresh(third).json()["error"] == "invalid_grant"

    @pytest.mark.threat("19f")
    def test_another_client_gets_nothing_and_ends_nothing(self, site: Site) -> None:
        """A token is its client's; a stranger who shows it cannot do harm with it either."""
        client = prepared(site)
        stranger = site.app(client.zone, "stranger")
        token = client.sign_in()["refresh_token"]

        assert stranger.refresh(token).json()["error"] == "invalid_grant"

        assert client.refresh(token).status_code == 200

    @pytest.mark.threat("19d")
    def test_twenty_at_once_get_the_same_successor(self, site: Site) -> None:
        """All hear the same successor, and the family goes on."""
        client = prepared(site)
        token = client.sign_in()["refresh_token"]

        with ThreadPoolExecutor(20) as pool:
            responses = list(pool.map(lambda _: client.refresh(token), range(20)))

        assert {response.status_code for response in responses} == {200}
        successors = {response.json()["refresh_token"] for response in responses}
        assert len(successors) == 1
        assert client.refresh(successors.pop()).status_code == 200


def test_scopes_and_resources_only_narrow(site: Site, browser: Browser) -> None:
    """What was not authorized is refused; what was left out once comes back."""
    zone = site.zone()
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read", "write"]))
    mail = site.run(site.company.resource(zone, "https://mail.example", scopes=["send"]))
    site.user(zone)
    client = site.app(zone, dependencies=[files, mail])
    token = client.sign_in(browser, resources=[files.identifier], scope="openid read write")["refresh_token"]

    narrow = client.refresh(token, scope="read").json()
    beyond = client.refresh(narrow["refresh_token"], scope="read send").json()
    elsewhere = client.refresh(narrow["refresh_token"], resource=mail.identifier).json()
    whole = client.refresh(narrow["refresh_token"]).json()

    assert claims(narrow["access_token"])["scope"] == "read"
    assert "id_token" not in narrow
    assert beyond["error"] == "invalid_scope"
    assert elsewhere["error"] == "invalid_target"
    assert claims(whole["access_token"])["scope"] == "read write"
    assert claims(whole["access_token"])["aud"] == files.identifier


@pytest.mark.parametrize("consent", ["implicit", "required"])
def test_what_was_granted_at_one_resource_does_not_count_at_another(
    site: Site, browser: Browser, consent: str
) -> None:
    """Scopes of the same name at two resources are two things. Spec: RFC 6749 section 6."""
    zone = site.zone()
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read", "write"]))
    mail = site.run(site.company.resource(zone, "https://mail.example", scopes=["write"]))
    site.user(zone)
    client = site.app(zone, dependencies=[files, mail], consent=consent)
    both = [files.identifier, mail.identifier]
    token = client.sign_in(browser, resources=both, scope="openid read")["refresh_token"]

    nothing = client.refresh(token, resource=mail.identifier).json()
    token = nothing["refresh_token"]
    read = client.refresh(token, resource=files.identifier).json()
    beyond = client.refresh(read["refresh_token"], resource=files.identifier, scope="openid write").json()

    assert "scope" not in claims(nothing["access_token"])
    assert claims(read["access_token"])["scope"] == "read"
    assert beyond["error"] == "invalid_scope"
    written = client.sign_in(resources=[mail.identifier], scope="openid write")
    assert claims(written["access_token"])["scope"] == "write"
    narrow = client.sign_in(resources=[files.identifier], scope="openid read")
    assert claims(narrow["access_token"])["scope"] == "read"


def test_another_credential_of_the_application_gets_nothing(site: Site) -> None:
    """What was issued to a client with a secret is no use to one that anybody can claim to be."""
    client = prepared(site)
    token = client.sign_in()["refresh_token"]
    public = site.run(site.company.credential(client.zone, client.app.application, public=True))

    stolen = client.token(
        authenticate=False, grant_type="refresh_token", refresh_token=token, client_id=public.client_id
    )

    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert client.refresh(token).status_code == 200


def test_a_refused_request_does_not_use_the_token_up(site: Site) -> None:
    """Asking for too much is a mistake, not a theft."""
    client = prepared(site)
    token = client.sign_in()["refresh_token"]

    assert client.refresh(token, scope="openid profile").json()["error"] == "invalid_scope"

    assert client.refresh(token).status_code == 200


def test_the_session_keeps_its_id_and_time(site: Site) -> None:
    """A refreshed token belongs to the same sign-in."""
    client = prepared(site)
    tokens = client.sign_in()

    refreshed = client.refresh(tokens["refresh_token"]).json()

    before, after = claims(tokens["id_token"]), claims(refreshed["id_token"])
    assert (before["sid"], before["auth_time"], before["sub"]) == (
        after["sid"],
        after["auth_time"],
        after["sub"],
    )
    assert "nonce" not in after


@pytest.mark.parametrize(("scope", "outlives"), [("openid", False), ("openid offline_access", True)])
def test_only_offline_access_outlives_the_browser_session(site: Site, scope: str, outlives: bool) -> None:
    """Otherwise the refresh token ends with the sign-in it came from."""
    client = prepared(site)
    token = client.sign_in(scope=scope)["refresh_token"]

    async def end() -> None:
        from runtime.storage.sql import sessions

        async with site.services.database.transaction() as conn:
            found = await conn.execute(
                METADATA.tables["sessions"]
                .select()
                .where(
                    METADATA.tables["sessions"].c.zone_id == client.zone.id,
                    METADATA.tables["sessions"].c.session_type == "browser",
                )
            )
            for row in found.mappings():
                await sessions.revoke(conn, row["id"], zone_id=client.zone.id, now=site.services.clock())

    site.run(end())

    assert client.refresh(token).status_code == (200 if outlives else 400)


@pytest.mark.parametrize("token", [None, "nonsense", "a.b", "x" * 5000])
def test_a_malformed_token_is_just_no_refresh_token(site: Site, token: str | None) -> None:
    """Missing is the request's fault; anything else is just not a refresh token."""
    client = prepared(site)

    response = client.token(grant_type="refresh_token", refresh_token=token)

    assert response.status_code == 400
    assert response.json()["error"] == ("invalid_request" if token is None else "invalid_grant")


@pytest.mark.standard("RFC 6749", "RFC 7662")
@pytest.mark.parametrize(
    ("scope", "told"), [("openid read", {"scope": "openid"}), ("read", {})], ids=["signing in", "none"]
)
def test_introspection_of_a_refresh_token_names_no_scope_where_it_stands_for_none(
    site: Site, browser: Browser, scope: str, told: dict[str, str]
) -> None:
    """Those for signing in are its own; without any the member is left out, not empty."""
    zone = site.zone()
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
    site.user(zone)
    client = site.app(zone, dependencies=[files])
    token = client.sign_in(browser, resources=[files.identifier], scope=scope)["refresh_token"]

    answer = httpx.post(
        f"{client.issuer}/oauth/introspect", data={**client.app.form, "token": token}, timeout=30
    ).json()

    assert answer["active"] is True
    assert {name: value for name, value in answer.items() if name == "scope"} == told

"""Applications that end with the user or group that is accountable for them, beside what the table shows.

The table of docs/revocation-effects.md has the endpoints; here are the revocation list, back-channel logout
and workload identities.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from tests.runtime.authority.admitting import federated_zone, verified
from tests.runtime.authority.session_scenes import let_a_second_pass
from tests.runtime.clients import signing
from tests.runtime.login.test_decision_records import last, records
from tests.support.oauth_site import Client, Site
from tests.support.publisher import publishing
from tests.support.throttling import share_a_counter

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, PROVIDER, USER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE
from runtime.services import revocation_list
from runtime.services.rate_limits import MAX_SECRET_GUESSES
from runtime.services.zone_settings import set_zone_setting
from runtime.services.zones.clients import SUSPENDED
from runtime.storage.sql import logout_recipients
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")


@pytest.fixture(autouse=True)
def fresh_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no revocation list be answered from a moment ago."""
    monkeypatch.setattr(revocation_list, "FRESH_SECONDS", 0.0)


@pytest.fixture
def zone(site: Site) -> Zone:
    """A zone in which applications end with who is accountable for them."""
    zone = site.zone()
    require(site, zone, "on")
    return zone


@pytest.fixture
def olga(site: Site, zone: Zone) -> User:
    return site.user(zone, "olga@acme.example")


def require(site: Site, zone: Zone, value: str) -> None:
    site.run(set_zone_setting(site.services, zone.id, "require-active-accountable", value))


def update(site: Site, zone: Zone, kind: Any, entity_id: str, **patch: object) -> None:
    site.run(site.company.update(kind, zone.id, entity_id, **patch))


def disable(site: Site, user: User) -> None:
    site.run(site.company.update(USER, user.zone_id, user.id, status="disabled"))


def listed(site: Site, zone: Zone) -> list[dict[str, Any]]:
    """The entries of the zone's revocation list."""
    answer = httpx.get(f"{zone.protocols.oauth2.issuer}/.well-known/revocations", timeout=30)
    return list(answer.json()["revocations"])


def authenticated(client: Client) -> int:
    """The status of introspection, which asks for the client's credential."""
    return introspected(client).status_code


def introspected(client: Client, **changes: str) -> httpx.Response:
    """What the introspection endpoint answers with these members of the form instead."""
    form = {"token": "unknown", **client.app.form, **changes}
    return httpx.post(f"{client.issuer}/oauth/introspect", data=form, timeout=30)


def names(entries: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(name, value) for entry in entries for name, value in entry.items() if name.endswith("#S256")}


def withdrawn(client_id: str, identifier: str) -> set[tuple[str, str]]:
    """What the list says of an application with one credential."""
    digest = revocation_list.digest
    return {("client_id#S256", digest(client_id)), ("actor#S256", digest(identifier))}


@pytest.mark.threat("18j", "18r")
def test_the_revocation_list_names_an_ended_application(site: Site, zone: Zone, olga: User) -> None:
    """Tokens that it was issued, and those of chains in which it acted, until the moment of its end."""
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    assert listed(site, zone) == []
    disable(site, olga)
    entries = listed(site, zone)
    assert names(entries) == withdrawn(agent.app.client_id, "agent")
    assert all("issued_until" in entry for entry in entries)


@pytest.mark.threat("18j", "18r")
def test_the_list_names_applications_that_the_setting_ends(site: Site) -> None:
    """Turning the setting on ends at once what has nobody active by then."""
    zone = site.zone()
    olga = site.user(zone, "olga@acme.example")
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    disable(site, olga)
    assert names(listed(site, zone)) == set()
    require(site, zone, "on")
    assert names(listed(site, zone)) == withdrawn(agent.app.client_id, "agent")


@pytest.mark.threat("18j", "18r")
def test_the_list_names_an_application_given_to_a_disabled_user(site: Site, zone: Zone, olga: User) -> None:
    """A change of the application ends it as a change of the user does."""
    agent = site.app(zone, "agent")
    disable(site, olga)
    update(site, zone, APPLICATION, agent.app.id, accountable_user_id=olga.id)
    assert names(listed(site, zone)) == withdrawn(agent.app.client_id, "agent")


@pytest.mark.threat("18j", "18r")
def test_the_list_names_the_applications_of_a_deleted_member(site: Site, zone: Zone, olga: User) -> None:
    """The last active member of an accountable group is deleted, with the membership."""
    group = site.run(site.company.group(zone, "agents-team", [olga]))
    agent = site.app(zone, "agent", accountable_group_id=group.id)
    site.run(site.company.delete(USER, zone.id, olga.id))
    assert names(listed(site, zone)) == withdrawn(agent.app.client_id, "agent")


def test_an_application_stays_with_an_active_member(site: Site, zone: Zone, olga: User) -> None:
    """One of two members of the accountable group is disabled: nothing is revoked."""
    boris = site.user(zone, "boris@acme.example")
    group = site.run(site.company.group(zone, "agents-team", [olga, boris]))
    site.app(zone, "agent", accountable_group_id=group.id)
    disable(site, olga)
    assert names(listed(site, zone)) == set()


def test_a_disabled_user_ends_no_application_of_a_zone_without_the_setting(site: Site) -> None:
    """The setting is off by default: who is accountable is a note."""
    zone = site.zone()
    olga = site.user(zone, "olga@acme.example")
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    disable(site, olga)
    assert authenticated(agent) == 200
    assert names(listed(site, zone)) == set()


def name_address(site: Site, zone: Zone, agent: Client) -> None:
    """Let an address be accountable for an application, as invitations are that nobody has accepted yet."""

    async def write() -> None:
        applications = METADATA.tables["applications"]
        async with site.services.database.transaction() as conn:
            await conn.execute(
                applications.update()
                .where(applications.c.id == agent.app.id)
                .values(accountable_user_id="olga@acme.example")
            )
        await site.company.update(APPLICATION, zone.id, agent.app.id, name="The agent")

    site.run(write())


def test_an_application_ends_until_its_accountable_user_has_signed_in(site: Site, zone: Zone) -> None:
    """An address that no user of the zone has verified is nobody active."""
    agent = site.app(zone, "agent")
    assert authenticated(agent) == 200

    name_address(site, zone, agent)
    assert authenticated(agent) == 401


def test_a_sign_in_that_makes_somebody_accountable_lets_the_application_in(site: Site) -> None:
    """At once, also where it was asked about before: a sign-in is no management write."""
    federated = site.run(federated_zone(site.company))
    zone = federated.zone
    require(site, zone, "on")
    agent = site.app(zone, "agent")
    assert authenticated(agent) == 200
    name_address(site, zone, agent)
    assert authenticated(agent) == 401

    site.run(federated.sign_in("olga", verified("olga@acme.example")))

    assert authenticated(agent) == 200


def test_an_ended_application_works_again_with_its_user(site: Site, zone: Zone, olga: User) -> None:
    """New tokens are issued at once when the user is active again."""
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    disable(site, olga)
    assert authenticated(agent) == 401
    let_a_second_pass(site)
    update(site, zone, USER, olga.id, status="active")
    assert authenticated(agent) == 200


def test_the_secret_of_a_suspended_application_is_no_guess(site: Site, zone: Zone, olga: User) -> None:
    """However often its instances try meanwhile, they are let in at once when somebody is accountable again.

    A wrong secret is a guess as for any other application, and the answer is the same.
    """
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    assert authenticated(agent) == 200
    disable(site, olga)
    refusals = [introspected(agent) for _ in range(2 * MAX_SECRET_GUESSES)]
    refused = refusals[0]
    assert refused.json() == {
        "error": "invalid_client",
        "error_description": "client authentication failed",
    }
    assert {each.text for each in refusals} == {refused.text}
    record = last(site, zone)
    assert record.reason == f"invalid_client: {SUSPENDED}"
    assert (record.application_id, record.credential_id) == (agent.app.id, None)
    guess = introspected(agent, client_secret="wrong")
    assert (guess.status_code, guess.json()) == (refused.status_code, refused.json())
    assert last(site, zone).reason == "invalid_client: wrong client secret"
    let_a_second_pass(site)
    update(site, zone, USER, olga.id, status="active")
    assert authenticated(agent) == 200


@pytest.mark.usefixtures("one_window")
def test_guesses_at_a_suspended_application_are_counted(site: Site, zone: Zone, olga: User) -> None:
    """Who lacks the secret is not told by the throttle that the application is suspended, either."""
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    assert introspected(agent, client_secret="wrong").status_code == 401
    disable(site, olga)
    told = [introspected(agent, client_secret="wrong").status_code for _ in range(MAX_SECRET_GUESSES + 1)]
    assert told[-1] == 429


def test_an_assertion_of_a_suspended_application_is_recorded_as_that(
    site: Site, zone: Zone, olga: User
) -> None:
    """Nothing is verified of it, so it may be anybody's: the record has what the client id names."""
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    disable(site, olga)
    claims = {"iss": agent.app.client_id, "sub": agent.app.client_id}
    asserted = {
        "client_assertion_type": CLIENT_ASSERTION_TYPE,
        "client_assertion": signing.EC.sign(claims, typ="JWT"),
        "token": "unknown",
    }
    answer = httpx.post(f"{agent.issuer}/oauth/introspect", data=asserted, timeout=30)
    assert answer.status_code == 401
    record = last(site, zone)
    assert record.reason == f"invalid_client: {SUSPENDED}"
    assert record.application_id == agent.app.id


@pytest.mark.usefixtures("one_window")
def test_a_blocked_client_is_recorded_with_its_application(site: Site, zone: Zone) -> None:
    """Who guesses at an application is found by it, also after a change of the zone has emptied the cache.

    Of a client id that names nobody the record has none.
    """
    agent, other = site.app(zone, "agent"), site.app(zone, "other")
    names = (f"nobody-{number}" for number in count())
    unknown = next(each for each in names if not share_a_counter(each, agent.app.client_id))
    guesses = range(MAX_SECRET_GUESSES)
    assert {introspected(agent, client_secret="wrong").status_code for _ in guesses} == {401}
    assert {introspected(other, client_id=unknown).status_code for _ in guesses} == {401}
    assert introspected(agent).status_code == introspected(other, client_id=unknown).status_code == 429
    blocked, nobody = records(site, zone)[-2:]
    assert blocked.reason.startswith("too_many_requests: ")
    assert (blocked.application_id, blocked.credential_id) == (agent.app.id, None)
    assert (nobody.reason, nobody.application_id) == (blocked.reason, None)
    update(site, zone, APPLICATION, other.app.id, name="Another name")
    assert introspected(agent).status_code == 429
    assert records(site, zone)[-1].application_id == agent.app.id


def test_another_application_of_the_zone_goes_on(site: Site, zone: Zone, olga: User) -> None:
    """One that names nobody is not concerned."""
    other = site.app(zone, "other")
    site.app(zone, "agent", accountable_user_id=olga.id)
    disable(site, olga)
    assert authenticated(other) == 200


def test_an_ended_application_receives_no_logout_notice(site: Site, zone: Zone, olga: User) -> None:
    """Of a session that ends later, it is told nothing."""
    ada = site.user(zone)
    address = {"backchannel_logout_uri": "https://agent.example/logout"}
    agent = site.app(zone, "agent", accountable_user_id=olga.id, protocols={"oauth2": address})

    async def recipients() -> list[str]:
        sessions = METADATA.tables["sessions"]
        person = await site.company.signed_in(zone, ada)
        async with site.services.database.transaction() as conn:
            await conn.execute(
                sessions.update()
                .where(sessions.c.id == person.session_id)
                .values(application_id=agent.app.id, client_id=agent.app.client_id)
            )
            found = await logout_recipients.of(conn, [person.session_id], zone_id=zone.id)
        return [each.client_id for each in found]

    assert site.run(recipients()) == [agent.app.client_id]
    disable(site, olga)
    assert site.run(recipients()) == []


@pytest.fixture
def ci() -> Iterator[str]:
    """The issuer of workload tokens, which publishes the keys of `signing`."""
    with publishing() as publisher:
        issuer = f"{publisher.url}/ci"
        publisher.publish("/keys", {"keys": [signing.RSA.public_jwk]})
        publisher.publish(
            "/ci/.well-known/openid-configuration", {"issuer": issuer, "jwks_uri": f"{publisher.url}/keys"}
        )
        yield issuer


def workload(site: Site, application: Client, provider: Provider, **members: Any) -> None:
    credential = {"type": "token", "provider_id": provider.id, "application_id": application.app.id}
    site.run(site.company.create(APPLICATION_CREDENTIAL, application.zone.id, **credential, **members))


def shown(site: Site, zone: Zone, issuer: str, subject: str = "job") -> httpx.Response:
    """The answer to who shows a workload's token."""
    now = int(site.services.clock().timestamp())
    own = str(zone.protocols.oauth2.issuer)
    claims = {"iss": issuer, "sub": subject, "aud": own, "iat": now, "exp": now + 300}
    form = {
        "client_assertion_type": CLIENT_ASSERTION_TYPE,
        "client_assertion": signing.RSA.sign(claims, typ="JWT"),
        "token": "unknown",
    }
    return httpx.post(f"{own}/oauth/introspect", data=form, timeout=30)


def test_a_workload_of_a_suspended_application_is_recorded_as_that(
    site: Site, zone: Zone, olga: User, ci: str
) -> None:
    """With the application; the answer is that of a workload that nobody knows.

    It is let in at once when somebody is accountable again.
    """
    provider = site.run(site.company.create(PROVIDER, zone.id, identifier=ci, name="CI", client_id="zone"))
    agent = site.app(zone, "agent", accountable_user_id=olga.id)
    workload(site, agent, provider, subject="job")
    assert shown(site, zone, ci).status_code == 200
    disable(site, olga)
    refused, unknown = shown(site, zone, ci), shown(site, zone, ci, subject="another job")
    assert (refused.status_code, refused.json()) == (unknown.status_code, unknown.json())
    suspended, stranger = records(site, zone)[-2:]
    assert (suspended.reason, suspended.application_id) == (f"invalid_client: {SUSPENDED}", agent.app.id)
    assert (stranger.reason.partition(" is for ")[0], stranger.application_id) == (
        "invalid_client: no credential",
        None,
    )
    let_a_second_pass(site)
    update(site, zone, USER, olga.id, status="active")
    assert shown(site, zone, ci).status_code == 200


def test_a_suspended_application_keeps_no_workload_from_another(
    site: Site, zone: Zone, olga: User, ci: str
) -> None:
    """One that takes any subject of the provider comes after it, and before nobody."""
    provider = site.run(site.company.create(PROVIDER, zone.id, identifier=ci, name="CI", client_id="zone"))
    agent, other = site.app(zone, "agent", accountable_user_id=olga.id), site.app(zone, "other")
    workload(site, agent, provider, subject="job")
    disable(site, olga)
    assert shown(site, zone, ci).status_code == 401
    workload(site, other, provider, any_subject=True)
    assert shown(site, zone, ci).status_code == 200

"""Revocation effects: after each event, everything that rests on a sign-in is asked whether it still works.

The answers are the table of docs/revocation-effects.md. With WRITE_TABLES=1 the test writes what it saw, for
a review to look at; else it compares.
"""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.runtime.authority.session_scenes import (
    TOOLS,
    Manager,
    SignIn,
    answered,
    let_a_second_pass,
    make_manager,
    make_sign_in,
)
from tests.runtime.management.conftest import caller, let_end
from tests.support.oauth_site import PASSWORD, Answer, Client, Page, Site, claims
from tests.support.tables import Table

from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    GROUP,
    PROVIDER,
    RESOURCE,
    SESSION,
    USER,
    ZONE,
    Verb,
)
from runtime.domain.kinds.resource import Resource
from runtime.services.container import Services
from runtime.services.management.access.caller import SERVICE
from runtime.services.management.people import user_administration
from runtime.services.management.zones import key_rotation
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import entities, sessions

pytestmark = pytest.mark.long

STORAGE = ("embedded", "servers")
NEW_PASSWORD = "another horse, another battery"
PAGE = Path(__file__).parents[3] / "docs" / "revocation-effects.md"
NOTES = Table(PAGE, "sign-in", first="Event")
MANAGERS = Table(PAGE, "management", first="Event")


def claims_sid(token: str) -> str:
    return str(claims(token)["sid"])


def user_id(scene: SignIn) -> str:
    async def find() -> str:
        async with scene.site.services.database.reading() as conn:
            found = await entities.find_by(
                conn, USER, "email", "ada@acme.example", within={"zone_id": scene.zone.id}
            )
        assert found is not None
        return str(found.id)

    return scene.site.run(find())


def update(scene: SignIn, kind: object, entity_id: str, **patch: object) -> None:
    scene.site.run(scene.site.company.update(kind, scene.zone.id, entity_id, **patch))  # type: ignore[arg-type]


def remove(scene: SignIn, kind: object, entity_id: str) -> None:
    scene.site.run(scene.site.company.delete(kind, scene.zone.id, entity_id))  # type: ignore[arg-type]


def account_page(scene: SignIn, **button: str) -> None:
    page = scene.browser.open(f"{scene.agent.issuer}/account")
    assert isinstance(page, Page)
    pressed = scene.browser.send(page, **button)
    assert isinstance(pressed, Page)
    assert pressed.response.status_code == 200


def sign_out(scene: SignIn) -> None:
    page = scene.browser.open(f"{scene.agent.issuer}/openid/logout")
    assert isinstance(page, Page)
    scene.browser.send(page)


def browser_session(scene: SignIn) -> str:
    async def above() -> str:
        async with scene.site.services.database.reading() as conn:
            found = await sessions.find(conn, claims_sid(scene.subject), zone_id=scene.zone.id)
        assert found is not None
        assert found.parent_id is not None
        return found.parent_id

    return scene.site.run(above())


def revoke(scene: SignIn, token: str) -> None:
    client = scene.agent
    answer = httpx.post(f"{client.issuer}/oauth/revoke", data={"token": token, **client.app.form}, timeout=30)
    assert answer.status_code == 200, answer.text


def revoke_grant(scene: SignIn) -> None:
    async def find() -> str:
        async with scene.site.services.database.reading() as conn:
            found = await entities.find_by(
                conn, DELEGATED_GRANT, "resource_id", scene.tools.id, within={"zone_id": scene.zone.id}
            )
        assert found is not None
        return str(found.id)

    update(scene, DELEGATED_GRANT, scene.site.run(find()), status="revoked")


def change_provider(scene: SignIn, **patch: object) -> None:
    assert scene.chain is not None
    zone = scene.site.run(scene.site.company.run(ZONE, Verb.RETRIEVE, {}, scene.zone.id))
    update(scene, PROVIDER, zone.user_identity_provider_id, **patch)


def sign_in_by(scene: SignIn, provider_id: str | None) -> None:
    patch = {"user_identity_provider_id": provider_id}
    scene.site.run(scene.site.company.run(ZONE, Verb.UPDATE, {}, scene.zone.id, patch))


def sign_in_by_another(scene: SignIn) -> None:
    issuer = "https://other.example"
    made = scene.site.company.create(
        PROVIDER, scene.zone.id, identifier=issuer, name="Other", client_id="product-zone"
    )
    sign_in_by(scene, scene.site.run(made).id)


def delete_provider(scene: SignIn) -> None:
    zone = scene.site.run(scene.site.company.run(ZONE, Verb.RETRIEVE, {}, scene.zone.id))
    remove(scene, PROVIDER, zone.user_identity_provider_id)


def rotate(scene: SignIn, *, at_once: bool) -> None:
    services = scene.site.services
    for algorithm in ("RS256", "ES256"):
        scene.site.run(key_rotation.rotate(services, scene.zone.id, algorithm, at_once=at_once))


def no_longer_depend(scene: SignIn, client: Client, resource: Resource) -> None:
    api = caller(scene.site.server, scene.site.server.api_key, scene.site.server.organization_id)
    api.ok("DELETE", f"/zones/{scene.zone.id}/applications/{client.app.id}/dependencies/{resource.id}")


def make_accountable(scene: SignIn, client: Client, **accountable: str) -> None:
    """Let a user or a group of the zone be accountable for an application, in a zone that requires it."""
    update(scene, APPLICATION, client.app.id, **accountable)
    scene.site.run(set_zone_setting(scene.site.services, scene.zone.id, "require-active-accountable", "on"))
    assert answered(scene.first_link()) == "works"
    assert answered(scene.second_link()) == "works"


def accountable_user(scene: SignIn, client: Client) -> str:
    """The id of a new user who is accountable for an application."""
    user = scene.site.user(scene.zone, "olga@acme.example")
    make_accountable(scene, client, accountable_user_id=user.id)
    return user.id


def disable_accountable_user(scene: SignIn, client: Client) -> None:
    update(scene, USER, accountable_user(scene, client), status="disabled")


def empty_accountable_group(scene: SignIn) -> None:
    """One of two members is disabled and the other one leaves."""
    olga, boris = (scene.site.user(scene.zone, f"{name}@acme.example") for name in ("olga", "boris"))
    group = scene.site.run(scene.site.company.group(scene.zone, "agents-team", [olga, boris]))
    make_accountable(scene, scene.agent, accountable_group_id=group.id)
    update(scene, USER, olga.id, status="disabled")
    assert answered(scene.first_link()) == "works"
    api = caller(scene.site.server, scene.site.server.api_key, scene.site.server.organization_id)
    api.ok("DELETE", f"/zones/{scene.zone.id}/groups/{group.id}/members/{boris.id}", status=204)


def delete_accountable_group(scene: SignIn) -> None:
    olga = scene.site.user(scene.zone, "olga@acme.example")
    group = scene.site.run(scene.site.company.group(scene.zone, "agents-team", [olga]))
    make_accountable(scene, scene.agent, accountable_group_id=group.id)
    remove(scene, GROUP, group.id)


def require_active_accountable(scene: SignIn) -> None:
    """The accountable user is disabled first, which ends nothing by itself."""
    olga = scene.site.user(scene.zone, "olga@acme.example")
    update(scene, APPLICATION, scene.agent.app.id, accountable_user_id=olga.id)
    update(scene, USER, olga.id, status="disabled")
    assert answered(scene.first_link()) == "works"
    scene.site.run(set_zone_setting(scene.site.services, scene.zone.id, "require-active-accountable", "on"))


def replace_accountable_user(scene: SignIn) -> None:
    """Somebody active becomes accountable for an application that is ended: its tokens stay revoked."""
    disable_accountable_user(scene, scene.agent)
    let_a_second_pass(scene.site)
    boris = scene.site.user(scene.zone, "boris@acme.example")
    update(scene, APPLICATION, scene.agent.app.id, accountable_user_id=boris.id)


def delete_credential(scene: SignIn) -> None:
    let_a_second_pass(scene.site)  # who replaces a credential uses the new one within the same second
    remove(scene, APPLICATION_CREDENTIAL, scene.agent.app.credential_id)


def add_secret(scene: SignIn, **members: object) -> str:
    """A second secret of the agent, beside the one that it uses; the id of its credential."""
    app = scene.agent.app
    body = {"application_id": app.id, "type": "password", "identifier": app.client_id, **members}
    return str(scene.site.run(scene.site.company.create(APPLICATION_CREDENTIAL, scene.zone.id, **body)).id)


def expire_second_secret(scene: SignIn) -> None:
    clock = scene.site.services.clock
    end = clock() + timedelta(seconds=1)
    add_secret(scene, expires_at=end)
    while clock() <= end:
        let_a_second_pass(scene.site)


def delete_second_secret(scene: SignIn) -> None:
    let_a_second_pass(scene.site)
    remove(scene, APPLICATION_CREDENTIAL, add_secret(scene))


def delete_api(scene: SignIn) -> None:
    no_longer_depend(scene, scene.tool_server, scene.api)
    remove(scene, RESOURCE, scene.api.id)


def reset_password(scene: SignIn) -> None:
    """By an operator, as by the link of a mail."""

    async def reset(services: Services) -> None:
        zone = await services.zones.get(scene.zone.id)
        user = await user_administration.find(services, zone, "ada@acme.example")
        await user_administration.set_password(services, zone, user, NEW_PASSWORD, by=SERVICE)

    scene.site.run(reset(scene.site.services))


EVENTS: Mapping[str, Callable[[SignIn], None]] = {
    "nothing": lambda scene: None,
    "browser session revoked by API": lambda scene: update(
        scene, SESSION, browser_session(scene), status="revoked"
    ),
    "browser session deleted by API": lambda scene: remove(scene, SESSION, browser_session(scene)),
    "agent's session revoked by API": lambda scene: update(
        scene, SESSION, claims_sid(scene.subject), status="revoked"
    ),
    "user signs out": sign_out,
    "user disabled": lambda scene: update(scene, USER, user_id(scene), status="disabled"),
    "user changes the password in the browser": lambda scene: account_page(
        scene, change="password", current_password=PASSWORD, password=NEW_PASSWORD
    ),
    "user's password reset": reset_password,
    "user deleted": lambda scene: remove(scene, USER, user_id(scene)),
    "user takes everything back from the agent": lambda scene: account_page(
        scene, application=scene.agent.app.id
    ),
    "grant for the tools revoked by API": revoke_grant,
    "agent deleted": lambda scene: remove(scene, APPLICATION, scene.agent.app.id),
    "agent's credential deleted": delete_credential,
    "agent's second secret expired": expire_second_secret,
    "agent's second secret deleted": delete_second_secret,
    "tool server deleted": lambda scene: remove(scene, APPLICATION, scene.tool_server.app.id),
    "agent's accountable user disabled": lambda scene: disable_accountable_user(scene, scene.agent),
    "agent's accountable user deleted": lambda scene: remove(
        scene, USER, accountable_user(scene, scene.agent)
    ),
    "agent's accountable group without active members": empty_accountable_group,
    "agent's accountable group deleted": delete_accountable_group,
    "zone requires active accountable users": require_active_accountable,
    "agent given an active accountable user again": replace_accountable_user,
    "tool server's accountable user disabled": lambda scene: disable_accountable_user(
        scene, scene.tool_server
    ),
    "agent's access token revoked": lambda scene: revoke(scene, scene.subject),
    "agent's refresh token revoked": lambda scene: revoke(scene, scene.tokens["refresh_token"]),
    "exchanged token revoked": lambda scene: revoke(scene, scene.links[0]),
    "policies forbid everything": lambda scene: scene.site.run(
        scene.site.company.policies(scene.zone, "forbid (principal, action, resource);")
    ),
    "agent's dependency removed": lambda scene: no_longer_depend(scene, scene.agent, scene.tools),
    "agent's dependency on the vault's resource removed": lambda scene: no_longer_depend(
        scene, scene.agent, scene.keys
    ),
    "tools' scope removed": lambda scene: update(scene, RESOURCE, scene.tools.id, scopes=[]),
    "vault's resource has another identifier": lambda scene: update(
        scene, RESOURCE, scene.keys.id, identifier="https://other-keys.example"
    ),
    "API's scope removed": lambda scene: update(scene, RESOURCE, scene.api.id, scopes=[]),
    "API deleted": delete_api,
    "keys rotated": partial(rotate, at_once=False),
    "keys rotated at once": partial(rotate, at_once=True),
    "zone deleted": lambda scene: scene.site.run(
        scene.site.company.run(ZONE, Verb.DELETE, {}, scene.zone.id)
    ),
}
UPSTREAM: Mapping[str, Callable[[SignIn], None]] = {
    "provider renamed": lambda scene: change_provider(scene, name="Another name"),
    "provider's issuer changed": lambda scene: change_provider(
        scene, protocols={"oauth2": {"issuer": "https://other.example"}}
    ),
    "provider's keys changed": lambda scene: change_provider(
        scene, protocols={"oauth2": {"jwks_uri": "https://other.example/keys"}}
    ),
    "provider deleted": delete_provider,
    "another provider signs in": sign_in_by_another,
    "no provider signs in": partial(sign_in_by, provider_id=None),
}


@pytest.mark.parametrize("event", [*EVENTS, *UPSTREAM])
def test_what_an_event_ends(site: Site, event: str) -> None:
    """Everything works; the event happens; each thing is asked again, at once."""
    scene = make_sign_in(site, upstream=event in UPSTREAM)
    before = {name: ask() for name, ask in scene.still().items()}
    assert set(before.values()) == {"works"}, before

    ({**EVENTS, **UPSTREAM})[event](scene)

    after = {name: ask() for name, ask in {**scene.still(), **scene.pending()}.items()}
    NOTES.compare(event, after)


def test_a_refresh_is_narrowed_by_the_scopes_that_a_resource_loses(site: Site) -> None:
    """The token is for the tools; it has their scope while they have it, and is still issued afterwards."""
    scene = make_sign_in(site)
    answer = scene.browser.open(scene.agent.url(resources=[TOOLS], scope="openid call other"))
    if isinstance(answer, Page):
        answer = scene.browser.send(answer, decision="allow")
    assert isinstance(answer, Answer)
    scene.tokens = SignIn.redeemed(scene.agent, answer)
    before = claims(scene.refresh().json()["access_token"])
    assert (before["aud"], before["scope"]) == (TOOLS, "call other")

    update(scene, RESOURCE, scene.tools.id, scopes=["other"])

    refreshed = claims(scene.refresh().json()["access_token"])
    assert (refreshed["aud"], refreshed["scope"]) == (TOOLS, "other")


def person(manager: Manager, method: str, body: object = None) -> None:
    manager.api.ok(method, manager.ada.path, body)


def delete_further_secret(manager: Manager) -> None:
    """A second secret of the application, which nobody has used."""
    zone, app = manager.api.home_zone(), manager.ada.client.app
    body = {"application_id": app.id, "type": "password", "identifier": app.client_id}
    made = manager.api.ok("POST", zone.path("/application-credentials"), body)
    let_a_second_pass(manager.site)
    manager.api.ok("DELETE", zone.path(f"/application-credentials/{made['id']}"))


def have_somebody_accountable_again(manager: Manager) -> None:
    """The accountable user of the application is disabled, and active again."""
    zone, site = manager.api.home_zone(), manager.site
    olga = zone.user().id
    path, user = zone.path(f"/applications/{manager.ada.client.app.id}"), zone.path(f"/users/{olga}")
    manager.api.ok("PATCH", path, {"accountable_user_id": olga})
    site.run(set_zone_setting(site.services, zone.id, "require-active-accountable", "on"))
    try:
        assert answered(manager.mine("GET", "/zones")) == "works"
        manager.api.ok("PATCH", user, {"status": "disabled"})
        assert answered(manager.mine("GET", "/zones")) == "401"
    finally:
        manager.api.ok("PATCH", user, {"status": "active"})
        site.run(set_zone_setting(site.services, zone.id, "require-active-accountable", "off"))


MANAGING: Mapping[str, Callable[[Manager], object]] = {
    "nothing": lambda manager: None,
    "session revoked by API": lambda manager: manager.api.ok(
        "PATCH",
        manager.api.home_zone().path(f"/sessions/{claims_sid(manager.token)}"),
        {"status": "revoked"},
    ),
    "user of the zone disabled": lambda manager: manager.api.ok(
        "PATCH",
        manager.api.home_zone().path(f"/users/{manager.ada.user.zone_user_id}"),
        {"status": "disabled"},
    ),
    "membership disabled": lambda manager: person(manager, "PATCH", {"status": "disabled"}),
    "membership ended": lambda manager: person(manager, "DELETE"),
    "role lowered to viewer": lambda manager: person(manager, "PATCH", {"role": "org_viewer"}),
    "API key revoked": lambda manager: manager.api.ok(
        "DELETE", f"/organizations/{manager.api.organization_id}/api-keys/{manager.key_id}", status=204
    ),
    "API key made with it revoked": lambda manager: manager.api.ok(
        "DELETE", f"/organizations/{manager.api.organization_id}/api-keys/{manager.further_id}", status=204
    ),
    # No key ends after the one that has made it.
    "API keys expired": lambda manager: [
        let_end(manager.api, each) for each in (manager.key_id, manager.further_id)
    ],
}
BY_APPLICATION: Mapping[str, Callable[[Manager], None]] = {
    "application's second secret deleted": delete_further_secret,
    "application's accountable user active again": have_somebody_accountable_again,
}


@pytest.mark.threat("18b", "18l", "18s")
@pytest.mark.parametrize("event", [*MANAGING, *BY_APPLICATION])
def test_what_an_event_ends_in_management(site: Site, event: str) -> None:
    """The tokens of somebody who manages an organization, in the same way."""
    manager = make_manager(site, own_application=event in BY_APPLICATION)
    before = {name: ask() for name, ask in manager.still().items()}
    assert set(before.values()) == {"works"}, before

    ({**MANAGING, **BY_APPLICATION})[event](manager)

    MANAGERS.compare(event, {name: ask() for name, ask in manager.still().items()})


@pytest.mark.parametrize("event", [*BY_APPLICATION])
def test_new_tokens_of_a_client_id_manage_after_its_tokens_were_revoked(site: Site, event: str) -> None:
    """The application is still there: who signs in to it again calls the management API with both tokens."""
    manager = make_manager(site, own_application=True)
    BY_APPLICATION[event](manager)
    let_a_second_pass(site)

    fresh = manager.ada.calling()

    assert answered(fresh("GET", "/zones")) == "works"
    assert answered(manager.ada.exchanged(fresh)("GET", "/zones")) == "works"


def test_the_page_has_no_row_without_an_event() -> None:
    """What is not tried any more does not stand there as if it were."""
    if os.environ.get("WRITE_TABLES"):
        pytest.skip("the tables are being written")
    assert NOTES.rows() == [*EVENTS, *UPSTREAM]
    assert MANAGERS.rows() == [*MANAGING, *BY_APPLICATION]

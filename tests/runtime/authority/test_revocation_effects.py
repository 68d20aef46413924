"""What ends what: after each event, everything that rests on a sign-in is asked whether it still works.

The answers are the table of docs/revocation-effects.md. With WRITE_TABLES=1 the test writes what it saw, for
a review to look at; else it compares.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.runtime.authority.session_scenes import (
    Manager,
    SignIn,
    let_a_second_pass,
    make_manager,
    make_sign_in,
)
from tests.runtime.management.conftest import caller, let_end
from tests.support.oauth_site import Client, Page, Site, claims
from tests.support.tables import Table

from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    PROVIDER,
    RESOURCE,
    SESSION,
    USER,
    ZONE,
    Verb,
)
from runtime.domain.kinds.resource import Resource
from runtime.services.management.zones import key_rotation
from runtime.storage.sql import entities, sessions

STORAGE = ("embedded", "servers")
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


def delete_credential(scene: SignIn) -> None:
    let_a_second_pass(scene.site)  # who replaces a credential uses the new one within the same second
    remove(scene, APPLICATION_CREDENTIAL, scene.agent.app.credential_id)


def delete_api(scene: SignIn) -> None:
    no_longer_depend(scene, scene.tool_server, scene.api)
    remove(scene, RESOURCE, scene.api.id)


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
    "user deleted": lambda scene: remove(scene, USER, user_id(scene)),
    "user takes everything back from the agent": lambda scene: account_page(
        scene, application=scene.agent.app.id
    ),
    "grant for the tools revoked by API": revoke_grant,
    "agent deleted": lambda scene: remove(scene, APPLICATION, scene.agent.app.id),
    "agent's credential deleted": delete_credential,
    "tool server deleted": lambda scene: remove(scene, APPLICATION, scene.tool_server.app.id),
    "agent's access token revoked": lambda scene: revoke(scene, scene.subject),
    "agent's refresh token revoked": lambda scene: revoke(scene, scene.tokens["refresh_token"]),
    "exchanged token revoked": lambda scene: revoke(scene, scene.links[0]),
    "policies forbid everything": lambda scene: scene.site.run(
        scene.site.company.policies(scene.zone, "forbid (principal, action, resource);")
    ),
    "agent's dependency removed": lambda scene: no_longer_depend(scene, scene.agent, scene.tools),
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


def person(manager: Manager, method: str, body: object = None) -> None:
    manager.api.ok(method, manager.ada.path, body)


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


@pytest.mark.threat("18b", "18l")
@pytest.mark.parametrize("event", [*MANAGING])
def test_what_an_event_ends_in_management(site: Site, event: str) -> None:
    """The tokens of somebody who manages an organization, in the same way."""
    manager = make_manager(site)
    before = {name: ask() for name, ask in manager.still().items()}
    assert set(before.values()) == {"works"}, before

    MANAGING[event](manager)

    MANAGERS.compare(event, {name: ask() for name, ask in manager.still().items()})


def test_the_page_has_no_row_without_an_event() -> None:
    """What is not tried any more does not stand there as if it were."""
    if os.environ.get("WRITE_TABLES"):
        pytest.skip("the tables are being written")
    assert NOTES.rows() == [*EVENTS, *UPSTREAM]
    assert MANAGERS.rows() == [*MANAGING]

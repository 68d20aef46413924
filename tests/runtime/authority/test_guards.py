"""The guards of every operation, endpoint and grant type, as the tables of docs/guards.md.

With WRITE_TABLES=1 the tests write what they saw, for a review to look at; else they compare.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.runtime.authority.session_scenes import SignIn, answered, make_sign_in
from tests.runtime.authorization.pushed_requests import push
from tests.runtime.management.changesets.test_changesets_http import changeset, post
from tests.runtime.management.conftest import Api, caller, let_end
from tests.runtime.management.signing_in import someone
from tests.runtime.management.tenants import fill, id_of, parameters, send
from tests.support.applying import create
from tests.support.factories import App
from tests.support.oauth_site import Site, claims
from tests.support.tables import Table

from runtime.app import build
from runtime.contract.routes import ROUTES
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ALL, APPLICATION_CREDENTIAL, Verb
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.grants.token_endpoint import GRANT_TYPES
from runtime.services.management.access import permissions

PAGE = Path(__file__).parents[3] / "docs" / "guards.md"
MANAGEMENT = Table(PAGE, "management", first="Operation")
ENDPOINTS = Table(PAGE, "endpoints", first="Route")
CLIENTS = Table(PAGE, "clients", first="Request")
BEARERS = Table(PAGE, "bearers", first="Endpoint")


def door(response: httpx.Response) -> str:
    """`in`, or how the door was shut."""
    told = answered(response)
    return "in" if told == "works" else told


# --- the management API


@pytest.fixture(scope="module")
def api(site: Site) -> Api:
    return caller(site.server, site.server.api_key, site.server.organization_id)


@pytest.fixture(scope="module")
def callers(site: Site, api: Api) -> Mapping[str, Api]:
    """Credentials that open nothing, by name; each was worth something, or is elsewhere.

    A key that is bound to another zone is good for what belongs to no zone: it is told as such, and as far.
    """

    def person() -> tuple[Any, str]:
        ada = someone(api, "org_admin")
        return ada, ada.tokens()["access_token"]

    def at(token: str) -> Api:
        return caller(site.server, token, api.organization_id)

    ada, signed_out = person()
    api.ok("PATCH", api.home_zone().path(f"/sessions/{claims(signed_out)['sid']}"), {"status": "revoked"})
    bea, disabled = person()
    _, key_of_disabled = at(disabled).key()
    api.ok("PATCH", api.home_zone().path(f"/users/{bea.user.zone_user_id}"), {"status": "disabled"})
    cy, left = person()
    _, key_of_left = at(left).key()
    api.ok("DELETE", cy.path)
    account = api.ok("POST", f"/organizations/{api.organization_id}/service-accounts", {"name": api.named()})
    path = f"/organizations/{api.organization_id}/service-accounts/{account['id']}/credentials"
    credential = api.ok("POST", path, {"name": "c"})
    form = {"client_id": credential["client_id"], "client_secret": credential["client_secret"]}
    issued = httpx.post(
        f"{site.server.url}/service-account-token",
        data={"grant_type": "client_credentials", **form},
        timeout=30,
    )
    assert issued.status_code == 200, issued.text
    api.ok("DELETE", f"{path}/{credential['id']}")
    scene = make_sign_in(site)
    keys = f"/organizations/{api.organization_id}/api-keys"
    revoked = api.ok("POST", keys, {"name": "revoked", "role": "org_admin"})
    api.ok("DELETE", f"{keys}/{revoked['id']}")
    expired_id, expired = api.key(expires_in_seconds=600)
    let_end(api, expired_id)
    nobody = at("x")
    del nobody.client.headers["authorization"]
    return {
        "no credential": nobody,
        "unknown key": at(f"{site.server.api_key[:-4]}AAAA"),
        "revoked key": at(revoked["api_key"]),
        "expired key": expired,
        "key of a disabled user": key_of_disabled,
        "key of a removed user": key_of_left,
        "session ended": at(signed_out),
        "user disabled": at(disabled),
        "membership ended": at(left),
        "service account's credential deleted": at(issued.json()["access_token"]),
        "key bound to another zone": api.key("org_member", owner="other", zones=[api.zone().id])[1],
        "access token of an ordinary zone": at(scene.subject),
        "ID token": at(ada.tokens()["id_token"]),
    }


@pytest.fixture(scope="module")
def tenant(api: Api) -> Any:
    return fill(api.zone())


@pytest.mark.parametrize("operation", [route.operation_id for route in ROUTES])
def test_the_management_api_lets_in_whom_the_table_says(
    operation: str, tenant: Any, callers: Mapping[str, Api]
) -> None:
    """Nobody is let in by what is over, or is for something else; and nobody is told more than that."""
    (route,) = [each for each in ROUTES if each.operation_id == operation]
    values = {name: id_of(tenant, route, name) if _addressed(route) else "x" for name in parameters(route)}
    seen = {}
    for name, api in callers.items():
        seen[name] = "-" if route.open else door(send(api, route, values))
    MANAGEMENT.compare(f"{route.method} {route.path}", seen)


def _addressed(route: Any) -> bool:
    return "{" in route.path and not route.open


# --- changesets

# A spec that is enough for each kind that a changeset makes below a zone or an organization.
SPECS: Mapping[str, dict[str, Any]] = {
    "ServiceAccount": {"name": "t"},
    "Zone": {"name": "t"},
    "Application": {"identifier": "t", "name": "t"},
    "Resource": {"identifier": "https://t.example", "name": "t"},
    "Provider": {"identifier": "https://login.example", "name": "t"},
    "Role": {"identifier": "t"},
    "Group": {"name": "t"},
    "Policy": {"name": "t", "cedar": "permit (principal, action, resource);"},
    "PolicySet": {"name": "t", "policies": []},
}


def by_changeset(asking: Api, kind: str, zone_id: str) -> str:
    """How a changeset is answered that makes one entity of the kind."""
    spec, zone = dict(SPECS[kind]), None if kind in ("ServiceAccount", "Zone") else zone_id
    if "identifier" in spec:
        spec["identifier"] += f"-{new_id()[:8].lower()}"
    return door(post(asking, changeset(asking, create(kind, asking.named().lower(), zone, **spec))))


@pytest.mark.parametrize("role", ["org_admin", "org_member", "org_viewer"])
def test_a_changeset_makes_what_single_calls_may_make(api: Api, role: str) -> None:
    """A changeset makes what the same caller may make by a single call, and nothing else."""
    asking, zone = api.with_role(role), api.zone()
    single = {
        kind.name: permissions.allows(role, kind.operations, Verb.CREATE)
        for kind in ALL
        if kind.name in SPECS
    }
    assert single.keys() == SPECS.keys()
    seen = {kind: by_changeset(asking, kind, zone.id) for kind in SPECS}
    assert {kind: answer == "in" for kind, answer in seen.items()} == single, seen


# --- zone endpoints


def zone_routes(site: Site) -> list[str]:
    """`METHOD path` of every route that stands under a zone's issuer, as the router has them."""
    app = build(site.server.settings, name=f"listed-{new_id()[:8].lower()}")
    app.finalize()
    found = set()
    for route in app.router.routes:
        shown = re.sub(r"<[^>]+>", "{zone}", route.path)
        if shown.startswith("z/{zone}"):
            found |= {f"{method} /{shown}" for method in route.methods - {"HEAD", "OPTIONS"}}
    return sorted(found, key=lambda each: (each.partition(" ")[2], each))


def test_each_zone_route_answers_a_stranger_as_the_table_says(site: Site) -> None:
    """What each route says to nobody in particular, and that a zone which is not there says 404."""
    zone = site.zone()
    routes = zone_routes(site)
    for route in routes:
        method, _, path = route.partition(" ")
        seen = {}
        for name, zone_id in (("no credential", zone.id), ("unknown zone", new_id())):
            address = site.server.url + path.replace("{zone}", zone_id)
            answer = httpx.request(method, address, timeout=30, data={} if method == "POST" else None)
            is_page = answer.headers.get("content-type", "").startswith("text/html")
            seen[name] = f"{door(answer)} page" if is_page else door(answer)
        ENDPOINTS.compare(route, seen)
    if not os.environ.get("WRITE_TABLES"):
        assert ENDPOINTS.rows() == routes


# --- clients


def asks(scene: SignIn) -> Mapping[str, Callable[[App], httpx.Response]]:
    """Each thing that a client is authenticated for, asked by an application of one's choice."""

    def form(app: App, **fields: str) -> httpx.Response:
        return replace(scene.agent, app=app).token(**fields)

    def post(path: str, app: App, **fields: str) -> httpx.Response:
        return httpx.post(f"{scene.agent.issuer}{path}", data={**fields, **app.form}, timeout=30)

    def code(app: App) -> httpx.Response:
        return replace(scene.agent, app=app).redeem(scene.code())

    return {
        "authorization_code": code,
        "refresh_token": lambda app: form(
            app, grant_type="refresh_token", refresh_token=scene.tokens["refresh_token"]
        ),
        "client_credentials": lambda app: form(app, grant_type="client_credentials"),
        GRANT_TYPE: lambda app: form(
            app,
            grant_type=GRANT_TYPE,
            subject_token=scene.subject,
            subject_token_type=ACCESS_TOKEN,
            resource="https://tools.example",
        ),
        "urn:ietf:params:oauth:grant-type:jwt-bearer": lambda app: form(
            app, grant_type="urn:ietf:params:oauth:grant-type:jwt-bearer", assertion="e30.e30.x"
        ),
        "introspection": lambda app: post("/oauth/introspect", app, token=scene.links[0]),
        "revocation": lambda app: post("/oauth/revoke", app, token=scene.links[0]),
        "pushed authorization request": lambda app: push(replace(scene.agent, app=app)),
    }


def test_who_is_not_the_client_gets_nothing(site: Site) -> None:
    """Whoever is not the client that it was for gets nothing, and learns nothing from how it is refused."""
    elsewhere = make_sign_in(site)
    scene = make_sign_in(site)
    agent = scene.agent.app
    address = str(scene.zone.protocols.oauth2.registration_endpoint)
    metadata = {
        "redirect_uris": ["https://self.example/cb"],
        "token_endpoint_auth_method": "client_secret_post",
    }
    registered = httpx.post(address, json=metadata, timeout=30).json()
    deleted = site.run(site.company.credential(scene.zone, scene.offline.app.application))
    site.run(site.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, deleted.credential_id))
    public = site.run(site.company.credential(scene.zone, agent.application, public=True))
    who: Mapping[str, App] = {
        "no client": replace(agent, client_id="", secret=None),
        "wrong secret": replace(agent, secret="wrong"),
        "no secret": replace(agent, secret=None),
        "client of another zone": elsewhere.agent.app,
        "deleted credential": deleted,
        "another application": scene.tool_server.app,
        "registered itself": App(
            agent.application, registered["client_id"], registered.get("client_secret"), ""
        ),
        "its own public credential": public,
    }
    ways = asks(scene)
    missing = GRANT_TYPES.keys() - ways.keys()
    assert not missing, f"give each grant type a row: {missing}"
    for name, ask in ways.items():
        seen = {told: door(ask(app)) for told, app in who.items()}
        if name == "revocation":
            assert scene.introspect(scene.links[0], scene.tool_server.app) == "works", (
                "and nothing was revoked"
            )
        CLIENTS.compare(name, seen)
    assert {name: answered(ask(agent)) for name, ask in ways.items() if "jwt-bearer" not in name} == {
        name: "works" for name in ways if "jwt-bearer" not in name
    }


# --- bearers


def test_an_access_token_opens_what_it_was_issued_for(site: Site) -> None:
    """An access token opens what it was issued for, in its own zone, while it is good; and nothing else."""
    elsewhere, scene = make_sign_in(site), make_sign_in(site)
    shown = {
        "its token": scene.subject,
        "its token, without `policy_bundle`": scene.agent.redeem(scene.code()).json()["access_token"],
        "no token": None,
        "token of another zone": elsewhere.subject,
        "token for a resource": scene.links[0],
        "refresh token": scene.tokens["refresh_token"],
        "ID token": scene.tokens["id_token"],
        "API key": site.server.api_key,
    }
    bundle, userinfo = f"{site.server.url}/policy/bundle", f"{scene.agent.issuer}/openid/userinfo"
    for name, (method, address) in {
        "userinfo": ("GET", userinfo),
        "userinfo, with POST": ("POST", userinfo),
        "policy bundle": ("GET", bundle),
        "policy bundle, PUT": ("PUT", bundle),
        "policy bundle, DELETE": ("DELETE", bundle),
        "management API": ("GET", f"{site.server.url}/zones"),
    }.items():
        seen = {}
        for told, token in shown.items():
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            seen[told] = door(httpx.request(method, address, headers=headers, timeout=30))
        BEARERS.compare(name, seen)

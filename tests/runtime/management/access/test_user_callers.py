"""People call the management API: signed in at their organization's home zone, for as long as that stands."""

import base64
import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api, Zone, caller
from tests.runtime.management.signing_in import REDIRECT_URI, Someone, someone, status
from tests.runtime.management.tenants import ADDRESSED, fill, id_of, parameters, send
from tests.support.factories import Company, operator
from tests.support.oauth_site import PASSWORD, Answer, Page, claims

from runtime.domain.identifiers import new_id


@dataclass
class SignedIn:
    """Somebody with an access token of the home zone, and with a token of the organization for it."""

    ada: Someone
    said: dict[str, Any]
    mine: Api
    theirs: Api


@pytest.fixture(scope="module")
def signed_in(api: Api) -> SignedIn:
    """A member who has signed in with browser and PKCE, and exchanged the token."""
    ada = someone(api)
    token = ada.tokens()["access_token"]
    mine = ada.with_token(token)
    return SignedIn(ada, claims(token), mine, ada.exchanged(mine))


def test_an_access_token_of_the_home_zone_names_the_person_and_the_api(api: Api, signed_in: SignedIn) -> None:
    """Its audience is the management API, its subject the person's account."""
    assert (signed_in.said["aud"], signed_in.said["sub"]) == (
        api.server.url,
        signed_in.ada.user.account_subject,
    )


def test_an_access_token_of_the_home_zone_reads_the_organization(api: Api, signed_in: SignedIn) -> None:
    """Without being exchanged first."""
    organization = signed_in.mine.ok("GET", f"/organizations/{api.organization_id}")
    assert organization["id"] == api.organization_id


def test_an_exchanged_token_is_of_the_same_person_and_session(api: Api, signed_in: SignedIn) -> None:
    """It names both and the organization, and lives no longer than the session."""
    session = api.ok("GET", api.home_zone().path(f"/sessions/{signed_in.said['sid']}"))
    bearer = str(signed_in.theirs.client.headers["authorization"]).removeprefix("Bearer ")
    swapped = claims(bearer)
    assert (swapped["sub"], swapped["organization_id"]) == (signed_in.ada.user.id, api.organization_id)
    assert swapped["sid"] == signed_in.said["sid"]
    assert swapped["exp"] <= datetime.fromisoformat(session["expires_at"]).timestamp()


@pytest.mark.parametrize("token", ["access token", "exchanged token"])
def test_what_a_person_makes_names_them(api: Api, signed_in: SignedIn, token: str) -> None:
    """`created_by` and the audit trail have the person, whichever of the two tokens they call with."""
    caller = signed_in.mine if token == "access token" else signed_in.theirs
    policy = caller.ok("POST", caller.zone().path("/policies"), {"name": "p"})
    assert policy["created_by"] == signed_in.ada.user.id
    trail = f"/organizations/{api.organization_id}/audit-events?filter[entity_id]={policy['id']}"
    assert api.ok("GET", trail)["items"][0]["actor"] == {"type": "user", "id": signed_in.ada.user.id}


def test_a_member_does_not_change_the_organization(api: Api, signed_in: SignedIn) -> None:
    """403 for its name, and for a service account of it."""
    organization = f"/organizations/{api.organization_id}"
    signed_in.mine.refused(403, "PATCH", organization, {"name": "mine"})
    signed_in.mine.refused(403, "POST", f"{organization}/service-accounts", {"name": "mine"})


@pytest.mark.threat("18b", "18c", "18l")
@pytest.mark.parametrize("how", ["disabled", "deleted", "zone user", "signed out", "session deleted"])
def test_what_ends_a_person_ends_both_tokens_at_once(api: Api, how: str) -> None:
    """Each of the two tokens works until the very request after."""
    assert api.person("org_admin"), "so that she is not the last one"
    ada = someone(api, "org_admin")
    tokens = ada.tokens()
    mine = ada.with_token(tokens["access_token"])
    theirs = ada.exchanged(mine)
    assert (status(mine), status(theirs)) == (200, 200)
    zone = api.home_zone()
    session = claims(tokens["access_token"])["sid"]
    if how == "disabled":
        api.ok("PATCH", ada.path, {"status": "disabled"})
    elif how == "deleted":
        api.ok("DELETE", ada.path)
    elif how == "zone user":
        api.ok("PATCH", zone.path(f"/users/{ada.user.zone_user_id}"), {"status": "disabled"})
    elif how == "signed out":
        api.ok("PATCH", zone.path(f"/sessions/{session}"), {"status": "revoked"})
    else:
        api.ok("DELETE", zone.path(f"/sessions/{session}"))
    assert {one.refused(401, "GET", "/zones")["code"] for one in (mine, theirs)} == {"unauthorized"}
    mine.refused(401, "POST", f"/organizations/{api.organization_id}/token")


@pytest.mark.threat("18b", "18c", "18l")
def test_a_changed_role_counts_for_both_tokens_at_once(api: Api) -> None:
    """What the new role does not allow is 403 in the very request after."""
    assert api.person("org_admin"), "so that she is not the last one"
    ada = someone(api, "org_admin")
    mine = ada.calling()
    theirs = ada.exchanged(mine)
    for one in (mine, theirs):
        one.ok("POST", "/zones", {"name": api.named("z")})
    api.ok("PATCH", ada.path, {"role": "org_viewer"})
    for one in (mine, theirs):
        one.refused(403, "POST", "/zones", {"name": "z"})


def test_a_disabled_person_cannot_sign_in_until_active_again(api: Api) -> None:
    """Disabling closes the door as well, and activating opens it."""
    ada = someone(api)
    api.ok("PATCH", ada.path, {"status": "disabled"})
    page = ada.browser.open(ada.client.url(resources=[api.server.url], scope="openid"))
    refused = ada.browser.send(page, email=ada.email, password="correct horse battery")  # type: ignore[arg-type]
    assert not hasattr(refused, "code")
    api.ok("PATCH", ada.path, {"status": "active"})
    assert status(ada.calling()) == 200


@dataclass
class Misused:
    """Somebody whose access token is accepted, and what else they could send in its place."""

    ada: Someone
    tokens: dict[str, str]


_TYPES = ["JWT", "logout+jwt", "reg+jwt", "dpop+jwt"]


@pytest.fixture(scope="module")
def misused(api: Api) -> Misused:
    ada = someone(api)
    tokens = ada.tokens()
    assert status(ada.with_token(tokens["access_token"])) == 200
    server = api.server
    acting = operator(api.organization_id)
    made = Company(server.services, acting, api.organization_id, "")

    async def wrong(_services: Any) -> dict[str, str]:
        zone = await made.zone("customer")
        resource = await made.resource(zone, server.url)
        app = await made.app(zone, "imitation", dependencies=[resource])
        person = await made.person(zone, ada.email)
        own = ada.client.zone
        stranger = await made.person(own, f"{new_id()}@example.com")
        return {
            "customer zone": await made.token(zone, app, person, audience=server.url),
            "no member": await made.token(own, ada.client.app, stranger, audience=server.url),
            "audience": await made.token(own, ada.client.app, stranger),
            "other resource": await made.token(own, ada.client.app, stranger, audience=f"{server.url}/x"),
        }

    refused = server.call(wrong)
    refused["id token"] = tokens["id_token"]
    refused["refresh token"] = tokens["refresh_token"]
    header, body, signature = tokens["access_token"].split(".")
    refused["signature"] = f"{header}.{body}.{'A' * len(signature)}"

    async def signed(typ: str) -> str:
        view = await server.services.zones.get(ada.client.zone.id)
        return view.signing(view.access_token_algorithm).sign(claims(tokens["access_token"]), typ=typ)

    assert status(ada.with_token(server.call(lambda _: signed("at+jwt")))) == 200
    for typ in _TYPES:
        refused[typ] = server.call(lambda _, typ=typ: signed(typ))
    code = ada.browser.open(ada.client.url(resources=[server.url]))
    assert isinstance(code, Answer)
    refused["code"] = code.code
    return Misused(ada, refused)


@pytest.mark.threat("12e", "13f", "13g", "13h", "13j", "13l")
@pytest.mark.parametrize(
    "what",
    [
        *("customer zone", "no member", "audience", "other resource"),
        *("id token", "refresh token", "signature", "code"),
        *_TYPES,
    ],
)
def test_tokens_that_are_for_something_else_are_refused(misused: Misused, what: str) -> None:
    """Of a customer's zone, for another audience, of another class: 401; the access token is accepted."""
    assert status(misused.ada.with_token(misused.tokens[what])) == 401


@pytest.mark.threat("12e", "13f", "13g", "13h", "13j", "13l")
def test_a_token_of_an_application_is_refused(api: Api) -> None:
    """An application of the home zone gets one for the API with its own credentials, and is nobody: 401."""
    ada, zone = someone(api), api.home_zone()
    machine = zone.make("applications")
    secret = zone.password(machine["id"])
    (resource,) = api.ok("GET", zone.path(f"/resources?identifier={api.server.url}"))["items"]
    api.ok("PUT", zone.path(f"/applications/{machine['id']}/dependencies/{resource['id']}"))
    own = ada.client.token(
        authenticate=False,
        grant_type="client_credentials",
        client_id=secret["identifier"],
        client_secret=secret["password"],
        resource=api.server.url,
    )
    assert own.status_code == 200, own.text
    assert status(ada.with_token(own.json()["access_token"])) == 401


@pytest.mark.threat("24h")
@pytest.mark.parametrize(("where", "expected"), [("a zone", 201), ("the home zone", 403)])
def test_nobody_registers_a_client_at_the_home_zone(api: Api, where: str, expected: int) -> None:
    """Dynamic registration is for the zones of customers."""
    zone = api.home_zone() if where == "the home zone" else api.zone()
    metadata = {"client_name": "zonectl", "redirect_uris": ["http://localhost/callback"]}
    address = zone.body["protocols"]["oauth2"]["registration_endpoint"]
    registered = httpx.post(address, json=metadata, trust_env=False)
    assert registered.status_code == expected, registered.text


@pytest.mark.threat("24h")
def test_only_applications_that_administrators_chose_get_tokens(api: Api) -> None:
    """What an administrator made loses its tokens with the dependency, and with the application."""
    zone, ada = api.home_zone(), someone(api)
    redirects = {"oauth2": {"redirect_uris": [REDIRECT_URI]}}
    app = zone.make("applications", protocols=redirects, consent="implicit")
    credential = zone.make("application-credentials", type="public", application_id=app["id"])
    (resource,) = api.ok("GET", zone.path(f"/resources?identifier={api.server.url}"))["items"]
    dependency = zone.path(f"/applications/{app['id']}/dependencies/{resource['id']}")
    api.ok("PUT", dependency)
    ada.client.app = replace(ada.client.app, client_id=credential["identifier"])
    mine = ada.calling()
    theirs = ada.exchanged(mine)
    assert (status(mine), status(theirs)) == (200, 200)
    api.ok("DELETE", dependency)
    assert (status(mine), status(theirs)) == (401, 401)
    api.ok("PUT", dependency)
    assert (status(mine), status(theirs)) == (200, 200)
    api.ok("DELETE", zone.path(f"/applications/{app['id']}"))
    assert (status(mine), status(theirs)) == (401, 401)


@pytest.mark.threat("18a", "18l")
@pytest.mark.parametrize("how", ["revoked", "deleted"])
def test_what_a_person_takes_back_from_an_application_is_over_here_too(api: Api, how: str) -> None:
    """The application asked for consent and got it; without it neither of its tokens works, while they stay
    signed in, and an application of somebody else goes on.
    """
    zone, ada, bob = api.home_zone(), someone(api), someone(api)
    redirects = {"oauth2": {"redirect_uris": [REDIRECT_URI]}}
    app = zone.make("applications", protocols=redirects, consent="required")
    credential = zone.make("application-credentials", type="public", application_id=app["id"])
    (resource,) = api.ok("GET", zone.path(f"/resources?identifier={api.server.url}"))["items"]
    api.ok("PUT", zone.path(f"/applications/{app['id']}/dependencies/{resource['id']}"))
    ada.client.app = replace(ada.client.app, client_id=credential["identifier"])
    page = ada.browser.open(ada.client.url(resources=[api.server.url], scope="openid", nonce=None))
    assert isinstance(page, Page)
    asked = ada.browser.send(page, email=ada.email, password=PASSWORD)
    assert isinstance(asked, Page)
    answer = ada.browser.send(asked, decision="allow")
    assert isinstance(answer, Answer)
    mine = ada.with_token(ada.client.redeem(answer.code).json()["access_token"])
    theirs, others = ada.exchanged(mine), bob.calling()
    assert (status(mine), status(theirs), status(others)) == (200, 200, 200)

    grants = api.ok("GET", zone.path("/delegated-grants?limit=100"))["items"]
    (grant,) = [one for one in grants if one["user_id"] == ada.user.zone_user_id]
    path = zone.path(f"/delegated-grants/{grant['id']}")
    if how == "revoked":
        api.ok("PATCH", path, {"status": "revoked"})
    else:
        api.ok("DELETE", path)
    assert (status(mine), status(theirs), status(others)) == (401, 401, 200)


@pytest.mark.threat("26k")
def test_a_person_of_one_organization_is_a_stranger_to_another(api: Api, other: Api) -> None:
    """Every route with ids of another organization: 404 with either token, one's own first."""
    if api.server.services.database.dialect != "sqlite":
        pytest.skip("who is let in does not depend on the database")
    theirs = fill(other.zone())
    ada = someone(api, "org_admin")
    mine = ada.calling()
    for one in (mine, ada.exchanged(mine)):
        assert status(one, f"/organizations/{api.organization_id}/users") == 200
        statuses = {}
        for route in ADDRESSED:
            values = {name: id_of(theirs, route, name) for name in parameters(route)}
            statuses[route.operation_id] = send(one, route, values).status_code

        assert statuses == dict.fromkeys(statuses, 404)


@dataclass
class Ranks:
    """A member and an administrator, both signed in, and a group of the home zone."""

    ada: Someone
    boss: Someone
    mine: Api
    theirs: Api
    by_boss: Api
    zone: Zone
    group: dict[str, Any]


@pytest.fixture(scope="module")
def ranks(api: Api) -> Ranks:
    ada, boss, zone = someone(api), someone(api, "org_admin"), api.home_zone()
    mine, by_boss = ada.calling(), boss.calling()
    group = by_boss.ok("POST", zone.path("/groups"), {"name": api.named("group")})
    return Ranks(ada, boss, mine, ada.exchanged(mine), by_boss, zone, group)


@pytest.mark.threat("27n")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("PATCH", "{ada}", {"role": "org_admin"}, id="her-own-role"),
        pytest.param("PATCH", "{boss}", {"role": "org_viewer"}, id="the-administrators-role"),
        pytest.param("DELETE", "{boss}", None, id="the-administrator"),
        pytest.param(
            "POST", "{zone}/applications", {"identifier": "mine", "name": "mine"}, id="an-application"
        ),
        pytest.param(
            "POST",
            "{zone}/providers",
            {"identifier": "https://evil.example", "name": "mine"},
            id="a-provider",
        ),
        pytest.param(
            "PATCH", "{zone}/users/{boss_user}", {"email": "{email}"}, id="the-administrators-address"
        ),
        pytest.param("POST", "{zone}/groups/{group}/members", {"user_id": "{ada_user}"}, id="a-group"),
        pytest.param(
            "POST",
            "{zone}/users/{ada_user}/roles",
            {"role_identifier": "zone_manager", "owner_type": "platform"},
            id="a-role-in-the-home-zone",
        ),
    ],
)
def test_a_member_makes_nobody_an_administrator(
    ranks: Ranks, method: str, path: str, body: dict[str, str] | None
) -> None:
    """Not by the list of people, not through the organization's zone, with neither of the two tokens."""
    known = {
        "ada": ranks.ada.path,
        "boss": ranks.boss.path,
        "email": ranks.ada.email,
        "ada_user": ranks.ada.user.zone_user_id,
        "boss_user": ranks.boss.user.zone_user_id,
        "zone": ranks.zone.path(),
        "group": ranks.group["id"],
    }
    filled_in = body and {name: value.format(**known) for name, value in body.items()}
    assert {
        one.refused(403, method, path.format(**known), filled_in)["code"]
        for one in (ranks.mine, ranks.theirs)
    } == {"forbidden"}


def test_a_member_sees_what_they_may_not_change(ranks: Ranks) -> None:
    """A group of the home zone is shown to them as to an administrator."""
    assert ranks.mine.ok("GET", ranks.zone.path(f"/groups/{ranks.group['id']}")) == ranks.group


@pytest.mark.threat("27n")
def test_a_service_account_makes_no_application_in_the_home_zone(api: Api) -> None:
    """403, as for a member."""
    body = {"identifier": "mine", "name": "mine"}
    api.with_role("service_account").refused(403, "POST", api.home_zone().path("/applications"), body)


@pytest.mark.threat("27n")
def test_an_administrator_gives_another_role(ranks: Ranks) -> None:
    """The same change that a member is refused."""
    somebody = someone(ranks.ada.api)
    assert ranks.by_boss.ok("PATCH", somebody.path, {"role": "org_viewer"})["role"] == "org_viewer"


@dataclass
class PlatformOwned:
    """What the service itself has put into an organization's home zone."""

    zone: Zone
    application: dict[str, Any]
    credential: dict[str, Any]
    resource: dict[str, Any]


@pytest.fixture(scope="module")
def platform_owned(api: Api) -> PlatformOwned:
    zone = api.home_zone()
    (app,) = api.ok("GET", zone.path("/applications?identifier=zonectl"))["items"]
    credentials = zone.path(f"/application-credentials?applicationId={app['id']}")
    (credential,) = api.ok("GET", credentials)["items"]
    (resource,) = api.ok("GET", zone.path(f"/applications/{app['id']}/dependencies"))["items"]
    return PlatformOwned(zone, app, credential, resource)


def test_the_home_zone_has_the_platforms_client_and_resource(api: Api, platform_owned: PlatformOwned) -> None:
    """`zonectl`, a public client of the loopback addresses, which depends on the management API."""
    app, credential = platform_owned.application, platform_owned.credential
    assert (app["owner_type"], app["consent"]) == ("platform", "implicit")
    assert app["protocols"]["oauth2"]["redirect_uris"] == [
        "http://127.0.0.1/callback",
        "http://localhost/callback",
    ]
    assert (credential["type"], credential["identifier"]) == ("public", "zonectl")
    resource = platform_owned.resource
    assert (resource["identifier"], resource["owner_type"]) == (api.server.url, "platform")


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("collection", "what", "body"),
    [
        ("applications", "application", {"name": "x"}),
        ("application-credentials", "credential", {"identifier": "x"}),
        ("resources", "resource", {"name": "x"}),
    ],
    ids=["application", "credential", "resource"],
)
def test_what_the_platform_owns_in_the_home_zone_is_not_changed(
    api: Api, platform_owned: PlatformOwned, method: str, collection: str, what: str, body: dict[str, str]
) -> None:
    """403 for everybody, an administrator included."""
    path = platform_owned.zone.path(f"/{collection}/{getattr(platform_owned, what)['id']}")
    api.refused(403, method, path, body if method == "PATCH" else None)


def test_the_home_zone_and_its_dependency_on_the_api_are_not_changed(
    api: Api, platform_owned: PlatformOwned
) -> None:
    """403 for everybody, an administrator included."""
    app, resource = platform_owned.application["id"], platform_owned.resource["id"]
    api.refused(403, "DELETE", platform_owned.zone.path(f"/applications/{app}/dependencies/{resource}"))
    api.refused(403, "PATCH", platform_owned.zone.path(), {"name": "x"})


@dataclass
class Snapshot:
    """An organization's snapshot as far as one zone: its revision, and its lines by id."""

    revision: int
    lines: dict[str, dict[str, Any]]


def snapshot_of(zone: Zone) -> Snapshot:
    text = zone.api("GET", f"/organizations/{zone.api.organization_id}/snapshot?zone={zone.id}").text
    first, *rest = map(json.loads, text.splitlines())
    return Snapshot(first["revision"], {line["id"]: line for line in rest if "id" in line})


@pytest.mark.parametrize(
    ("kind", "what"),
    [("Application", "application"), ("ApplicationCredential", "credential"), ("Resource", "resource")],
)
def test_a_configuration_does_not_adopt_what_the_platform_owns(
    api: Api, platform_owned: PlatformOwned, kind: str, what: str
) -> None:
    """The snapshot says whose it is, and a changeset that adopts it is 403."""
    made, snapshot = getattr(platform_owned, what), snapshot_of(platform_owned.zone)
    assert snapshot.lines[made["id"]]["owner_type"] == "platform"
    operation = {"op": "adopt", "kind": kind, "id": made["id"], "name": "x", "spec": {}}
    changeset = {
        "base_revision": snapshot.revision,
        "owner": "git",
        "plan_digest": new_id(),
        "operations": [{**operation, "zone": {"id": platform_owned.zone.id}}],
    }
    api.refused(403, "POST", f"/organizations/{api.organization_id}/changesets", changeset)


def test_a_snapshot_of_the_home_zone_leaves_out_roles_in_other_zones(api: Api) -> None:
    """A manifest has no words for an assignment with a scope; one without a scope is there."""
    zone = api.home_zone()
    add = {"role_identifier": "zone_viewer", "owner_type": "platform", "scope_type": "zone"}
    roles = zone.path(f"/users/{api.person().zone_user_id}/roles")
    limited = api.ok("POST", roles, {**add, "scope_id": api.zone().id})
    whole = api.ok("POST", roles, {name: add[name] for name in ("role_identifier", "owner_type")})
    lines = snapshot_of(zone).lines
    assert limited["id"] not in lines
    assert whole["id"] in lines


@pytest.mark.threat("11j")
@pytest.mark.parametrize("claim", ["sid", "organization_id"])
@pytest.mark.parametrize("typ", ["at+jwt", "m2m+jwt"])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("x", id="no-id"),
        pytest.param("a\0b", id="NUL"),
        pytest.param("\ud800", id="half-a-surrogate-pair"),
        pytest.param("' or 1=1", id="SQL"),
        pytest.param("x" * 5000, id="5000-characters"),
    ],
)
def test_what_a_token_says_of_itself_is_no_text_for_a_database(
    api: Api, signed_in: SignedIn, odd: str, typ: str, claim: str
) -> None:
    """Nobody has signed it yet: an id that is more than an id is a 401 and no failure."""
    assert status(signed_in.mine) == 200

    def part(members: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'ES256', 'typ': typ, 'kid': odd})}.{part({claim: odd})}.AAAA"
    mine = caller(api.server, token, api.organization_id)
    assert status(mine) == status(mine, "/policy/bundle") == 401

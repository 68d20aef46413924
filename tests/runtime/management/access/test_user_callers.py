"""People call the management API: signed in at their organization's home zone, for as long as that stands."""

import base64
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api, caller
from tests.runtime.management.signing_in import REDIRECT_URI, someone, status
from tests.runtime.management.tenants import ADDRESSED, fill, id_of, parameters, send
from tests.support.factories import Company, operator
from tests.support.oauth_site import PASSWORD, Answer, Page, claims

from runtime.domain.identifiers import new_id


def test_a_person_signs_in_and_manages(api: Api) -> None:
    """Browser, PKCE, access token, organization token; what is made names the person."""
    ada = someone(api)
    tokens = ada.tokens()
    said = claims(tokens["access_token"])
    assert (said["aud"], said["sub"]) == (api.server.url, ada.user.account_subject)
    mine = ada.with_token(tokens["access_token"])
    organization = f"/organizations/{api.organization_id}"
    assert mine.ok("GET", organization)["id"] == api.organization_id
    theirs = ada.exchanged(mine)
    session = api.ok("GET", api.home_zone().path(f"/sessions/{said['sid']}"))
    bearer = str(theirs.client.headers["authorization"]).removeprefix("Bearer ")
    swapped = claims(bearer)
    assert (swapped["sub"], swapped["organization_id"]) == (ada.user.id, api.organization_id)
    assert swapped["sid"] == said["sid"]
    assert swapped["exp"] <= datetime.fromisoformat(session["expires_at"]).timestamp()
    zone = theirs.zone()
    policy = theirs.ok("POST", zone.path("/policies"), {"name": "p"})
    assert policy["created_by"] == ada.user.id
    by_token = mine.ok("POST", zone.path("/policies"), {"name": "q"})
    assert by_token["created_by"] == ada.user.id
    events = api.ok("GET", f"{organization}/audit-events?filter[entity_id]={policy['id']}")["items"]
    assert events[0]["actor"] == {"type": "user", "id": ada.user.id}
    mine.refused(403, "PATCH", organization, {"name": "mine"})
    mine.refused(403, "POST", f"{organization}/service-accounts", {"name": "mine"})


@pytest.mark.threat("18b", "18c", "18l")
@pytest.mark.parametrize(
    "how", ["disabled", "deleted", "zone user", "signed out", "session deleted", "another role"]
)
def test_what_ends_a_person_ends_both_tokens_at_once(api: Api, how: str) -> None:
    """Each of the two tokens works until the very request after; a changed role counts at once as well."""
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
    elif how == "session deleted":
        api.ok("DELETE", zone.path(f"/sessions/{session}"))
    else:
        api.ok("PATCH", ada.path, {"role": "org_viewer"})
        for one in (mine, theirs):
            one.refused(403, "POST", "/zones", {"name": "z"})
        return
    for one in (mine, theirs):
        assert one.refused(401, "GET", "/zones")["code"] == "unauthorized"
    mine.refused(401, "POST", f"/organizations/{api.organization_id}/token")


def test_a_disabled_person_cannot_sign_in_until_active_again(api: Api) -> None:
    """Disabling closes the door as well, and activating opens it."""
    ada = someone(api)
    api.ok("PATCH", ada.path, {"status": "disabled"})
    page = ada.browser.open(ada.client.url(resources=[api.server.url], scope="openid"))
    refused = ada.browser.send(page, email=ada.email, password="correct horse battery")  # type: ignore[arg-type]
    assert not hasattr(refused, "code")
    api.ok("PATCH", ada.path, {"status": "active"})
    assert status(ada.calling()) == 200


@pytest.mark.threat("12e", "13f", "13g", "13h", "13j", "13l")
def test_tokens_that_are_for_something_else_are_refused(api: Api) -> None:
    """Of a customer's zone, for another audience, of another class, of an application: 401; ok first."""
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
    for typ in ("JWT", "logout+jwt", "reg+jwt", "dpop+jwt"):
        refused[typ] = server.call(lambda _, typ=typ: signed(typ))
    code = ada.browser.open(ada.client.url(resources=[server.url]))
    assert isinstance(code, Answer)
    refused["code"] = code.code
    for name, token in refused.items():
        assert status(ada.with_token(token)) == 401, name
    machine = api.home_zone().make("applications")
    secret = api.home_zone().password(machine["id"])
    zone = api.home_zone()
    (resource,) = api.ok("GET", zone.path(f"/resources?identifier={server.url}"))["items"]
    api.ok("PUT", zone.path(f"/applications/{machine['id']}/dependencies/{resource['id']}"))
    own = ada.client.token(
        authenticate=False,
        grant_type="client_credentials",
        client_id=secret["identifier"],
        client_secret=secret["password"],
        resource=server.url,
    )
    assert own.status_code == 200, own.text
    assert status(ada.with_token(own.json()["access_token"])) == 401


@pytest.mark.threat("24h")
def test_only_applications_that_administrators_chose_get_tokens(api: Api) -> None:
    """Nobody registers a client there; what an administrator made loses its tokens with the dependency."""
    zone, ada = api.home_zone(), someone(api)
    metadata = {"client_name": "zonectl", "redirect_uris": ["http://localhost/callback"]}
    for where, expected in ((api.zone(), 201), (zone, 403)):
        address = where.body["protocols"]["oauth2"]["registration_endpoint"]
        registered = httpx.post(address, json=metadata, trust_env=False)
        assert registered.status_code == expected, registered.text
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
        for route in ADDRESSED:
            values = {name: id_of(theirs, route, name) for name in parameters(route)}
            answer = send(one, route, values)
            assert answer.status_code == 404, f"{route.operation_id}: {answer.status_code} {answer.text}"


@pytest.mark.threat("27n")
def test_a_member_makes_nobody_an_administrator(api: Api) -> None:
    """Not by the list of people, not through the organization's zone; an administrator can, ok first."""
    ada, boss = someone(api), someone(api, "org_admin")
    mine, boss_calls = ada.calling(), boss.calling()
    zone = api.home_zone()
    group = boss_calls.ok("POST", zone.path("/groups"), {"name": api.named("group")})
    assert mine.ok("GET", zone.path(f"/groups/{group['id']}")) == group
    for method, path, body in (
        ("PATCH", ada.path, {"role": "org_admin"}),
        ("PATCH", boss.path, {"role": "org_viewer"}),
        ("DELETE", boss.path, None),
        ("POST", f"{zone.path('/applications')}", {"identifier": "mine", "name": "mine"}),
        ("POST", zone.path("/providers"), {"identifier": "https://evil.example", "name": "mine"}),
        ("PATCH", zone.path(f"/users/{boss.user.zone_user_id}"), {"email": ada.email}),
        ("POST", zone.path(f"/groups/{group['id']}/members"), {"user_id": ada.user.zone_user_id}),
        (
            "POST",
            zone.path(f"/users/{ada.user.zone_user_id}/roles"),
            {"role_identifier": "zone_manager", "owner_type": "platform"},
        ),
    ):
        for one in (mine, ada.exchanged(mine)):
            assert one.refused(403, method, path, body)["code"] == "forbidden", path
    service = api.with_role("service_account")
    service.refused(403, "POST", zone.path("/applications"), {"identifier": "mine", "name": "mine"})
    assert boss_calls.ok("PATCH", ada.path, {"role": "org_viewer"})["role"] == "org_viewer"


def test_what_the_platform_owns_in_the_organizations_zone_stays(api: Api) -> None:
    """Its client, the credential of that and the resource are refused to everybody, with 403."""
    zone = api.home_zone()
    (app,) = api.ok("GET", zone.path("/applications?identifier=zonectl"))["items"]
    assert (app["owner_type"], app["consent"]) == ("platform", "implicit")
    assert app["protocols"]["oauth2"]["redirect_uris"] == [
        "http://127.0.0.1/callback",
        "http://localhost/callback",
    ]
    credentials = zone.path(f"/application-credentials?applicationId={app['id']}")
    (credential,) = api.ok("GET", credentials)["items"]
    assert (credential["type"], credential["identifier"]) == ("public", "zonectl")
    (resource,) = api.ok("GET", zone.path(f"/applications/{app['id']}/dependencies"))["items"]
    assert (resource["identifier"], resource["owner_type"]) == (api.server.url, "platform")
    for path, body in (
        (f"/applications/{app['id']}", {"name": "x"}),
        (f"/application-credentials/{credential['id']}", {"identifier": "x"}),
        (f"/resources/{resource['id']}", {"name": "x"}),
    ):
        api.refused(403, "PATCH", zone.path(path), body)
        api.refused(403, "DELETE", zone.path(path))
    api.refused(403, "DELETE", zone.path(f"/applications/{app['id']}/dependencies/{resource['id']}"))
    api.refused(403, "PATCH", zone.path(), {"name": "x"})

    # Neither can a configuration make them its own; it sees whose they are, and no roles it could not say.
    add = {"role_identifier": "zone_viewer", "owner_type": "platform", "scope_type": "zone"}
    roles = zone.path(f"/users/{api.person().zone_user_id}/roles")
    limited = api.ok("POST", roles, {**add, "scope_id": api.zone().id})
    whole = api.ok("POST", roles, {name: add[name] for name in ("role_identifier", "owner_type")})
    snapshot = api("GET", f"/organizations/{api.organization_id}/snapshot?zone={zone.id}")
    lines = {line["id"]: line for line in map(json.loads, snapshot.text.splitlines()) if "id" in line}
    assert limited["id"] not in lines
    assert whole["id"] in lines
    for kind, made in (("Application", app), ("ApplicationCredential", credential), ("Resource", resource)):
        assert lines[made["id"]]["owner_type"] == "platform"
        operation = {"op": "adopt", "kind": kind, "id": made["id"], "name": "x", "spec": {}}
        changeset = {
            "base_revision": json.loads(snapshot.text.partition("\n")[0])["revision"],
            "owner": "git",
            "plan_digest": new_id(),
            "operations": [{**operation, "zone": {"id": zone.id}}],
        }
        api.refused(403, "POST", f"/organizations/{api.organization_id}/changesets", changeset)


@pytest.mark.threat("11j")
def test_what_a_token_says_of_itself_is_no_text_for_a_database(api: Api) -> None:
    """Nobody has signed it yet: an id that is more than an id is a 401 and no failure."""
    ada = someone(api).tokens()["access_token"]
    assert status(caller(api.server, ada, api.organization_id)) == 200

    def part(members: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    for odd in ("x", "a\0b", "\ud800", "' or 1=1", "x" * 5000):
        for typ in ("at+jwt", "m2m+jwt"):
            for claim in ("sid", "organization_id"):
                token = f"{part({'alg': 'ES256', 'typ': typ, 'kid': odd})}.{part({claim: odd})}.AAAA"
                mine = caller(api.server, token, api.organization_id)
                assert status(mine) == status(mine, "/policy/bundle") == 401, (odd, typ, claim)

"""Tenants are isolated: what belongs to somebody else looks exactly like what does not exist.

The cases are generated from the routes, so a new route is covered as soon as it exists.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api, Zone

from runtime.contract.routes import ROUTES, Route
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import BY_NAME

pytestmark = pytest.mark.threat(26)

ADDRESSED = [route for route in ROUTES if "{" in route.path and not route.open]
ZONED = [route for route in ADDRESSED if route.path.startswith("/zones/{zoneId}")]
NESTED = [route for route in ZONED if route.path.count("{") > 1 and "policy-schemas" not in route.path]
# A body that is right in form for every operation that has one, so that ids are what is looked at.
BODIES: dict[str, dict[str, Any]] = {
    "zones": {"name": "t"},
    "applications": {"identifier": "t", "name": "t"},
    "resources": {"identifier": "t", "name": "t"},
    "providers": {"identifier": "t", "name": "t"},
    "roles": {"identifier": "t"},
    "groups": {"name": "t"},
    "policies": {"name": "t"},
    "policy-sets": {"name": "t"},
    "application-credentials": {"type": "public", "application_id": "t"},
    "service-accounts": {"name": "t"},
    "sso-connection": {"client_id": "t", "identifier": "https://login.t.example"},
    "invitations": {"email": "t@t.example", "role": "org_viewer"},
    "credentials": {"name": "t"},
    "members": {"user_id": "t"},
    "secrets": {"name": "t", "entity_id": "t", "data": {"type": "token", "token": "t"}},
    "changesets": {
        "base_revision": 0,
        "owner": "t",
        "plan_digest": "t",
        "operations": [{"op": "create", "kind": "ServiceAccount", "name": "t", "spec": {"name": "t"}}],
    },
}


@dataclass
class Tenant:
    """A zone with one of everything, by the name of the path parameter that would hold its id."""

    zone: Zone
    ids: dict[str, dict[str, str]]

    def id_for(self, route: Route, parameter: str) -> str:
        """The id of this tenant's that belongs in that place of the path."""
        before = route.path.partition(f"/{{{parameter}}}")[0]
        return self.ids[before.rpartition("/")[2]]["id"]


def fill(zone: Zone) -> Tenant:
    api = zone.api
    made: dict[str, dict[str, str]] = {"zones": {"id": zone.id}, "organizations": {"id": api.organization_id}}
    for collection in (
        "applications",
        "resources",
        "providers",
        "roles",
        "groups",
        "policies",
        "policy-sets",
    ):
        made[collection] = zone.make(collection)
    made["users"] = {"id": zone.user().id}
    made["members"] = made["users"]
    made["organization-users"] = {"id": api.person().id}
    member = {"organization_user_id": made["organization-users"]["id"], "role": "zone_viewer"}
    api.ok("POST", zone.path("/members"), member, status=200)
    made["invitations"] = api.invite()
    made["user-agents"] = zone.user_agent()
    made["sessions"] = {"id": zone.session(made["users"]["id"])}
    made["delegated-grants"] = {"id": zone.grant(made["users"]["id"], made["resources"]["id"])}
    application = made["applications"]["id"]
    made["application-credentials"] = zone.password(application)
    made["secrets"] = zone.secret(application)
    made["dependencies"] = made["resources"]
    api.ok("PUT", zone.path(f"/applications/{application}/dependencies/{made['resources']['id']}"))
    api.ok("POST", zone.path(f"/groups/{made['groups']['id']}/members"), {"user_id": made["users"]["id"]})
    for principal in ("applications", "users", "groups"):
        path = zone.path(f"/{principal}/{made[principal]['id']}/roles")
        api.ok("POST", path, {"role_id": made["roles"]["id"]})
    accounts = f"/organizations/{api.organization_id}/service-accounts"
    made["service-accounts"] = api.ok("POST", accounts, {"name": api.named()})
    made["credentials"] = api.ok(
        "POST", f"{accounts}/{made['service-accounts']['id']}/credentials", {"name": "c"}
    )
    version = zone.version(made["policies"]["id"])
    made["policy-versions"] = version
    made["policy-set-versions"] = zone.set_version(made["policy-sets"]["id"], version)
    made["changesets"] = {"id": new_id()}
    made["policy-schemas"] = {"id": version["schema_version"]}
    return Tenant(zone, made)


@pytest.fixture(scope="module")
def mine(api: Api) -> Tenant:
    return fill(api.zone())


@pytest.fixture(scope="module")
def sibling(api: Api) -> Tenant:
    """Another zone of the same organization."""
    return fill(api.zone())


@pytest.fixture(scope="module")
def theirs(other: Api) -> Tenant:
    """A zone of another organization."""
    return fill(other.zone())


def parameters(route: Route) -> list[str]:
    return [part[1:-1] for part in route.path.split("/") if part.startswith("{")]


def id_of(tenant: Tenant, route: Route, parameter: str) -> str:
    if parameter in ("user_id", "organizationUserId"):
        return tenant.ids["organization-users"]["id"]
    if parameter == "version_id":
        return tenant.ids["policy-set-versions" if "policy-sets" in route.path else "policy-versions"]["id"]
    return tenant.id_for(route, parameter)


def body_of(route: Route) -> dict[str, Any] | None:
    if not route.body:
        return None
    if route.operation_id in ("members.add", "members.update"):
        role = {"role": "zone_viewer"}
        return role if route.method == "PATCH" else {"organization_user_id": "t", **role}
    if route.operation_id == "policy_set_versions.update":
        return {"active": True}
    if route.operation_id in ("sessions.update", "delegated_grants.update"):
        return {"status": "revoked"}
    if route.method == "PATCH":
        return {}
    collection = route.path.rpartition("/")[2]
    if collection == "roles" and route.path.count("{") > 1:
        return {"role_identifier": "zone_viewer", "owner_type": "platform"}
    if collection == "versions":
        text = {"cedar_raw": "permit (principal, action, resource);"}
        content = text if "policies" in route.path else {"manifest": {"entries": []}}
        return {"schema_version": "2026-11-21", **content}
    return BODIES.get(collection, {})


def send(api: Api, route: Route, values: dict[str, str]) -> httpx.Response:
    path = route.path
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", value)
    body = body_of(route)
    query = "?dry_run=true" if route.operation_id == "changesets.create" else ""
    return api(route.method, path + query, body) if body is not None else api(route.method, path + query)


def told(response: httpx.Response, values: dict[str, str]) -> tuple[int, str, list[str]]:
    """What an answer says, the ids of its request and what changes each time taken out."""
    body = {
        name: value
        for name, value in response.json().items()
        if name not in ("request_id", "timestamp", "path")
    }
    text = repr(body)
    for value in values.values():
        text = text.replace(value, "ID")
    ours = {name for name in response.headers if name not in ("x-request-id", "content-length")}
    return response.status_code, text, sorted(ours)


def assert_same_as_unknown(api: Api, route: Route, values: dict[str, str], at: str) -> None:
    """Sending these ids gives what sending a random id in that place gives: 404."""
    foreign = send(api, route, values)
    unknown_values = {**values, at: new_id()}
    unknown = send(api, route, unknown_values)

    assert foreign.status_code == 404, f"{route.operation_id}: {foreign.status_code} {foreign.text}"
    assert told(foreign, values) == told(unknown, unknown_values)


@pytest.mark.parametrize("route", ADDRESSED, ids=lambda route: route.operation_id)
def test_everything_of_another_organization_is_unknown(
    api: Api, mine: Tenant, theirs: Tenant, route: Route
) -> None:
    """A path of ids that are all another organization's answers as if its first id did not exist."""
    values = {name: id_of(theirs, route, name) for name in parameters(route)}
    assert_same_as_unknown(api, route, values, parameters(route)[0])


def mixtures() -> Iterator[tuple[Route, str]]:
    for route in NESTED:
        for parameter in parameters(route)[1:]:
            yield route, parameter
    for route in ADDRESSED:
        if any(name in route.path for name in ("service_account_id", "user_id", "invitation_id")):
            for parameter in parameters(route)[1:]:
                yield route, parameter


@pytest.mark.parametrize(
    ("route", "parameter"),
    list(mixtures()),
    ids=[f"{route.operation_id}-{parameter}" for route, parameter in mixtures()],
)
@pytest.mark.parametrize("whose", ["sibling", "theirs"])
def test_a_foreign_id_inside_ones_own_path_is_unknown(
    request: pytest.FixtureRequest, api: Api, mine: Tenant, whose: str, route: Route, parameter: str
) -> None:
    """My zone with the application of another zone or organization: as if that id did not exist."""
    if whose == "sibling" and route.path.startswith("/organizations"):
        pytest.skip("people and service accounts are the organization's")
    foreign: Tenant = request.getfixturevalue(whose)
    values = {name: id_of(mine, route, name) for name in parameters(route)}
    values[parameter] = id_of(foreign, route, parameter)
    assert_same_as_unknown(api, route, values, parameter)


@pytest.mark.parametrize("route", ZONED, ids=lambda route: route.operation_id)
def test_ones_own_ids_inside_a_foreign_zone_are_unknown(
    api: Api, mine: Tenant, theirs: Tenant, route: Route
) -> None:
    """Another organization's zone with my application: as if the zone did not exist."""
    values = {name: id_of(mine, route, name) for name in parameters(route)}
    values["zoneId"] = theirs.zone.id
    assert_same_as_unknown(api, route, values, "zoneId")


REFERENCES = [
    ("POST", "/resources", {"identifier": "urn:t", "name": "t"}, "application_id", "applications"),
    ("POST", "/resources", {"identifier": "urn:t", "name": "t"}, "credential_provider_id", "providers"),
    ("PATCH", "/resources/{resources}", {}, "application_id", "applications"),
    ("PATCH", "/resources/{resources}", {}, "credential_provider_id", "providers"),
    ("POST", "/application-credentials", {"type": "public"}, "application_id", "applications"),
    ("POST", "/application-credentials", {"type": "password"}, "application_id", "applications"),
    (
        "POST",
        "/application-credentials",
        {"type": "token", "subject": "t", "application_id": "{applications}"},
        "provider_id",
        "providers",
    ),
    *(("POST", "/secrets", BODIES["secrets"], "entity_id", owner) for owner in ("applications", "users")),
    ("PATCH", "", {}, "user_identity_provider_id", "providers"),
    ("PATCH", "", {}, "default_resource_id", "resources"),
    ("PATCH", "", {}, "default_mcp_gateway_application_id", "applications"),
    ("POST", "/groups/{groups}/members", {}, "user_id", "users"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "member", "collection"),
    REFERENCES,
    ids=[f"{method} {path} {member} {collection}" for method, path, _, member, collection in REFERENCES],
)
@pytest.mark.parametrize("whose", ["sibling", "theirs"])
def test_a_foreign_id_in_a_body_is_400(
    request: pytest.FixtureRequest,
    api: Api,
    mine: Tenant,
    whose: str,
    method: str,
    path: str,
    body: dict[str, Any],
    member: str,
    collection: str,
) -> None:
    """A reference out of the zone is refused in the words that a random id is refused in."""
    foreign: Tenant = request.getfixturevalue(whose)
    ids = {name: made["id"] for name, made in mine.ids.items()}
    target = mine.zone.path(path.format(**ids))
    body = {name: value.format(**ids) if isinstance(value, str) else value for name, value in body.items()}
    answers = []
    for wrong in (foreign.ids[collection]["id"], new_id()):
        refused = api(method, target, {**body, member: wrong})
        assert refused.status_code == 400, refused.text
        answers.append(told(refused, {"id": wrong}))
    assert answers[0] == answers[1]


def test_every_reference_of_a_body_is_tried() -> None:
    """The list above has each member that refers to another entity and that a body can set."""
    tried = {(member, collection) for _, _, _, member, collection in REFERENCES}
    for kind in BY_NAME.values():
        for name, member in kind.members().items():
            if member.ref is not None and kind.verbs:
                assert (name, BY_NAME[member.ref.kind].collection) in tried, f"{kind.name}.{name}"


def test_a_role_of_another_zone_is_unknown(api: Api, mine: Tenant, sibling: Tenant, theirs: Tenant) -> None:
    """Roles are named by id in a body, and an unknown one is 404 there."""
    for principal in ("applications", "users", "groups"):
        path = mine.zone.path(f"/{principal}/{mine.ids[principal]['id']}/roles")
        wrong = [sibling.ids["roles"]["id"], theirs.ids["roles"]["id"], new_id()]
        answers = [told(api("POST", path, {"role_id": one}), {"id": one}) for one in wrong]
        assert answers[0][0] == 404
        assert answers[0] == answers[1] == answers[2]


def test_lists_show_ones_own(api: Api, other: Api, mine: Tenant, theirs: Tenant) -> None:
    """Asking for foreign ids by filter shows nothing, and no list has them."""
    zones = {one["id"] for one in api.ok("GET", "/zones?limit=100")["items"]}
    assert mine.zone.id in zones
    assert theirs.zone.id not in zones
    for collection, query in product(("applications", "resources", "providers", "users", "groups"), ("id",)):
        foreign = theirs.ids[collection]["id"]
        path = mine.zone.path(f"/{collection}?filter[{query}]={foreign}")
        assert api.ok("GET", path)["items"] == []
    assert api.ok("GET", f"/zones?filter[organization_id]={other.organization_id}")["items"] == []


def test_nothing_of_the_others_has_changed(other: Api, theirs: Tenant, api: Api, mine: Tenant) -> None:
    """After all of the attempts above everything is where it was."""
    for tenant, owner in ((theirs, other), (mine, api)):
        for collection in (
            "applications",
            "resources",
            "providers",
            "roles",
            "groups",
            "users",
            "secrets",
            "sessions",
            "delegated-grants",
        ):
            assert owner.ok("GET", tenant.zone.path(f"/{collection}/{tenant.ids[collection]['id']}"))

"""Tenants are isolated: what belongs to somebody else looks exactly like what does not exist.

The cases are generated from the routes, so a new route is covered as soon as it exists.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.runtime.management.conftest import Api
from tests.runtime.management.tenants import ADDRESSED, BODIES, Tenant, fill, id_of, parameters, send

from runtime.contract.routes import Route
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import BY_NAME

ZONED = [route for route in ADDRESSED if route.path.startswith("/zones/{zoneId}")]
NESTED = [route for route in ZONED if route.path.count("{") > 1 and "policy-schemas" not in route.path]


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


@pytest.mark.threat("26a", "26d")
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


@pytest.mark.threat("26b", "26d")
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


@pytest.mark.threat("26c", "26d")
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
    *(
        (method, path, body, f"accountable_{kind}_id", f"{kind}s")
        for method, path, body in (
            ("POST", "/applications", {"identifier": "urn:a", "name": "a"}),
            ("PATCH", "/applications/{applications}", {}),
        )
        for kind in ("user", "group")
    ),
    *(("POST", "/secrets", BODIES["secrets"], "entity_id", owner) for owner in ("applications", "users")),
    ("PATCH", "", {}, "user_identity_provider_id", "providers"),
    ("PATCH", "", {}, "default_resource_id", "resources"),
    ("PATCH", "", {}, "default_mcp_gateway_application_id", "applications"),
    ("POST", "/groups/{groups}/members", {}, "user_id", "users"),
]


@pytest.mark.threat("26e", "26g", "26h")
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

    def refusal(wrong: str) -> tuple[int, str, list[str]]:
        refused = api(method, target, {**body, member: wrong})
        assert refused.status_code == 400, refused.text
        return told(refused, {"id": wrong})

    assert refusal(foreign.ids[collection]["id"]) == refusal(new_id())


@pytest.mark.threat("26g")
def test_every_reference_of_a_body_is_tried() -> None:
    """The list above has each member of each kind that refers to another entity and that a body can set."""
    tried = {(member, collection) for _, _, _, member, collection in REFERENCES}
    known = {
        (name, BY_NAME[member.ref.kind].collection)
        for kind in BY_NAME.values()
        if kind.verbs
        for name, member in kind.members().items()
        if member.ref is not None
    }
    assert known - tried == set()


@pytest.mark.threat("26f")
@pytest.mark.parametrize("principal", ["applications", "users", "groups"])
def test_a_role_of_another_zone_is_unknown(
    api: Api, mine: Tenant, sibling: Tenant, theirs: Tenant, principal: str
) -> None:
    """Roles are named by id in a body, and an unknown one is 404 there."""
    path = mine.zone.path(f"/{principal}/{mine.ids[principal]['id']}/roles")
    wrong = [sibling.ids["roles"]["id"], theirs.ids["roles"]["id"], new_id()]
    answers = [told(api("POST", path, {"role_id": one}), {"id": one}) for one in wrong]
    assert answers[0][0] == 404
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.threat("26i")
def test_the_list_of_zones_shows_ones_own(api: Api, other: Api, mine: Tenant, theirs: Tenant) -> None:
    """Another organization's zones are not there, neither unasked nor by a filter."""
    zones = {one["id"] for one in api.ok("GET", "/zones?limit=100")["items"]}
    assert mine.zone.id in zones
    assert theirs.zone.id not in zones
    assert api.ok("GET", f"/zones?filter[organization_id]={other.organization_id}")["items"] == []


@pytest.mark.threat("26i")
@pytest.mark.parametrize("collection", ["applications", "resources", "providers", "users", "groups"])
def test_a_filter_by_a_foreign_id_finds_nothing(
    api: Api, mine: Tenant, theirs: Tenant, collection: str
) -> None:
    """By its own id an entity is found; by one of another organization none is."""

    def found(entity_id: str) -> list[str]:
        path = mine.zone.path(f"/{collection}?filter[id]={entity_id}")
        return [one["id"] for one in api.ok("GET", path)["items"]]

    own = mine.ids[collection]["id"]
    assert found(own) == [own]
    assert found(theirs.ids[collection]["id"]) == []


@pytest.mark.threat("26j")
@pytest.mark.parametrize(
    "collection",
    [
        "applications",
        "resources",
        "providers",
        "roles",
        "groups",
        "users",
        "secrets",
        "sessions",
        "delegated-grants",
    ],
)
def test_nothing_of_the_others_has_changed(
    other: Api, theirs: Tenant, api: Api, mine: Tenant, collection: str
) -> None:
    """After all of the attempts above everything is where it was, of either organization."""
    assert other.ok("GET", theirs.zone.path(f"/{collection}/{theirs.ids[collection]['id']}"))
    assert api.ok("GET", mine.zone.path(f"/{collection}/{mine.ids[collection]['id']}"))

"""Every route of the contract: served, closed to strangers, and with the documented refusals."""

import httpx
import pytest
from tests.runtime.management.conftest import Api

from runtime.api.management import handler_of
from runtime.contract.routes import ROUTES, Route
from runtime.domain.identifiers import new_id
from runtime.services.management.access.permissions import TABLE

CLOSED = [route for route in ROUTES if not route.open]


def path_of(route: Route, **values: str) -> str:
    """The route's path with ids that lead nowhere, but for those given."""
    path = route.path
    while "{" in path:
        before, _, rest = path.partition("{")
        name, _, after = rest.partition("}")
        path = f"{before}{values.get(name, new_id())}{after}"
    return path


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.operation_id)
def test_every_route_has_a_handler(route: Route) -> None:
    """A route of the contract that nothing serves is a broken promise."""
    assert callable(handler_of(route))


def test_every_route_is_bound(api: Api) -> None:
    """Each path and method of the contract is served: nothing answers 405 or the plain 404."""
    answers = {route.operation_id: api(route.method, path_of(route)) for route in ROUTES}
    assert not [name for name, answer in answers.items() if answer.status_code == 405]
    nowhere = "there is nothing at this address"
    absent = {name: answer.json()["message"] for name, answer in answers.items() if answer.status_code == 404}
    assert not [name for name, message in absent.items() if message == nowhere]


@pytest.mark.parametrize(
    "credential",
    [
        None,
        "Basic Zm9vOmJhcg==",
        "Bearer",
        "Bearer nonsense",
        "Bearer zwk_x_y",
        f"Bearer zwk_{'a' * 26}_{'b' * 43}",
    ],
)
def test_no_route_is_open_to_strangers(api: Api, credential: str | None) -> None:
    """Without a valid credential every operation answers 401, whatever else is wrong with the request."""
    headers = {"Authorization": credential or ""}
    codes = {
        route.operation_id: api.refused(401, route.method, path_of(route), headers=headers)["code"]
        for route in CLOSED
    }
    assert codes == dict.fromkeys(codes, "unauthorized")


@pytest.mark.parametrize(
    "route", [route for route in CLOSED if "{" in route.path], ids=lambda route: route.operation_id
)
def test_unknown_ids_are_404(api: Api, route: Route) -> None:
    """An id that leads nowhere is 404 `not_found`, or 400 where the body is looked at first."""
    response = api(route.method, path_of(route))

    assert response.status_code in ({404, 400} if route.body and route.body_required else {404})
    assert response.json()["code"] in ("not_found", "validation_error", "bad_request")


@pytest.mark.parametrize(
    "route",
    [route for route in CLOSED if route.body and route.body_required and route.takes == "application/json"],
    ids=lambda route: route.operation_id,
)
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff"])
def test_what_is_no_json_object_is_400(api: Api, route: Route, body: bytes) -> None:
    """A body that is missing, malformed or no object is refused before anything is looked up."""
    told = api.refused(
        400, route.method, path_of(route), content=body, headers={"Content-Type": "application/json"}
    )

    assert told["code"] in ("bad_request", "validation_error")


def test_every_kind_of_route_has_a_row_in_the_permission_table() -> None:
    """A kind without a row could not be reached by anybody."""
    assert not [
        route
        for route in ROUTES
        if route.verb is not None and route.kind is not None and route.kind.operations not in TABLE
    ]


@pytest.mark.deviation("open-operations")
def test_some_operations_need_no_api_key(api: Api) -> None:
    """What they take is in the address or in the body; every other one is refused without a credential."""
    status = {
        route.operation_id: httpx.request(
            route.method, f"{api.server.url}{path_of(route)}", trust_env=False
        ).status_code
        for route in ROUTES
    }
    assert (status.pop("invitations.retrieve"), status.pop("invitations.accept")) == (404, 404)
    assert status.pop("service_account_token.create") == 400
    assert set(status.values()) == {401}


class TestErrorBody:
    def test_has_the_documented_members(self, api: Api) -> None:
        """message, code and status always; path, request_id and timestamp besides."""
        told = api.refused(404, "GET", f"/zones/{new_id()}")

        assert set(told) == {"message", "code", "status", "path", "request_id", "timestamp"}
        assert told["code"] == "not_found"
        assert told["timestamp"].endswith("Z")

    def test_says_where_the_problem_is(self, api: Api) -> None:
        """A validation error names each member that is wrong."""
        told = api.refused(400, "POST", "/zones", {"name": "", "nmae": 1})

        assert told["code"] == "validation_error"
        assert {detail["field"] for detail in told["details"]} == {"name", "nmae"}

    @pytest.mark.parametrize("path", ["/zones/unknown", "/organizations/unknown/users/unknown", "/nowhere"])
    def test_has_the_path_of_the_request(self, api: Api, path: str) -> None:
        """And not the template of the route that serves it."""
        assert api.refused(404, "GET", path)["path"] == path

    @pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("POST", "/accept")])
    def test_has_no_token_of_an_invitation(self, api: Api, method: str, rest: str) -> None:
        """Whoever reads the error could accept in its place."""
        token = f"canary-{new_id()}"
        response = api(method, f"/invitations/{token}{rest}")
        assert response.json()["path"] == f"/invitations/***{rest}"
        assert token not in response.text

    def test_unknown_addresses_and_methods_are_told_alike(self, api: Api) -> None:
        """What no route serves has the same body as any other refusal."""
        assert api.refused(404, "GET", "/nowhere")["code"] == "not_found"
        assert api.refused(405, "PUT", "/zones", {})["code"] == "bad_request"

    def test_a_method_that_is_not_served_names_those_that_are(self, api: Api) -> None:
        """The header that RFC 9110 asks for beside a 405, at addresses with parameters too."""
        served: dict[str, set[str]] = {}
        for route in ROUTES:
            served.setdefault(route.path, set()).add(route.method)
        routes = {route.path: route for route in ROUTES}
        answers = {path: api("TRACE", path_of(routes[path])) for path in served}
        assert {answer.status_code for answer in answers.values()} == {405}
        allowed = {path: set(answer.headers["allow"].split(", ")) for path, answer in answers.items()}
        assert allowed == served

    def test_conflicts_ask_not_to_be_repeated(self, api: Api) -> None:
        """Clients repeat a 409 unless the answer says otherwise."""
        zone = api.zone()
        zone.make("applications", identifier="taken")
        response = api("POST", zone.path("/applications"), {"identifier": "taken", "name": "x"})

        assert response.status_code == 409
        assert response.headers["x-should-retry"] == "false"
        assert response.json()["details"][0]["field"] == "identifier"


class TestRequestIds:
    def test_the_callers_is_echoed(self, api: Api) -> None:
        """X-Client-Request-ID comes back; ours stands beside it and in error bodies."""
        response = api("GET", "/zones", headers={"X-Client-Request-ID": "run 17"})

        assert response.headers["X-Client-Request-ID"] == "run 17"
        assert len(response.headers["X-Request-ID"]) == 26

    def test_must_be_a_uuid_on_organization_paths(self, api: Api) -> None:
        """Organization paths take UUIDs only."""
        path = f"/organizations/{api.organization_id}"
        uuid = "7b0f3f1e-27b5-4d4c-9a55-0f8cb8ab9f0d"

        assert api("GET", path, headers={"X-Client-Request-ID": uuid}).status_code == 200
        told = api.refused(400, "GET", path, headers={"X-Client-Request-ID": "run 17"})
        assert told["details"][0]["field"] == "X-Client-Request-ID"

    def test_unknown_headers_are_ignored(self, api: Api) -> None:
        """Headers without a meaning here, and unknown API versions, change nothing."""
        assert api("GET", "/zones", headers={"X-API-Version": "1999", "X-Other": "1"}).status_code == 200

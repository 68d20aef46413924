"""A request with a parameter that it does not have is refused before anything is done."""

import pytest
from tests.runtime.management.conftest import Api

from runtime.contract.routes import ROUTES, Route
from runtime.domain.identifiers import new_id

# It reads no query at all, and says so as OAuth does.
_OF_OAUTH = {"service_account_token.create"}
OPERATIONS = [route for route in ROUTES if route.operation_id not in _OF_OAUTH]


def address(route: Route, organization_id: str) -> str:
    """The path of an operation, about nothing that there is."""
    words = [
        (organization_id if word == "{organizationId}" else new_id()) if word.startswith("{") else word
        for word in route.path.split("/")
    ]
    return "/".join(words)


@pytest.mark.parametrize("route", OPERATIONS, ids=lambda route: route.operation_id)
def test_every_operation_refuses_it(api: Api, route: Route) -> None:
    """Reads, writes, and those without a credential. Policy bundles ask for a user's token first."""
    body = {} if route.method in ("POST", "PUT", "PATCH") else None
    path = f"{address(route, api.organization_id)}?bogus=1"

    answer = api(route.method, path, body)

    assert answer.status_code == 400, answer.text
    told = [(each["field"], each["message"]) for each in answer.json()["details"]]
    assert told == [("bogus", "is not a parameter of this request")]


def test_a_refused_write_has_written_nothing(api: Api) -> None:
    """Neither made, changed, nor deleted; without the parameter each of them is done."""
    zone = api.zone()
    applications, body = zone.path("/applications"), {"identifier": api.named("app"), "name": "app"}
    api.refused(400, "POST", f"{applications}?nme=x", body)
    assert api.ok("GET", applications)["items"] == []
    made = api.ok("POST", applications, body)
    one = f"{applications}/{made['id']}"

    api.refused(400, "PATCH", f"{one}?nme=x", {"name": "another"})
    api.refused(400, "DELETE", f"{one}?nme=x")
    assert api.ok("GET", one)["name"] == "app"

    assert api.ok("PATCH", one, {"name": "another"})["name"] == "another"
    api.ok("DELETE", one, status=204)
    api.refused(404, "GET", one)

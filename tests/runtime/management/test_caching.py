"""Answers of the management API are private: no cache gives one to another caller."""

import httpx
import pytest
from tests.runtime.management.conftest import Api
from tests.runtime.management.tenants import Tenant, fill, id_of, parameters, send

from runtime.contract.routes import ROUTES, Route

# Read by nobody without a token, and the same for whoever has one.
READ = [route for route in ROUTES if route.method == "GET" and not route.open and not route.zone_token]


@pytest.fixture(scope="module")
def mine(api: Api) -> Tenant:
    return fill(api.zone())


def assert_for_one(answer: httpx.Response) -> None:
    """Kept by nobody, or by whoever asked and only after asking again."""
    kept = answer.headers["cache-control"]
    if kept != "no-store":
        assert kept == "private, no-cache", kept
        assert "authorization" in answer.headers["vary"].lower()


@pytest.mark.threat("36h")
@pytest.mark.parametrize("route", READ, ids=lambda route: route.operation_id)
def test_answers_are_for_whoever_asked(api: Api, mine: Tenant, route: Route) -> None:
    """Each route that reads, whether it finds anything or not; refusals too."""
    values = {name: id_of(mine, route, name) for name in parameters(route)}
    assert_for_one(send(api, route, values))
    refused = httpx.request(route.method, f"{api.server.url}{route.path}", trust_env=False)
    assert refused.status_code == 401
    assert refused.headers["cache-control"] == "no-store"

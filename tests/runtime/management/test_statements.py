"""Database statements of lists: as many for many entities as for few, whatever is expanded.

The lists come from the routes, so a new one is counted as soon as it exists.
"""

from typing import Any

import pytest
from sqlalchemy import event
from tests.runtime.management.conftest import Api, Zone, caller
from tests.runtime.management.tenants import Tenant, fill, id_of, parameters

from runtime.contract.routes import ROUTES, Route
from runtime.services.management.organizations import organizations

LISTS = [route for route in ROUTES if route.envelope is not None]
# Lists that are as long as they are, whatever is made here: decisions are those of sign-ins and tokens.
CONSTANT = {"decisions.list", "organizations.list", "organizations.list_roles", "policy_schemas.list"}
# What shows more than the list does by itself.
MORE = {"users.list": "&role_source=all", "sessions.list": "&include_nested=true"}


def path_of(route: Route, tenant: Tenant) -> str:
    """The list with everything expanded."""
    path = route.path
    for name in parameters(route):
        path = path.replace(f"{{{name}}}", id_of(tenant, route, name))
    expands = "&".join(f"expand[]={value}" for value in route.expands)
    limit = "limit=100&" if any(query.name == "limit" for query in route.query) else ""
    return f"{path}?{limit}{expands}{MORE.get(route.operation_id, '')}"


def cost(api: Api, route: Route, tenant: Tenant) -> tuple[int, int]:
    """How many entities a list shows, and the statements that it takes.

    The service does other things now and then: the lowest of four counts is the list's.
    """
    counted: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        counted.append(statement)

    engine = api.server.services.database.engine.sync_engine
    costs = []
    for _ in range(4):
        event.listen(engine, "before_cursor_execute", note)
        try:
            page = api.ok("GET", path_of(route, tenant))
        finally:
            event.remove(engine, "before_cursor_execute", note)
        costs.append(len(counted))
        counted.clear()
    return len(page if isinstance(page, list) else page["items"]), min(costs)


def grow(zone: Zone, tenant: Tenant) -> None:
    """One more of everything, also of what is below the things that are there."""
    api, ids = zone.api, {name: made["id"] for name, made in tenant.ids.items()}
    other = fill(zone).ids
    api.ok("POST", zone.path(f"/groups/{ids['groups']}/members"), {"user_id": other["users"]["id"]})
    for principal in ("applications", "users", "groups"):
        api.ok("POST", zone.path(f"/{principal}/{ids[principal]}/roles"), {"role_id": other["roles"]["id"]})
    application = ids["applications"]
    api.ok("PUT", zone.path(f"/applications/{application}/dependencies/{other['resources']['id']}"))
    zone.make("resources", application_id=application)
    zone.password(application)
    zone.version(ids["policies"])
    accounts = f"/organizations/{api.organization_id}/service-accounts"
    api.zone()
    api.apply()
    api.ok("POST", f"{accounts}/{ids['service-accounts']}/credentials", {"name": api.named()})
    zone.set_version(ids["policy-sets"], tenant.ids["policy-versions"])


@pytest.fixture(scope="module")
def company(api: Api) -> Api:
    """An organization of its own: what other tests make would fill its pages."""
    made, key = api.server.call(
        lambda services: organizations.create_organization(services, api.named("costs"))
    )
    return caller(api.server, key, made.id)


@pytest.fixture(scope="module")
def costs(company: Api) -> dict[str, list[tuple[int, int]]]:
    """Operation -> its entities and statements, first with few entities and then with more."""
    zone = company.zone()
    tenant = fill(zone)
    company.apply()
    found = {route.operation_id: [cost(company, route, tenant)] for route in LISTS}
    for _ in range(3):
        grow(zone, tenant)
    # A version of a policy set never changes: one that holds more stands for it.
    versions = [zone.version(zone.make("policies")["id"]) for _ in range(3)]
    more = zone.set_version(tenant.ids["policy-sets"]["id"], *versions, tenant.ids["policy-versions"])
    for route in LISTS:
        grown = route.operation_id == "policy_set_versions.list_policies"
        ids = {**tenant.ids, **({"policy-set-versions": more} if grown else {})}
        found[route.operation_id].append(cost(company, route, Tenant(zone, ids)))
    return found


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.operation_id)
def test_a_longer_list_costs_the_same(costs: dict[str, list[tuple[int, int]]], route: Route) -> None:
    """Each expansion is one statement, or a few, for all entities of a page together."""
    (few, before), (many, after) = costs[route.operation_id]

    assert many > few or route.operation_id in CONSTANT
    assert after == before

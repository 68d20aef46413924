"""The permission table, cell by cell, over HTTP: what the checked-in matrix says is what callers get."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.runtime.management.access.matrix import CHECKED, TOLD, single_sign_on
from tests.runtime.management.conftest import Api, Zone
from tests.runtime.management.tenants import Tenant, body_of, fill, id_of, parameters

from runtime.contract.routes import ROUTES, Route
from runtime.domain.kinds import Verb
from runtime.services.management.access.permissions import ROLES, TABLE, allows, permission_map


@pytest.fixture(scope="module")
def tenant(api: Api) -> Tenant:
    tenant = fill(api.zone())
    return Tenant(tenant.zone, {**tenant.ids, "changesets": api.apply()})


@pytest.fixture(scope="module", params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def caller(api: Api, role: str) -> Api:
    return api.with_role(role)


@pytest.mark.parametrize("route", CHECKED, ids=lambda route: route.operation_id)
def test_each_role_is_answered_as_the_table_says(
    api: Api, tenant: Tenant, caller: Api, role: str, route: Route
) -> None:
    """Not seen: 404. Seen and not allowed: 403. Allowed: anything but these two."""
    told = TOLD[route.operation_id][role]
    target = tenant if not _destroys(route) or told != "yes" else _expendable(api, tenant, route)
    path = route.path
    for name in parameters(route):
        path = path.replace(f"{{{name}}}", id_of(target, route, name))
    with single_sign_on(api, route):
        response = caller(route.method, path, _body(route))

    if told == "yes":
        assert response.status_code not in (401, 403, 404, 500), response.text
    else:
        assert response.status_code == int(told), response.text


def test_the_file_has_every_route_and_every_role() -> None:
    """No cell is left out: what no role decides about says what does."""
    assert set(TOLD) == {route.operation_id for route in ROUTES}
    assert {operation: set(cells) for operation, cells in TOLD.items()} == {
        operation: set(ROLES) for operation in TOLD
    }
    words = {operation: set(cells.values()) for operation, cells in TOLD.items()}
    assert not [name for name, said in words.items() if said - {"yes", "403", "404"} and len(said) > 1]
    told = {route.operation_id: {*TOLD[route.operation_id].values()} for route in ROUTES}
    assert {route.operation_id for route in ROUTES if route.open} == {
        name for name, cells in told.items() if "open" in cells
    }
    assert {route.operation_id for route in ROUTES if route.zone_token} == {
        name for name, cells in told.items() if "zone user" in cells
    }


def _destroys(route: Route) -> bool:
    return route.method == "DELETE" and "versions" not in route.path


# Collection -> another one of what it holds, for the table to take away.
_ANOTHER: dict[str, Callable[[Zone, Mapping[str, Any]], dict[str, Any]]] = {
    **{
        collection: lambda zone, _, collection=collection: zone.make(collection)  # type: ignore[misc]
        for collection in ("applications", "resources", "providers", "groups", "policies", "policy-sets")
    },
    "users": lambda zone, _: {"id": zone.user().id},
    "secrets": lambda zone, ids: zone.secret(ids["applications"]["id"]),
    "application-credentials": lambda zone, ids: zone.password(ids["applications"]["id"]),
    "sessions": lambda zone, _: {"id": zone.session(zone.user().id)},
    "delegated-grants": lambda zone, ids: {"id": zone.grant(zone.user().id, ids["resources"]["id"])},
}


def _expendable(api: Api, tenant: Tenant, route: Route) -> Tenant:
    """Another one of what the route takes away."""
    collection = route.path.rpartition("/{")[0].rpartition("/")[2]
    zone, ids = tenant.zone, tenant.ids
    if collection == "organizations":
        return tenant  # it has zones, so it stays
    if collection == "zones":
        return Tenant(api.zone(), {**ids, "zones": {"id": api.zone().id}})
    if collection == "users" and route.path.startswith("/organizations"):
        return Tenant(zone, {**ids, "organization-users": {"id": api.person().id}})
    if collection == "api-keys":
        return Tenant(zone, {**ids, collection: {"id": api.key("org_viewer")[0]}})
    if collection == "invitations":
        return Tenant(zone, {**ids, collection: api.invite()})
    if collection in _ANOTHER:
        return Tenant(zone, {**ids, collection: _ANOTHER[collection](zone, ids)})
    if collection == "service-accounts":
        path = f"/organizations/{api.organization_id}/service-accounts"
        return Tenant(zone, {**ids, collection: api.ok("POST", path, {"name": api.named()})})
    if collection == "credentials":
        path = f"/organizations/{api.organization_id}/service-accounts/{ids['service-accounts']['id']}"
        return Tenant(zone, {**ids, collection: api.ok("POST", f"{path}/credentials", {"name": "c"})})
    if route.operation_id == "members.remove":
        person = api.person().id
        body = {"organization_user_id": person, "role": "zone_viewer"}
        api.ok("POST", zone.path("/members"), body)
        return Tenant(zone, {**ids, "organization-users": {"id": person}})
    if collection == "members":
        user = {"id": zone.user().id}
        api.ok("POST", zone.path(f"/groups/{ids['groups']['id']}/members"), {"user_id": user["id"]})
        return Tenant(zone, {**ids, "members": user})
    if collection == "dependencies":
        resource = zone.make("resources")
        api.ok("PUT", zone.path(f"/applications/{ids['applications']['id']}/dependencies/{resource['id']}"))
        return Tenant(zone, {**ids, "dependencies": resource})
    return Tenant(zone, {**ids, "roles": _given_role(api, zone, ids, route)})


def _given_role(api: Api, zone: Zone, ids: dict[str, Any], route: Route) -> dict[str, Any]:
    made = zone.make("roles")
    if route.path.count("{") > 2:
        principal = route.path.split("/")[3]
        api.ok("POST", zone.path(f"/{principal}/{ids[principal]['id']}/roles"), {"role_id": made["id"]})
    return made


def _body(route: Route) -> dict[str, Any] | None:
    """A body that says nothing forbidden; a conflict or a validation error is as good as a success here."""
    if route.operation_id == "changesets.create":  # of a kind that every role sees, and never applied
        step = {"op": "create", "kind": "Application", "name": "t", "spec": {"identifier": "t", "name": "t"}}
        return {"base_revision": 10**9, "owner": "t", "plan_digest": "t", "operations": [step]}
    return body_of(route)


def test_every_row_has_every_role() -> None:
    """No cell is left out: what is not said would be denied without anybody having decided it."""
    assert {subject: set(row) for subject, row in TABLE.items()} == {each: set(ROLES) for each in TABLE}


def test_nobody_below_an_administrator_touches_the_organization() -> None:
    """Only administrators change the organization and make credentials that act for it."""
    assert {role for role in ROLES if allows(role, "organizations", Verb.UPDATE)} == {"org_admin"}
    assert {role for role in ROLES if allows(role, "service_account_credentials", Verb.CREATE)} == {
        "org_admin"
    }


def test_viewers_change_nothing() -> None:
    """The viewing roles have no verb that writes, anywhere."""
    assert not [
        (role, subject, verb)
        for subject in TABLE
        for role in ("org_viewer", "zone_viewer")
        for verb in (Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.ARCHIVE)
        if allows(role, subject, verb)
    ]


def test_maps_leave_out_what_is_not_seen() -> None:
    """`permissions` is read from the table; platform-owned things are nobody's to change."""
    told = permission_map("zone_viewer", "organizations", ["service_accounts"])
    assert set(told) == {"organizations"}
    told = permission_map("org_admin", "zones", ["applications"], changeable=False)
    assert told["zones"] == {"list": True, "create": True, "read": True, "update": False, "delete": False}

"""Members of zones, who are role assignments in the organization's home zone: one store, two views."""

from typing import Any

import pytest
from tests.runtime.management.access.matrix import CHECKED, TOLD, single_sign_on
from tests.runtime.management.conftest import Api, Zone
from tests.runtime.management.signing_in import someone
from tests.runtime.management.tenants import Tenant, body_of, fill, id_of, parameters

from runtime.contract.routes import Route
from runtime.domain.identifiers import new_id


def add(zone: Zone, person_id: str, role: str = "zone_viewer") -> dict[str, Any]:
    body = {"organization_user_id": person_id, "role": role}
    made: dict[str, Any] = zone.api.ok("POST", zone.path("/members"), body, status=200)
    return made


def assignments(api: Api, user_id: str) -> list[tuple[str, str]]:
    """(role, zone) of the assignments to a user of the organization's home zone."""
    listed = api.ok("GET", api.home_zone().path(f"/users/{user_id}/roles"))["items"]
    return [(one["role_identifier"], one["scope_id"]) for one in listed]


def test_a_member_is_added_changed_and_removed(api: Api) -> None:
    """Every operation, with exactly the members of the contract; a second time is a conflict."""
    zone, person, other = api.zone(), api.person(), api.person()
    member = add(zone, person.id)
    self_path = zone.path(f"/members/{person.id}")
    base = api.server.url
    assert member == {
        "id": member["id"],
        "_links": {
            "organization_user": {"href": f"{base}/organizations/{api.organization_id}/users/{person.id}"},
            "self": {"href": f"{base}{self_path}"},
        },
        "created_at": member["created_at"],
        "organization_id": api.organization_id,
        "organization_user_id": person.id,
        "role": "zone_viewer",
        "updated_at": member["updated_at"],
        "zone_id": zone.id,
    }
    body = {"organization_user_id": person.id, "role": "zone_manager"}
    api.refused(409, "POST", zone.path("/members"), body)
    second = add(zone, other.id, "zone_manager")
    assert api.ok("GET", self_path) == member
    listed = api.ok("GET", zone.path("/members?expand[]=total_count"))
    assert listed["items"] == [member, second]
    assert listed["pagination"]["total_count"] == 2
    assert listed["page_info"]["has_previous_page"] is False
    first_page = api.ok("GET", zone.path("/members?limit=1"))
    after = first_page["pagination"]["after_cursor"]
    assert api.ok("GET", zone.path(f"/members?limit=1&after={after}"))["items"] == [second]
    assert api.ok("GET", zone.path("/members?role=zone_manager"))["items"] == [second]
    api.refused(400, "GET", zone.path("/members?role=org_admin"))
    changed = api.ok("PATCH", self_path, {"role": "zone_manager"})
    assert changed == {**member, "role": "zone_manager", "updated_at": changed["updated_at"]}
    for wrong in ({"role": "org_admin"}, {"role": None}, {}, {"role": "zone_viewer", "zone_id": zone.id}):
        api.refused(400, "PATCH", self_path, wrong)
    for wrong in ({**body, "organization_user_id": new_id()}, {**body, "role": "owner"}):
        api.refused(400, "POST", zone.path("/members"), wrong)
    api.ok("DELETE", self_path, status=204)
    api.refused(404, "GET", self_path)
    api.refused(404, "DELETE", self_path)
    assert api.ok("GET", zone.path("/members"))["items"] == [second]
    own = api.home_zone()
    assert api.ok("GET", own.path("/members"))["items"] == []
    api.refused(400, "POST", own.path("/members"), body)


@pytest.mark.threat("26g", "42c")
def test_who_is_not_of_the_organization_is_unknown(api: Api, other: Api) -> None:
    """Somebody of another organization, a user of the home zone who is no member, nobody: one answer."""
    zone, mine, theirs = api.zone(), api.person(), other.person()
    add(zone, mine.id)
    bystander, credential = api.home_zone().user(), api.key()[0]

    told = set()
    for person_id in (theirs.id, theirs.zone_user_id, bystander.id, credential, other.zone().id, new_id()):
        body = {"organization_user_id": person_id, "role": "zone_viewer"}
        for refused in (
            api.refused(400, "POST", zone.path("/members"), body),
            api.refused(404, "GET", zone.path(f"/members/{person_id}")),
            api.refused(404, "PATCH", zone.path(f"/members/{person_id}"), {"role": "zone_viewer"}),
            api.refused(404, "DELETE", zone.path(f"/members/{person_id}")),
        ):
            said = {name: value for name, value in refused.items() if name not in ("request_id", "timestamp")}
            told.add(repr(said).replace(person_id, "ID"))
    assert len(told) == 2  # of the POST, and of the others


def test_both_views_agree(api: Api) -> None:
    """What one side does the other shows, in both directions; what goes takes its assignments along."""
    zone, elsewhere, person = api.zone(), api.zone(), api.person()
    own, user_id = api.home_zone(), person.zone_user_id
    add(zone, person.id)
    assert assignments(api, user_id) == [("zone_viewer", zone.id)]
    api.ok("PATCH", zone.path(f"/members/{person.id}"), {"role": "zone_manager"})
    assert assignments(api, user_id) == [("zone_manager", zone.id)]

    roles = own.path(f"/users/{user_id}/roles")
    body = {"role_identifier": "zone_viewer", "owner_type": "platform", "scope_type": "zone"}
    given = api.ok("POST", roles, {**body, "scope_id": elsewhere.id})
    (member,) = api.ok("GET", elsewhere.path("/members"))["items"]
    assert (member["id"], member["organization_user_id"], member["role"]) == (
        given["id"],
        person.id,
        "zone_viewer",
    )
    # With both roles there is one member, by the one that allows more; an update leaves one of them.
    api.ok("POST", roles, {**body, "scope_id": elsewhere.id, "role_identifier": "zone_manager"})
    (member,) = api.ok("GET", elsewhere.path("/members"))["items"]
    assert member["role"] == "zone_manager"
    assert api.ok("GET", elsewhere.path("/members?role=zone_viewer"))["items"] == []
    api.ok("PATCH", elsewhere.path(f"/members/{person.id}"), {"role": "zone_viewer"})
    assert sorted(assignments(api, user_id)) == sorted(
        [("zone_manager", zone.id), ("zone_viewer", elsewhere.id)]
    )
    api.ok("DELETE", f"{roles}/{given['role_id']}?scope_type=zone&scope_id={elsewhere.id}")
    api.refused(404, "GET", elsewhere.path(f"/members/{person.id}"))

    # A user of that zone who does not act for the organization is no member, whatever they hold.
    api.ok("POST", own.path(f"/users/{own.user().id}/roles"), {**body, "scope_id": elsewhere.id})
    assert api.ok("GET", elsewhere.path("/members"))["items"] == []
    # Only platform roles, only there, only for another zone of the same organization.
    for wrong in ({"scope_id": own.id}, {"scope_id": new_id()}, {"scope_id": zone.id, "scope_type": "group"}):
        api.refused(400, "POST", roles, {**body, **wrong})
    custom = own.make("roles")
    api.refused(400, "POST", roles, {"role_id": custom["id"], "scope_type": "zone", "scope_id": elsewhere.id})
    api.ok("DELETE", zone.path())
    assert assignments(api, user_id) == []


@pytest.mark.threat("27n", "27o")
def test_a_role_in_a_zone_ends_at_its_border(api: Api) -> None:
    """A manager of one zone manages it and adds members to it; of another zone they see what anyone sees."""
    zone, elsewhere = api.zone(), api.zone()
    ada, bob = someone(api, "org_viewer"), api.person("org_viewer")
    mine = ada.calling()
    path = "/applications"
    app = {"identifier": "a", "name": "a"}
    mine.refused(403, "POST", zone.path(path), app)
    add(zone, ada.user.id, "zone_manager")
    made = mine.ok("POST", zone.path(path), app)
    member = {"organization_user_id": bob.id, "role": "zone_manager"}
    mine.ok("POST", zone.path("/members"), member)
    assert mine.ok("PATCH", zone.path(), {"description": "d"})["description"] == "d"
    mine.refused(403, "POST", elsewhere.path("/members"), member)
    mine.refused(403, "POST", elsewhere.path(path), app)
    mine.refused(403, "PATCH", elsewhere.path(), {"description": "d"})
    mine.refused(403, "DELETE", zone.path())
    mine.refused(403, "POST", "/zones", {"name": "z"})
    mine.refused(403, "PATCH", ada.path, {"role": "org_admin"})
    own = api.home_zone()
    body = {"role_identifier": "zone_manager", "owner_type": "platform"}
    body |= {"scope_type": "zone", "scope_id": elsewhere.id}
    mine.refused(403, "POST", own.path(f"/users/{ada.user.zone_user_id}/roles"), body)

    told = {
        one["id"]: one["permissions"]
        for one in mine.ok("GET", "/zones?limit=100&expand[]=permissions")["items"]
    }
    assert told[zone.id]["zones"]["update"] is True
    assert told[zone.id]["applications"]["create"] is True
    assert told[elsewhere.id]["zones"]["update"] is False
    assert told[elsewhere.id]["applications"]["create"] is False
    assert told[own.id]["applications"]["create"] is False

    # A changeset is held to the same: each operation in its zone, and so is what only changes owners.
    def changeset(target: Zone, **operation: Any) -> dict[str, Any]:
        common = {"kind": "Application", "zone": {"id": target.id}, **operation}
        return {
            "base_revision": api.revision(),
            "owner": "ada",
            "plan_digest": new_id(),
            "operations": [common],
        }

    create = {"op": "create", "name": "git", "spec": {"identifier": "git", "name": "git"}}
    sets = f"/organizations/{api.organization_id}/changesets"
    assert mine.ok("POST", sets, changeset(zone, **create))["operations"][0]["id"]
    adopt = {"op": "adopt", "name": "a", "spec": {}}
    mine.ok("POST", sets, changeset(zone, **adopt, id=made["id"]))
    theirs = elsewhere.make("applications")
    mine.refused(403, "POST", sets, changeset(elsewhere, **create))
    mine.refused(403, "POST", sets, changeset(elsewhere, **adopt, id=theirs["id"]))
    assert mine.ok("POST", f"{sets}?dry_run=true", changeset(elsewhere, **create))["dry_run"] is True

    # Through a group of the organization's home zone it counts as well, and ends with it.
    api.ok("DELETE", zone.path(f"/members/{ada.user.id}"))
    mine.refused(403, "POST", zone.path(path), {**app, "identifier": "b"})
    group = own.make("groups")
    api.ok("POST", own.path(f"/groups/{group['id']}/roles"), {**body, "scope_id": zone.id})
    api.ok("POST", own.path(f"/groups/{group['id']}/members"), {"user_id": ada.user.zone_user_id})
    mine.ok("POST", zone.path(path), {**app, "identifier": "b"})
    assert ada.user.id not in {
        one["organization_user_id"] for one in api.ok("GET", zone.path("/members"))["items"]
    }
    api.ok("DELETE", own.path(f"/groups/{group['id']}"))
    mine.refused(403, "POST", zone.path(path), {**app, "identifier": "c"})


# Changesets ask for each of their operations by itself: the test above has them.
_HARMLESS = [
    route
    for route in CHECKED
    if route.method != "DELETE" and not route.operation_id.startswith("changesets.")
]


@pytest.mark.parametrize(
    ("organization_role", "zone_role"),
    [("org_viewer", "zone_manager"), ("org_member", "zone_viewer"), ("org_admin", None)],
)
def test_cells_of_a_person(api: Api, organization_role: str, zone_role: str | None) -> None:
    """Cell by cell for people: in a zone both roles together, in the next one the organization's alone."""
    if api.server.services.database.dialect != "sqlite":
        pytest.skip("the table does not depend on the database")
    tenant, next_door = fill(api.zone()), fill(api.zone())
    person = someone(api, organization_role)
    if zone_role:
        add(tenant.zone, person.user.id, zone_role)
    mine = person.calling()
    for route in _HARMLESS:
        for target, roles in (
            (tenant, (organization_role, zone_role) if zone_role else (organization_role,)),
            (next_door, (organization_role,)),
        ):
            within = roles if route.path.startswith("/zones/{zoneId}") else (organization_role,)
            _check(mine, route, target, within)


def _check(mine: Api, route: Route, target: Tenant, roles: tuple[str, ...]) -> None:
    path = route.path
    for name in parameters(route):
        path = path.replace(f"{{{name}}}", id_of(target, route, name))
    with single_sign_on(target.zone.api, route):
        status = mine(route.method, path, body_of(route)).status_code
    told = {TOLD[route.operation_id][role] for role in roles}
    about = f"{route.operation_id} as {roles}: {status}"
    if "yes" in told:
        assert status not in (401, 403, 404, 500), about
    else:
        assert str(status) == min(told), about  # seen by one of them is seen

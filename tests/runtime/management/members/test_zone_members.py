"""Members of zones, who are role assignments in the organization's home zone: one store, two views."""

from dataclasses import dataclass
from typing import Any

import pytest
from tests.runtime.management.access.matrix import CHECKED, TOLD, single_sign_on
from tests.runtime.management.conftest import Api, Zone
from tests.runtime.management.signing_in import Someone, someone
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


@dataclass
class Staffed:
    """A zone with a viewer and a manager."""

    zone: Zone
    viewer: dict[str, Any]
    manager: dict[str, Any]

    @property
    def path(self) -> str:
        """Where the viewer is."""
        return self.zone.path(f"/members/{self.viewer['organization_user_id']}")


@pytest.fixture
def staffed(api: Api) -> Staffed:
    zone, viewer, manager = api.zone(), api.person(), api.person()
    return Staffed(zone, add(zone, viewer.id), add(zone, manager.id, "zone_manager"))


def test_a_new_member_has_exactly_the_members_of_the_contract(api: Api) -> None:
    """Ids, role, times and links, and nothing else; a retrieve shows the same."""
    zone, person = api.zone(), api.person()
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
    assert api.ok("GET", self_path) == member


def test_who_is_a_member_is_not_added_again(api: Api, staffed: Staffed) -> None:
    """409, with another role as well."""
    body = {"organization_user_id": staffed.viewer["organization_user_id"], "role": "zone_manager"}
    api.refused(409, "POST", staffed.zone.path("/members"), body)


def test_the_list_of_members_is_paged_and_counted(api: Api, staffed: Staffed) -> None:
    """In the order in which they were added."""
    listed = api.ok("GET", staffed.zone.path("/members?expand[]=total_count"))
    assert listed["items"] == [staffed.viewer, staffed.manager]
    assert listed["pagination"]["total_count"] == 2
    assert listed["page_info"]["has_previous_page"] is False
    first_page = api.ok("GET", staffed.zone.path("/members?limit=1"))
    after = first_page["pagination"]["after_cursor"]
    following = api.ok("GET", staffed.zone.path(f"/members?limit=1&after={after}"))
    assert following["items"] == [staffed.manager]


def test_the_list_of_members_is_filtered_by_a_role_of_zones(api: Api, staffed: Staffed) -> None:
    """A role of organizations is none here: 400."""
    listed = api.ok("GET", staffed.zone.path("/members?role=zone_manager"))
    assert listed["items"] == [staffed.manager]
    api.refused(400, "GET", staffed.zone.path("/members?role=org_admin"))


def test_changing_a_members_role_changes_nothing_else(api: Api, staffed: Staffed) -> None:
    """The answer is the member with the other role, changed now."""
    changed = api.ok("PATCH", staffed.path, {"role": "zone_manager"})
    assert changed == {**staffed.viewer, "role": "zone_manager", "updated_at": changed["updated_at"]}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"role": "org_admin"}, id="role-of-organizations"),
        pytest.param({"role": None}, id="role-null"),
        pytest.param({}, id="empty"),
        pytest.param({"role": "zone_viewer", "zone_id": "ID"}, id="zone-beside-the-role"),
    ],
)
def test_a_member_is_given_only_a_role_of_zones(
    api: Api, staffed: Staffed, wrong: dict[str, str | None]
) -> None:
    """Anything else in the body of a change, and a body that changes nothing, is 400."""
    if "zone_id" in wrong:
        wrong = {**wrong, "zone_id": staffed.zone.id}
    api.refused(400, "PATCH", staffed.path, wrong)
    assert api.ok("GET", staffed.path) == staffed.viewer


@pytest.mark.parametrize("member", ["organization_user_id", "role"])
def test_nobody_unknown_and_no_unknown_role_is_added(api: Api, staffed: Staffed, member: str) -> None:
    """An id of nobody and a role that zones do not have are 400."""
    body = {"organization_user_id": staffed.viewer["organization_user_id"], "role": "zone_manager"}
    body[member] = new_id() if member == "organization_user_id" else "owner"
    told = api.refused(400, "POST", staffed.zone.path("/members"), body)
    assert told["details"][0]["field"] == member


def test_a_removed_member_is_gone_and_the_others_stay(api: Api, staffed: Staffed) -> None:
    """Neither found nor removed a second time."""
    api.ok("DELETE", staffed.path, status=204)
    api.refused(404, "GET", staffed.path)
    api.refused(404, "DELETE", staffed.path)
    assert api.ok("GET", staffed.zone.path("/members"))["items"] == [staffed.manager]


def test_a_home_zone_has_no_members(api: Api, staffed: Staffed) -> None:
    """Roles there are the organization's: its list of members is empty, and nobody is added."""
    own = api.home_zone()
    body = {"organization_user_id": staffed.viewer["organization_user_id"], "role": "zone_manager"}
    assert api.ok("GET", own.path("/members"))["items"] == []
    api.refused(400, "POST", own.path("/members"), body)


@pytest.mark.threat("26g", "42c")
def test_who_is_not_of_the_organization_is_unknown(api: Api, other: Api) -> None:
    """Somebody of another organization, a user of the home zone who is no member, nobody: one answer.

    The answers are compared with each other, so one test asks for all of them.
    """
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


VIEWER = {"role_identifier": "zone_viewer", "owner_type": "platform", "scope_type": "zone"}


def test_a_member_is_an_assignment_to_the_user_of_the_home_zone(api: Api) -> None:
    """Adding somebody to a zone, and changing their role there, shows in the home zone."""
    zone, person = api.zone(), api.person()
    add(zone, person.id)
    assert assignments(api, person.zone_user_id) == [("zone_viewer", zone.id)]
    api.ok("PATCH", zone.path(f"/members/{person.id}"), {"role": "zone_manager"})
    assert assignments(api, person.zone_user_id) == [("zone_manager", zone.id)]


def test_an_assignment_in_the_home_zone_is_a_member_until_it_is_taken_back(api: Api) -> None:
    """The member has the assignment's id; without it there is none."""
    zone, person = api.zone(), api.person()
    roles = api.home_zone().path(f"/users/{person.zone_user_id}/roles")
    given = api.ok("POST", roles, {**VIEWER, "scope_id": zone.id})
    (member,) = api.ok("GET", zone.path("/members"))["items"]
    assert (member["id"], member["organization_user_id"], member["role"]) == (
        given["id"],
        person.id,
        "zone_viewer",
    )
    api.ok("DELETE", f"{roles}/{given['role_id']}?scope_type=zone&scope_id={zone.id}")
    api.refused(404, "GET", zone.path(f"/members/{person.id}"))


def test_two_assignments_are_one_member_by_the_role_that_allows_more(api: Api) -> None:
    """An update leaves one of them, and the assignments of other zones alone."""
    zone, elsewhere, person = api.zone(), api.zone(), api.person()
    add(elsewhere, person.id, "zone_manager")
    roles = api.home_zone().path(f"/users/{person.zone_user_id}/roles")
    api.ok("POST", roles, {**VIEWER, "scope_id": zone.id})
    api.ok("POST", roles, {**VIEWER, "scope_id": zone.id, "role_identifier": "zone_manager"})
    (member,) = api.ok("GET", zone.path("/members"))["items"]
    assert member["role"] == "zone_manager"
    assert api.ok("GET", zone.path("/members?role=zone_viewer"))["items"] == []
    api.ok("PATCH", zone.path(f"/members/{person.id}"), {"role": "zone_viewer"})
    assert sorted(assignments(api, person.zone_user_id)) == sorted(
        [("zone_manager", elsewhere.id), ("zone_viewer", zone.id)]
    )


def test_a_user_who_does_not_act_for_the_organization_is_no_member(api: Api) -> None:
    """Whatever role a mere user of the home zone holds."""
    zone, own = api.zone(), api.home_zone()
    api.ok("POST", own.path(f"/users/{own.user().id}/roles"), {**VIEWER, "scope_id": zone.id})
    assert api.ok("GET", zone.path("/members"))["items"] == []


@pytest.mark.parametrize(
    "wrong", ["the home zone itself", "no zone", "another kind of scope", "a role of the customer's"]
)
def test_only_a_platform_role_is_assigned_for_another_zone(api: Api, wrong: str) -> None:
    """In the home zone, for a zone of the same organization; anything else with a scope is 400."""
    zone, own, person = api.zone(), api.home_zone(), api.person()
    body: dict[str, str] = {**VIEWER, "scope_id": zone.id}
    if wrong == "the home zone itself":
        body["scope_id"] = own.id
    elif wrong == "no zone":
        body["scope_id"] = new_id()
    elif wrong == "another kind of scope":
        body["scope_type"] = "group"
    else:
        body = {"role_id": own.make("roles")["id"], "scope_type": "zone", "scope_id": zone.id}
    api.refused(400, "POST", own.path(f"/users/{person.zone_user_id}/roles"), body)
    assert assignments(api, person.zone_user_id) == []


def test_a_deleted_zone_takes_its_assignments_along(api: Api) -> None:
    """The user of the home zone has no role in a zone that is gone."""
    zone, person = api.zone(), api.person()
    add(zone, person.id)
    assert assignments(api, person.zone_user_id) == [("zone_viewer", zone.id)]
    api.ok("DELETE", zone.path())
    assert assignments(api, person.zone_user_id) == []


APP = {"identifier": "a", "name": "a"}


@dataclass
class Manager:
    """Somebody who sees everything in the organization, and manages one of its zones."""

    person: Someone
    calls: Api
    zone: Zone
    elsewhere: Zone


@pytest.fixture(scope="module")
def overseer(api: Api) -> tuple[Someone, Api]:
    """A viewer of the organization, and the management API as they call it."""
    ada = someone(api, "org_viewer")
    return ada, ada.calling()


@pytest.fixture
def manager(api: Api, overseer: tuple[Someone, Api]) -> Manager:
    (ada, calls), zone, elsewhere = overseer, api.zone(), api.zone()
    calls.refused(403, "POST", zone.path("/applications"), APP)
    add(zone, ada.user.id, "zone_manager")
    return Manager(ada, calls, zone, elsewhere)


def changeset(api: Api, target: Zone, **operation: Any) -> dict[str, Any]:
    common = {"kind": "Application", "zone": {"id": target.id}, **operation}
    return {
        "base_revision": api.revision(),
        "owner": api.named("ada"),
        "plan_digest": new_id(),
        "operations": [common],
    }


CREATE = {"op": "create", "name": "git", "spec": {"identifier": "git", "name": "git"}}
ADOPT = {"op": "adopt", "name": "a", "spec": {}}


def test_a_manager_of_a_zone_manages_it_and_adds_members(api: Api, manager: Manager) -> None:
    """What a viewer of the organization is refused, the role in the zone allows there."""
    manager.calls.ok("POST", manager.zone.path("/applications"), APP)
    member = {"organization_user_id": api.person("org_viewer").id, "role": "zone_manager"}
    manager.calls.ok("POST", manager.zone.path("/members"), member)
    changed = manager.calls.ok("PATCH", manager.zone.path(), {"description": "d"})
    assert changed["description"] == "d"


@pytest.mark.threat("27n", "27o")
def test_a_role_in_a_zone_allows_nothing_in_the_next_zone(api: Api, manager: Manager) -> None:
    """There its holder sees what they always saw: every change is 403."""
    elsewhere = manager.elsewhere
    member = {"organization_user_id": api.person("org_viewer").id, "role": "zone_manager"}
    manager.calls.ok("POST", manager.zone.path("/members"), member)
    manager.calls.refused(403, "POST", elsewhere.path("/members"), member)
    manager.calls.refused(403, "POST", elsewhere.path("/applications"), APP)
    manager.calls.refused(403, "PATCH", elsewhere.path(), {"description": "d"})


@pytest.mark.threat("27n", "27o")
def test_a_role_in_a_zone_allows_nothing_in_the_organization(api: Api, manager: Manager) -> None:
    """Not deleting the zone, not making another, and no role in the organization or its home zone."""
    manager.calls.ok("PATCH", manager.zone.path(), {"description": "d"})
    manager.calls.refused(403, "DELETE", manager.zone.path())
    manager.calls.refused(403, "POST", "/zones", {"name": "z"})
    manager.calls.refused(403, "PATCH", manager.person.path, {"role": "org_admin"})
    roles = api.home_zone().path(f"/users/{manager.person.user.zone_user_id}/roles")
    body = {**VIEWER, "role_identifier": "zone_manager", "scope_id": manager.elsewhere.id}
    manager.calls.refused(403, "POST", roles, body)


def test_the_list_of_zones_tells_what_its_reader_may_do_in_each(api: Api, manager: Manager) -> None:
    """`permissions` is true for changes in the managed zone alone."""
    told = {}
    for zone in (manager.zone, manager.elsewhere, api.home_zone()):
        (told[zone.id],) = (
            one["permissions"]
            for one in manager.calls.ok("GET", f"/zones?slug={zone.body['slug']}&expand[]=permissions")[
                "items"
            ]
        )
    assert told[manager.zone.id]["zones"]["update"] is True
    assert told[manager.zone.id]["applications"]["create"] is True
    assert told[manager.elsewhere.id]["zones"]["update"] is False
    assert told[manager.elsewhere.id]["applications"]["create"] is False
    assert told[api.home_zone().id]["applications"]["create"] is False


@pytest.mark.threat("27n", "27o")
@pytest.mark.parametrize("operation", [CREATE, ADOPT], ids=["create", "adopt"])
def test_a_changeset_is_held_to_the_role_in_each_zone(
    api: Api, manager: Manager, operation: dict[str, Any]
) -> None:
    """Applied in the managed zone and refused in the next, even where it would only change an owner."""
    sets = f"/organizations/{api.organization_id}/changesets"

    def within(zone: Zone) -> dict[str, Any]:
        its = {"id": zone.make("applications")["id"]} if operation is ADOPT else {}
        return changeset(api, zone, **operation, **its)

    theirs, mine = within(Zone(api, manager.elsewhere.body)), within(Zone(api, manager.zone.body))
    assert manager.calls.ok("POST", sets, mine)["operations"][0]["id"]
    manager.calls.refused(403, "POST", sets, {**theirs, "base_revision": api.revision()})


def test_whoever_sees_a_zone_tries_out_a_changeset_for_it(api: Api, manager: Manager) -> None:
    """A dry run writes nothing, so it asks for no role that changes."""
    sets = f"/organizations/{api.organization_id}/changesets"
    tried = manager.calls.ok("POST", f"{sets}?dry_run=true", changeset(api, manager.elsewhere, **CREATE))
    assert tried["dry_run"] is True


@pytest.mark.threat("27n", "27o")
def test_a_role_in_a_zone_ends_with_the_membership(api: Api, manager: Manager) -> None:
    """The very next request is refused."""
    manager.calls.ok("POST", manager.zone.path("/applications"), APP)
    api.ok("DELETE", manager.zone.path(f"/members/{manager.person.user.id}"))
    manager.calls.refused(403, "POST", manager.zone.path("/applications"), {**APP, "identifier": "b"})


@pytest.mark.threat("27n", "27o")
def test_a_role_in_a_zone_counts_through_a_group_and_ends_with_it(api: Api, manager: Manager) -> None:
    """A group of the home zone may hold the role; who has it by that is no member in the zone's list."""
    own, zone, ada = api.home_zone(), manager.zone, manager.person.user
    path = zone.path("/applications")
    api.ok("DELETE", zone.path(f"/members/{ada.id}"))
    manager.calls.refused(403, "POST", path, APP)
    group = own.make("groups")
    role = {**VIEWER, "role_identifier": "zone_manager", "scope_id": zone.id}
    api.ok("POST", own.path(f"/groups/{group['id']}/roles"), role)
    api.ok("POST", own.path(f"/groups/{group['id']}/members"), {"user_id": ada.zone_user_id})
    manager.calls.ok("POST", path, APP)
    members = api.ok("GET", zone.path("/members"))["items"]
    assert ada.id not in {one["organization_user_id"] for one in members}
    api.ok("DELETE", own.path(f"/groups/{group['id']}"))
    manager.calls.refused(403, "POST", path, {**APP, "identifier": "b"})


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

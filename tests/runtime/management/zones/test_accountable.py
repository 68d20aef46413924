"""The user or the group that is accountable for an application, set by API."""

from tests.runtime.management.conftest import Api, Zone

from runtime.services.zone_settings import set_zone_setting


def _application(zone: Zone, **members: str) -> str:
    return zone.path(f"/applications/{zone.make('applications', **members)['id']}")


def test_an_application_shows_who_is_accountable(api: Api) -> None:
    """The id that a request sets is what responses show."""
    zone = api.zone()
    user = zone.user()
    path = _application(zone, accountable_user_id=user.id)
    assert api.ok("GET", path)["accountable_user_id"] == user.id


def test_a_group_takes_the_place_of_a_user(api: Api) -> None:
    """One request clears the user and sets the group."""
    zone = api.zone()
    path = _application(zone, accountable_user_id=zone.user().id)
    group = zone.make("groups")["id"]
    changed = api.ok("PATCH", path, {"accountable_user_id": None, "accountable_group_id": group})
    assert (changed.get("accountable_user_id"), changed["accountable_group_id"]) == (None, group)


def test_a_user_and_a_group_are_refused_together(api: Api) -> None:
    """At most one of them is accountable, also where the other one was set before."""
    zone = api.zone()
    path = _application(zone, accountable_user_id=zone.user().id)
    told = api.refused(400, "PATCH", path, {"accountable_group_id": zone.make("groups")["id"]})
    assert "conflicts with `accountable_user_id`" in str(told)
    assert "accountable_group_id" not in api.ok("GET", path)


def test_a_user_of_another_zone_is_unknown(api: Api) -> None:
    """The refusal is the one for an id that nobody has."""
    zone = api.zone()
    told = api.refused(400, "PATCH", _application(zone), {"accountable_user_id": api.zone().user().id})
    assert "no User with the id" in str(told)


def test_a_group_of_another_zone_is_unknown(api: Api) -> None:
    """The refusal is the one for an id that nothing has."""
    zone = api.zone()
    group = api.zone().make("groups")["id"]
    told = api.refused(400, "PATCH", _application(zone), {"accountable_group_id": group})
    assert "no Group with the id" in str(told)


def test_the_id_of_a_deleted_user_stays(api: Api) -> None:
    """Nobody else becomes accountable by a deletion, and the application still says who was."""
    zone = api.zone()
    user = zone.user()
    path = _application(zone, accountable_user_id=user.id)
    api.ok("DELETE", zone.path(f"/users/{user.id}"), status=204)
    assert api.ok("GET", path)["accountable_user_id"] == user.id


def test_the_id_of_a_deleted_group_stays(api: Api) -> None:
    """As that of a user does."""
    zone = api.zone()
    group = zone.make("groups")["id"]
    path = _application(zone, accountable_group_id=group)
    api.ok("DELETE", zone.path(f"/groups/{group}"), status=204)
    assert api.ok("GET", path)["accountable_group_id"] == group


def test_other_members_change_while_the_user_is_gone(api: Api) -> None:
    """An id that leads nowhere is refused where it is set, not where it stands already."""
    zone = api.zone()
    user = zone.user()
    path = _application(zone, accountable_user_id=user.id)
    api.ok("DELETE", zone.path(f"/users/{user.id}"), status=204)
    assert api.ok("PATCH", path, {"name": "Renamed"})["name"] == "Renamed"


def test_who_may_not_change_applications_sets_nobody(api: Api) -> None:
    """Being accountable is a member of the application: the same permission is asked for."""
    zone = api.zone()
    path = _application(zone)
    viewer = api.with_role("org_viewer")
    viewer.refused(403, "PATCH", path, {"accountable_user_id": zone.user().id})


def test_the_end_of_an_application_is_in_the_audit_log(api: Api) -> None:
    """Whoever asks why it stopped finds the request that disabled its accountable user."""
    zone = api.zone()
    user = zone.user()
    path = _application(zone, accountable_user_id=user.id)
    api.server.call(lambda services: set_zone_setting(services, zone.id, "require-active-accountable", "on"))
    api.ok("PATCH", zone.path(f"/users/{user.id}"), {"status": "disabled"})
    events = api.ok("GET", f"/organizations/{api.organization_id}/audit-events?limit=20")["items"]
    (ended,) = [each for each in events if each["action"] == "applications.end"]
    assert ended["entity_id"] == path.rpartition("/")[2]

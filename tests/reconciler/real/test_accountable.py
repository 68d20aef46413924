"""The user or the group that is accountable for an application, in manifests, plans and drift."""

import pytest
from tests.reconciler.real.company import Company

ROBOT = """\
apiVersion: zonewright/v1
kind: Application
metadata: {zone: "{zone}", name: robot}
spec:
  name: Robot
  identifier: robot
  %s
"""


@pytest.fixture(autouse=True)
def zone(company: Company) -> None:
    """A zone that users can be in."""
    company.apply()


def robot(company: Company, accountable: str) -> None:
    """Write the manifest of an application for which somebody is accountable."""
    company.write("robot.yaml", ROBOT % accountable)


def test_a_user_is_named_by_address(company: Company) -> None:
    """What is applied is what the next plan finds, also in another case of the address."""
    user_id = company.user("olga@acme.example")
    robot(company, "accountable_user: Olga@acme.example")
    company.apply()
    assert company.found("applications", identifier="robot")["accountable_user_id"] == user_id
    assert company.plan(expect=0)


def test_a_group_is_named_by_its_manifest(company: Company) -> None:
    """The group is made in the same apply, before the application."""
    company.write("team.yaml", _TEAM)
    robot(company, "accountable_group: robots")
    company.apply()
    group = company.found("groups", identifier="robots")
    assert company.found("applications", identifier="robot")["accountable_group_id"] == group["id"]
    assert company.plan(expect=0)


def test_a_deleted_user_is_drift(company: Company) -> None:
    """The id stands where git has the address."""
    user_id = company.user("olga@acme.example")
    robot(company, "accountable_user: olga@acme.example")
    company.apply()
    company.send("DELETE", f"/zones/{company.zone_id}/users/{user_id}")
    told = company.drift(expect=3)
    assert f'"{user_id}"' in told
    assert "olga@acme.example" in told


def test_a_user_set_by_hand_is_drift(company: Company) -> None:
    """As any member that git has written."""
    robot(company, "accountable_user: olga@acme.example")
    company.apply()
    other = company.user("boris@acme.example")
    company.send("PATCH", company.path("applications", identifier="robot"), accountable_user_id=other)
    assert '"boris@acme.example" -> "olga@acme.example"' in company.drift(expect=3)


def test_a_plan_replaces_a_user_by_a_group(company: Company) -> None:
    """One apply clears the user and sets the group."""
    company.user("olga@acme.example")
    robot(company, "accountable_user: olga@acme.example")
    company.apply()
    company.write("team.yaml", _TEAM)
    robot(company, "accountable_group: robots")
    company.apply()
    found = company.found("applications", identifier="robot")
    assert (found.get("accountable_user_id"), bool(found["accountable_group_id"])) == (None, True)
    assert company.plan(expect=0)


_TEAM = """\
apiVersion: zonewright/v1
kind: Group
metadata: {zone: "{zone}", name: robots}
spec: {name: Robots, identifier: robots}
"""

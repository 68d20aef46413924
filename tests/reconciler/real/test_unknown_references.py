"""References that only the server can resolve: every one of a configuration is reported at its member."""

import json
from typing import Any

import pytest
from tests.reconciler.real.company import Company

APPLICATION = """\
apiVersion: zonewright/v1
kind: Application
metadata: {zone: "{zone}", name: robot}
spec:
  name: Robot
  dependencies:
    - payroll
    - {external: "https://payrol.example"}
    - {external: "urn:zzz"}
---
apiVersion: zonewright/v1
kind: RoleAssignment
metadata: {zone: "{zone}", name: robot-audits}
spec:
  role: {owner: acme/others, name: auditor}
  principal: {application: robot}
---
apiVersion: zonewright/v1
kind: RoleAssignment
metadata: {zone: "{zone}", name: robot-views}
spec:
  role: {external: zone_veiwer}
  principal: {application: robot}
"""
NEW_ZONE = """\
apiVersion: zonewright/v1
kind: Zone
metadata: {name: fresh}
spec: {name: fresh}
---
apiVersion: zonewright/v1
kind: Group
metadata: {zone: fresh, name: staff}
spec: {name: Staff}
---
apiVersion: zonewright/v1
kind: RoleAssignment
metadata: {zone: fresh, name: staff-views}
spec:
  role: {external: zone_veiwer}
  principal: {group: staff}
---
apiVersion: zonewright/v1
kind: Application
metadata: {zone: fresh, name: robot}
spec:
  name: Robot
  dependencies: [{external: "https://one.example"}, {external: "https://two.example"}]
---
apiVersion: zonewright/v1
kind: RoleAssignment
metadata: {zone: fresh, name: robot-edits}
spec:
  role: {external: nothing_alike}
  principal: {application: robot}
"""


def places(company: Company) -> list[tuple[Any, ...]]:
    """Line, column and message of every problem that a plan reports."""
    problems = json.loads(company.zonectl("plan", company.folder, "--output", "json").out)["problems"]
    return [(each["line"], each["column"], each["message"].rpartition(": ")[2]) for each in problems]


def test_all_of_a_known_zone_are_reported_at_their_values(company: Company) -> None:
    """Several of one manifest, too, with what was meant; a correct one beside them is none of them."""
    company.write("robot.yaml", APPLICATION)
    known = "there is no Resource `https://payrol.example` on the server"
    assert places(company) == [
        (8, 18, f"{known}; did you mean `https://payroll.example`?"),
        (9, 18, "there is no Resource `urn:zzz` on the server"),
        (15, 17, "`acme/others` manages nothing in this zone"),
        (22, 20, "there is no Role `zone_veiwer` on the server; did you mean `zone_viewer`?"),
    ]


def test_text_names_files_as_seen_from_here(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line of the manifest and a caret."""
    monkeypatch.chdir(company.folder.path.parent)
    company.write("robot.yaml", APPLICATION)
    told = company.plan(expect=1)
    assert told.out == ""
    assert f"{company.zone}/robot.yaml:15:17: error: `acme/others` manages nothing" in told.err
    assert told.err.endswith("4 problems\n")


def test_all_of_a_new_zone_are_reported_at_their_members(company: Company) -> None:
    """Also those of an object that depends on a refused one: the server looks up what each refers to."""
    company.write("fresh.yaml", NEW_ZONE)
    assert sorted(places(company)) == [
        (15, 20, "there is no Role `zone_veiwer`; did you mean `zone_viewer`?"),
        (23, 29, "there is no Resource `https://one.example`"),
        (23, 64, "there is no Resource `https://two.example`"),
        (29, 20, "there is no Role `nothing_alike`"),
    ]
    corrected = NEW_ZONE.replace("zone_veiwer", "zone_viewer").replace("nothing_alike", "zone_viewer")
    company.write("fresh.yaml", corrected.partition("---\napiVersion: zonewright/v1\nkind: Application")[0])
    company.plan(expect=2)

"""What a reviewer reads is what happens: names, headlines, counts, what an apply will want."""

from pathlib import Path

import pytest
from tests.reconciler.conftest import Folder
from tests.reconciler.real.company import COMPANY, Company
from tests.reconciler.real.test_reviewing_plans import CONTRACTORS, GRANT, HEAD, called


class TestNames:
    """Two groups exchange their names, and a grant goes on naming one of them."""

    @pytest.fixture
    def swapped(self, company: Company) -> Company:
        """Git says so, and nothing is applied yet."""
        company.write("groups.yaml", called("on-call", "standby") + GRANT)
        company.apply()
        text = called("standby", "on-call", was=("on-call", "standby"))
        company.write("groups.yaml", text + GRANT)
        return company

    def test_references_are_told_by_both_names(self, swapped: Company) -> None:
        """Whoever reads one name alone takes the one group for the other."""
        said = swapped.plan(expect=2).out
        assert '"Group/standby (was on-call)" -> "Group/on-call (was standby)"' in said
        assert '"Group/on-call"' not in said

    def test_that_is_what_the_apply_does(self, swapped: Company) -> None:
        """The role goes to the group that is called so from now on."""
        lisbon = swapped.found("groups", identifier="standby")["id"]
        swapped.apply()
        assert swapped.found("groups", identifier="on-call")["id"] == lisbon
        (role,) = swapped.send("GET", f"{swapped.collection('groups')}/{lisbon}/roles")["items"]
        assert role["role_id"] == swapped.found("roles", identifier="auditor")["id"]

    def test_a_saved_plan_is_applied(self, swapped: Company, tmp_path: Path) -> None:
        """What it calls them is held against the server, and is right."""
        swapped.plan("--out", str(tmp_path / "plan.json"), expect=2)
        root = ("--root", str(swapped.folder))
        done = swapped.zonectl("apply", tmp_path / "plan.json", *root, "--allow-env", "CORP_SECRET")
        assert done.exit_code == 0, done

    def test_what_is_in_zones_is_told_by_their_new_names(self, company: Company) -> None:
        """Of two zones that exchange their names, both lose and get something."""
        two = [f"{company.zone}-one", f"{company.zone}-two"]
        company.write("zones.yaml", zones(two) + "---\n" + in_zone("left", two[0]))
        company.apply()
        company.write("zones.yaml", zones(two[::-1], was=two) + "---\n" + in_zone("come", two[0]))
        told = {(each["op"], each["kind"]): each for each in company.plan_json()["actions"]}
        assert told["delete", "Group"]["zone"] == two[1]  # it is in the zone that is called so from now on
        assert told["create", "Group"]["zone"] == two[0]


def zones(names: list[str], was: list[str] | None = None) -> str:
    """Two zones, and the names that they had before."""
    manifests = []
    for title, name, before in zip(("One", "Two"), names, was or ["", ""], strict=True):
        lifecycle = f"lifecycle: {{previous_names: [{before}]}}\n" if before else ""
        manifests.append(
            f"{HEAD}kind: Zone\nmetadata: {{name: {name}}}\n{lifecycle}spec: {{name: {title}}}\n"
        )
    return "---\n".join(manifests)


def in_zone(name: str, zone: str) -> str:
    """A group in that zone."""
    return f"{HEAD}kind: Group\nmetadata: {{zone: {zone}, name: {name}}}\nspec: {{name: Group}}\n"


class TestHeadline:
    """The line that says how much there is to do."""

    @pytest.fixture
    def other(self, company: Company) -> Folder:
        """Another owner's configuration, which describes what is not its own."""
        other = Folder(company.folder.path.parent / "partners")
        other.write("zonectl.yaml", f"owner: partners/{company.zone}\nzones: [{company.zone}]\n")
        other.write("contractors.yaml", CONTRACTORS.replace("{zone}", company.zone))
        return other

    @pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
    def test_of_what_is_refused_says_so(
        self, company: Company, other: Folder, command: tuple[str, ...]
    ) -> None:
        """An object that another owner has not let go of is no reason to say that there is nothing to do."""
        name, *options = command
        done = company.zonectl(name, other, *options)
        assert done.exit_code == 5
        assert done.out.startswith("1 manifest: refused\n")

    def test_of_what_the_server_refuses_says_so(self, company: Company) -> None:
        """The changes are shown all the same."""
        company.write("policies.yaml", COMPANY["policies.yaml"].replace("resource);", "resource)when{1};"))
        assert "11 manifests: 1 to update; refused\n" in company.plan(expect=1).out

    def test_of_what_is_not_refused_does_not(self, company: Company) -> None:
        """Nor of a plan without changes."""
        assert company.plan(expect=0).out == "11 manifests: nothing to do\n"


def test_an_apply_counts_as_its_plan_does(company: Company) -> None:
    """Objects, and beside them operations: to replace one takes two of these."""
    company.write("groups.yaml", called("on-call", "standby") + GRANT)
    planned = company.plan(expect=2).out
    assert "14 manifests: 3 to create\n" in planned
    assert "applied: 3 created (3 operations), now at revision" in company.apply().out
    company.write("groups.yaml", called("on-call", "standby") + GRANT.replace("on-call", "standby"))
    assert "applied: 1 replaced (2 operations), now at revision" in company.apply().out

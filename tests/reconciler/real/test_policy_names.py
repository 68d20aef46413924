"""Names in policies against a real server: its problems are shown at the line of the `.cedar` file."""

import json

import pytest
from tests.reconciler.real.company import SCHEMA, Company, sign_in

HEAD = "apiVersion: zonewright/v1\n"
POLICY = f'{HEAD}kind: Policy\nmetadata: {{zone: "{{zone}}", name: leavers}}\n'
CEDAR = '// who left\nforbid (\n  principal in Group::"leavers",\n  action,\n  resource\n);\n'
NAME = 'Group::"leavers"'


def refused(company: Company) -> str:
    """What `zonectl plan` says on standard error; an apply is refused in the same words."""
    told = company.plan(expect=1).err
    assert "the server refuses the plan" in told
    (problem,) = json.loads(company.plan("--output", "json", expect=1).out)["problems"]
    assert f"{problem['path']}:{problem['line']}:{problem['column']}" in told
    return told


def in_a_file(company: Company, cedar: str, members: str = "") -> None:
    """The policy with its text in a file of its own."""
    company.write("leavers.yaml", f"{POLICY}spec:\n  cedar_file: leavers.cedar\n{members}")
    company.write("leavers.cedar", cedar)


def by_hand(company: Company) -> str:
    """A group that somebody makes; its address."""
    group = company.send("POST", company.collection("groups"), identifier="leavers", name="Leavers")
    return f"{company.collection('groups')}/{group['id']}"


def test_a_name_that_the_server_does_not_have(company: Company) -> None:
    """Git says that it is there; with it the same plan is taken, and every later plan looks again."""
    in_a_file(company, CEDAR, f"  external_names: ['{NAME}']\n")
    group = by_hand(company)
    company.apply()
    company.plan(expect=0)
    company.send("DELETE", group)
    told = company.plan(expect=1).err
    assert "leavers.cedar:3:16: Policy `leavers`" in told
    assert "names Group `leavers`, which does not exist on the server" in told


@pytest.mark.parametrize("where", ["file", "manifest"])
def test_what_only_the_engine_knows(company: Company, where: str) -> None:
    """A number is no set: the place is that of the text, wherever it stands."""
    cedar = "permit (principal, action, resource)\nwhen {\n  1.contains(2)\n};\n"
    if where == "file":
        in_a_file(company, cedar)
        assert "leavers.cedar:3:3: error: Policy" in refused(company)
    else:
        block = "".join(f"    {line}\n" for line in cedar.splitlines())
        company.write("leavers.yaml", f"{POLICY}spec:\n  cedar: |\n{block}")
        assert "leavers.yaml:8:7: error: Policy" in refused(company)
    assert "expected Set" in refused(company)


def test_absent_on_purpose(company: Company) -> None:
    """A policy can come before the group; when the manifest no longer says so, it is refused."""
    in_a_file(company, CEDAR, f"  absent_names: ['{NAME}']\n")
    company.apply()
    company.plan(expect=0)
    in_a_file(company, CEDAR, f"  external_names: ['{NAME}']\n")
    assert "leavers.cedar:3:16" in company.plan(expect=1).err


def test_what_is_no_kind_of_git_is_looked_up_on_the_server(company: Company) -> None:
    """Users sign in, and git does not know them. All of the name is marked."""
    name = 'User::"ann@acme.example"'
    in_a_file(company, f"forbid (\n  principal == {name},\n  action, resource\n);\n")
    told = refused(company)
    assert "leavers.cedar:2:16: error: Policy" in told
    assert "the zone has no User `ann@acme.example`" in told
    assert f"2 |   principal == {name}," in told
    assert f"| {' ' * 15}{'^' * len(name)}" in told
    sign_in(company, company.zone_id, "ann")
    company.apply()
    company.plan(expect=0)


def test_a_group_that_a_policy_in_force_names_stays(company: Company) -> None:
    """Another owner's policy counts on it, and is told of."""
    company.write(
        "group.yaml", f'{HEAD}kind: Group\nmetadata: {{zone: "{{zone}}", name: leavers}}\nspec: {{name: L}}\n'
    )
    company.apply()
    policy = company.send("POST", company.collection("policies"), name="by hand")["id"]
    text = {"cedar_raw": CEDAR, "schema_version": SCHEMA}
    version = company.send("POST", f"{company.collection('policies')}/{policy}/versions", **text)["id"]
    entries = [{"policy_id": policy, "policy_version_id": version}]
    path = f"{company.collection('policy-sets')}"
    path += f"/{company.send('POST', path, name='by hand')['id']}/versions"
    made = company.send("POST", path, manifest={"entries": entries}, schema_version=SCHEMA)["id"]
    company.activate(f"{path}/{made}")
    (company.folder.path / "policies.yaml").unlink()
    company.apply()
    (company.folder.path / "group.yaml").unlink()
    told = company.plan(expect=1).err
    assert f"policy `by hand` is in force and names {NAME} (line 3, column 16 of its text)" in told


def in_force_by(company: Company, name: str, members: str = "") -> None:
    """The configuration's policies in force are one `forbid` that names that."""
    how = "==" if name.startswith("User") else "in"
    in_a_file(company, f"forbid (\n  principal {how} {name},\n  action, resource\n);\n", members)
    company.write("policies.yaml", SET)
    company.apply()


SET = f'{HEAD}kind: PolicySet\nmetadata: {{zone: "{{zone}}", name: main}}\nspec: {{policies: [leavers]}}\n'
ANN = 'User::"ann@acme.example"'


def ann(company: Company) -> str:
    """A user who has signed in; the address."""
    sign_in(company, company.zone_id, "ann")
    user = company.found("users", identifier="ann@acme.example")
    return f"{company.collection('users')}/{user['id']}"


@pytest.mark.parametrize("way", ["renamed", "deleted"])
def test_a_user_whom_a_policy_in_force_names_is_called_otherwise(company: Company, way: str) -> None:
    """While the user is there, neither has anything to say; then both say the same, until it is put right."""
    user = ann(company)
    in_force_by(company, ANN)
    assert "nothing to do" in company.plan(expect=0).out
    assert "no drift" in company.drift(expect=0)
    if way == "renamed":
        company.send("PATCH", user, identifier="robby@acme.example")
    else:
        company.send("DELETE", user)
    place = f"{company.folder.path / 'leavers.cedar'}:2:16"
    told = f"{ANN} of Policy {company.zone}/leavers ({place})"
    planned = company.plan(expect=0).out
    assert told in planned
    assert "nothing to do" in planned
    found = company.drift(expect=3)
    assert told in found
    assert "1 name in active policies that match no object" in found
    (one,) = company.drift_json()["missing_names"]
    expected = {"zone": company.zone, "name": ANN, "policy": "leavers", "place": "leavers.cedar:2:16"}
    assert one == {**expected, "managed": True}
    assert company.plan_json()["missing_names"] == [one]
    if way == "renamed":
        company.send("PATCH", user, identifier="ann@acme.example")
    else:
        in_force_by(company, ANN, f"  absent_names: ['{ANN}']\n")
    assert "missing_names" not in company.plan_json()
    assert "no drift" in company.drift(expect=0)


def test_a_group_by_hand_that_a_policy_in_force_names(company: Company) -> None:
    """It is renamed by hand, and the new name stands beside the old one."""
    group = by_hand(company)
    in_force_by(company, NAME, f"  external_names: ['{NAME}']\n")
    assert "no drift" in company.drift(expect=0)
    company.send("PATCH", group, identifier="leaver")
    company.write("leavers.yaml", company.folder_text("leavers.yaml").split("  external_names")[0])
    company.write("leavers.cedar", 'forbid (principal in Group::"leaver", action, resource);\n')
    company.write(
        "leavers.yaml", company.folder_text("leavers.yaml") + "  external_names: ['Group::\"leaver\"']\n"
    )
    assert "missing_names" not in company.plan_json(), "the plan takes the name out"


def test_another_name_of_gits_group_is_drift_and_no_more(company: Company) -> None:
    """An apply calls the group as before, so the name is not told besides."""
    company.write(
        "group.yaml", f'{HEAD}kind: Group\nmetadata: {{zone: "{{zone}}", name: leavers}}\nspec: {{name: L}}\n'
    )
    in_force_by(company, NAME)
    group = company.found("groups", identifier="leavers")["id"]
    company.send("PATCH", f"{company.collection('groups')}/{group}", identifier="left")
    told = company.drift_json()
    assert [each["name"] for each in told["drift"]] == ["leavers"]
    assert "missing_names" not in told


def test_a_name_that_may_be_absent_is_not_missed(company: Company) -> None:
    """The policy says so; without that the same name is told of."""
    in_force_by(company, ANN, f"  absent_names: ['{ANN}']\n")
    assert "no drift" in company.drift(expect=0)
    assert "missing_names" not in company.plan_json()

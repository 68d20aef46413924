"""Names in policies against a real server: what only it knows is told at the line of the `.cedar` file."""

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
    assert "names Group `leavers`, which the server does not have" in told


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

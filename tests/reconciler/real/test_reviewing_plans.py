"""docs/reviewing-plans.md: each change is made against a real server, and the page shows the real output.

With WRITE_TABLES=1 the tests write what they saw into docs/reviewing-plans.md, for a review to look at.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.real.company import COMPANY, Company, sign_in
from tests.support.factories import company_of
from tests.support.scene import Scene
from tests.support.tables import WRITE, write_part

from runtime.domain.kinds import APPLICATION, GROUP, RESOURCE, ZONE
from runtime.services.container import Services
from runtime.storage.sql import entities

PAGE = Path(__file__).parents[3] / "docs" / "reviewing-plans.md"
HEAD = "apiVersion: zonewright/v1\n"
MEMBERS = [f"user-{number}@acme.example" for number in range(61)]
CONTRACTORS = (
    f'{HEAD}kind: Group\nmetadata: {{zone: "{{zone}}", name: contractors}}\nspec: {{name: Contractors}}\n'
)
GRANT = (
    f'---\n{HEAD}kind: RoleAssignment\nmetadata: {{zone: "{{zone}}", name: grant}}\n'
    "spec: {role: auditor, principal: {group: on-call}}\n"
)
GUARD = 'forbid (principal in Group::"contractors", action, resource);\n'
CEDAR = (
    '@id("payroll")\n'
    "permit (\n"
    '  principal in Group::"staff",\n'
    '  action == Action::"exchange",\n'
    '  resource == Resource::"https://payroll.example"\n'
    ")\n"
    "when {\n"
    '  context.scopes == ["read"]\n'
    "};\n"
    "\n"
    '@id("no-contractors")\n'
    "forbid (\n"
    "  principal,\n"
    '  action == Action::"exchange",\n'
    '  resource == Resource::"https://payroll.example"\n'
    ")\n"
    'when { principal in Group::"contractors" };\n'
)


PAYROLL = (
    '@id("staff-only")\n'
    'forbid (principal is User, action, resource == Resource::"https://payroll.example")\n'
    'unless { principal in Group::"staff" };\n'
    "\n"
    '@id("agents-read")\n'
    'forbid (principal is Application, action, resource == Resource::"https://payroll.example")\n'
    'when { context.scopes.contains("write") };\n'
)


def group(*members: str) -> str:
    """The manifest of a group."""
    listed = "".join(f"    - {each}\n" for each in members)
    head = f'{HEAD}kind: Group\nmetadata: {{zone: "{{zone}}", name: everybody}}\n'
    return f"{head}spec:\n  name: Everybody\n  members:\n{listed}"


def credential(type_: str) -> str:
    """The manifest of a credential."""
    return (
        f'{HEAD}kind: ApplicationCredential\nmetadata: {{zone: "{{zone}}", name: agent-key}}\n'
        f"spec: {{application: agent, type: {type_}}}\n"
    )


def compare(company: Company, name: str, done: Result, exit_code: int) -> None:
    """Hold what a command printed against the page; or write it there."""
    assert done.exit_code == exit_code, done
    text = f"{done.out}{done.err}".replace(str(company.folder), "config").replace(company.zone, "product")
    text = text.replace(f"{company.folder.path.parent}/", "")
    text = re.sub(r"by api_key \w+ at \S+", "by api_key k7d2m4 at 2026-11-22T10:15:00.000Z", text)
    text = re.sub(r" in changeset \w+", " in changeset c4n8s2", text)
    text = re.sub(r"(once,|last) on [\d-]{10}", _dated, text)
    text = re.sub(r"\n  digest sha256:\w+ \(owner [^\n]+", "", text)
    part = f"```text\n{text.rstrip()}\n```\n"
    if os.environ.get(WRITE):
        write_part(PAGE, name, part)
    assert part in PAGE.read_text("utf-8")


def _dated(found: re.Match[str]) -> str:
    return f"{found[0][:-10]}2026-11-21"


def rotation(company: Company) -> Result:
    """Another version of the same secret."""
    company.write("rest.yaml", COMPANY["rest.yaml"].replace('version: "1"', 'version: "2"'))
    return company.plan(expect=2)


def policy(company: Company) -> Result:
    """Two edits of a text in a file of its own, which decides."""
    company.write(
        "payroll.yaml",
        f'{HEAD}kind: Policy\nmetadata: {{zone: "{{zone}}", name: payroll}}\n'
        "spec: {cedar_file: payroll.cedar}\n",
    )
    company.write("payroll.cedar", CEDAR)
    company.write("policies.yaml", COMPANY["policies.yaml"].replace("[reading]", "[reading, payroll]"))
    company.apply()
    after = CEDAR.replace('["read"]', '["read", "write"]').replace(
        'principal in Group::"contractors"', "false"
    )
    company.write("payroll.cedar", after)
    return company.plan(expect=2)


def list_edit(company: Company) -> Result:
    """One member goes, another one comes."""
    company.write("everybody.yaml", group(*MEMBERS))
    company.apply()
    company.write("everybody.yaml", group(*MEMBERS[:41], *MEMBERS[42:], "mallory@evil.example"))
    return company.plan(expect=2)


def replacement(company: Company) -> Result:
    """What is fixed at creation changes."""
    company.write("key.yaml", credential("password"))
    company.apply("--secrets-dir", f"{company.folder}-secrets")
    company.write("key.yaml", credential("public"))
    return company.zonectl("plan", company.folder, "--allow-env", "CORP_SECRET")


def zone(company: Company) -> Result:
    """A zone leaves git, in which somebody has made something by hand."""
    company.write("shop.yaml", f"{HEAD}kind: Zone\nmetadata: {{name: {{zone}}-shop}}\nspec: {{name: Shop}}\n")
    company.apply()
    found = company.client.get("/zones", params={"limit": 100}).json()["items"]
    shop = next(each["id"] for each in found if each["name"] == "Shop")
    sign_in(company, shop, "ann", "bob")
    company.send("POST", f"/zones/{shop}/groups", identifier="by-hand", name="By hand")
    (company.folder.path / "shop.yaml").unlink()
    return company.zonectl("plan", company.folder, "--allow-env", "CORP_SECRET")


def widened(company: Company) -> Result:
    """A group that a policy in force names is emptied; no policy changes."""
    company.write("contractors.yaml", called_contractors("ann@acme.example", "bob@acme.example"))
    company.write("rest.yaml", COMPANY["rest.yaml"].replace(f"---\n{CONTRACTORS}", ""))
    text = "cedar: 'permit(principal, action, resource);'"
    company.write("policies.yaml", COMPANY["policies.yaml"].replace(text, "cedar_file: reading.cedar"))
    company.write("reading.cedar", f"permit (principal, action, resource);\n{GUARD}")
    company.apply()
    company.write("contractors.yaml", called_contractors())
    return company.plan(expect=2)


def called_contractors(*members: str) -> str:
    """The group of that name with these members."""
    return CONTRACTORS.replace("name: Contractors", f"name: Contractors, members: [{', '.join(members)}]")


def decisions(company: Company) -> Result:
    """Rules that would have refused some of what was asked for."""
    consent = "description: Answers mail\n  consent: implicit"
    company.write("rest.yaml", COMPANY["rest.yaml"].replace("description: Answers mail", consent))
    company.apply()
    exchange(company)
    company.write("payroll.cedar", PAYROLL)
    head = f'{HEAD}kind: Policy\nmetadata: {{zone: "{{zone}}", name: payroll}}\n'
    company.write("payroll.yaml", f"{head}spec: {{cedar_file: payroll.cedar}}\n")
    company.write("policies.yaml", COMPANY["policies.yaml"].replace("[reading]", "[reading, payroll]"))
    return company.plan(expect=2)


def exchange(company: Company) -> None:
    """Ann, who is of the staff, and Bob, who is not, use the agent, and the agent itself asks for a token."""

    async def ask(parts: Services) -> None:
        here, scopes = company_of(company.server), ("read", "write")
        async with parts.database.reading() as conn:
            (zone,) = [
                each async for each in entities.all_of(conn, ZONE, within={}) if each.name == company.zone
            ]
            within = {"zone_id": zone.id}
            application = await entities.find_by(conn, APPLICATION, "identifier", "agent", within=within)
            payroll = await entities.find_by(conn, RESOURCE, "name", "Payroll", within=within)
            staff = await entities.find_by(conn, GROUP, "identifier", "staff", within=within)
        assert application is not None
        assert payroll is not None
        assert staff is not None
        agent = await here.credential(zone, application)
        scene = Scene(here, zone)
        for name, times in (("ann", 3), ("bob", 2)):
            person = await here.person(zone, f"{name}@acme.example")
            if name == "ann":
                await here.join(zone, staff, person.user)
            await here.grant(zone, person.user, payroll, scopes)
            for _ in range(times):
                await scene.exchange(agent, await here.token(zone, agent, person), payroll)
        own = {"grant_type": "client_credentials", "resource": payroll.identifier, **agent.form}
        await scene.post(list(own.items()))
        await parts.decisions.flush()

    company.server.call(ask)


def deactivated(company: Company) -> Result:
    """The policy set that decides is to decide no longer."""
    company.write("policies.yaml", COMPANY["policies.yaml"].replace("[reading]", "[reading], active: false"))
    return company.plan(expect=2)


def first_set(company: Company) -> Result:
    """A zone that has no policy set of its own gets one."""
    (company.folder.path / "policies.yaml").unlink()
    company.apply("--consent", "deletes=2")
    company.write("policies.yaml", COMPANY["policies.yaml"])
    return company.plan(expect=2)


def guarded(company: Company) -> None:
    """Two policies decide, of which one forbids."""
    policy = f'{HEAD}kind: Policy\nmetadata: {{zone: "{{zone}}", name: no-contractors}}\n'
    company.write("no-contractors.yaml", f"{policy}spec: {{cedar_file: no-contractors.cedar}}\n")
    company.write("no-contractors.cedar", GUARD)
    company.write("policies.yaml", COMPANY["policies.yaml"].replace("[reading]", "[reading, no-contractors]"))
    company.apply()


def taken_out(company: Company) -> Result:
    """Of two policies that decide, the one that forbids is left out from now on."""
    guarded(company)
    company.write("policies.yaml", COMPANY["policies.yaml"])
    return company.plan(expect=2)


def displaced(company: Company) -> Result:
    """Somebody lets the policies decide again that the zone began with."""
    guarded(company)
    company.activate(company.platform_version())
    return company.zonectl("drift", company.folder)


def in_force(company: Company) -> Result:
    """The newest version of the set is not the one that decides."""
    from tests.reconciler.real.test_drift import lets_an_older_text_decide

    lets_an_older_text_decide(company)
    return company.plan(expect=3)


def give_up(company: Company) -> None:
    """Let the configuration say that it manages a group no longer."""
    company.write("rest.yaml", COMPANY["rest.yaml"].replace(f"---\n{CONTRACTORS}", ""))
    company.write("contractors.yaml", f"{CONTRACTORS}lifecycle: {{release: true}}\n")


def swap(company: Company) -> Result:
    """Two groups exchange their names in git, and what they are called; a grant names one of them."""
    company.write("groups.yaml", called("on-call", "standby") + GRANT)
    company.apply()
    company.write("groups.yaml", called("standby", "on-call", was=("on-call", "standby")) + GRANT)
    return company.plan(expect=2)


def called(*names: str, was: Sequence[str] = ("", "")) -> str:
    """Two groups of these names, and those they had before."""
    manifests = []
    for name, before, city in zip(names, was, ("berlin", "lisbon"), strict=True):
        head = f'{HEAD}kind: Group\nmetadata: {{zone: "{{zone}}", name: {name}}}\n'
        lifecycle = f"lifecycle: {{previous_names: [{before}]}}\n" if before else ""
        spec = f"spec: {{name: {city.title()}, members: [{city}@acme.example]}}\n"
        manifests.append(f"{head}{lifecycle}{spec}")
    return "---\n".join(manifests)


def unmanaged(company: Company) -> Result:
    """Somebody has given a group a role."""
    role = company.found("roles", identifier="auditor")["id"]
    group = company.path("groups", identifier="contractors")
    company.send("POST", f"{group}/roles", role_id=role)
    return company.zonectl("drift", company.folder)


def release(company: Company) -> Result:
    """One configuration lets go of an object."""
    give_up(company)
    return company.plan(expect=2)


def adopt(company: Company) -> Result:
    """Another one takes it up: refused as long as it is the first one's."""
    other = Folder(company.folder.path.parent / "partners")
    other.write("zonectl.yaml", f"owner: partners/{company.zone}\nzones: [{company.zone}]\n")
    other.write("contractors.yaml", CONTRACTORS.replace("{zone}", company.zone))
    refused = company.zonectl("plan", other)
    assert refused.exit_code == 5
    assert f"belongs to the configuration `acme/{company.zone}`" in f"{refused.out}{refused.err}"
    give_up(company)
    company.apply()
    return company.zonectl("plan", other)


def symlink(company: Company) -> Result:
    """A link to where the operator's own files are."""
    outside = company.folder.path.parent / "outside.yaml"
    outside.write_text("kind: Secret\n")
    (company.folder.path / "roles.yaml").symlink_to("../outside.yaml")
    (company.folder.path / ".git").mkdir()
    return company.plan(expect=1)


CHANGES: dict[str, tuple[Callable[[Company], Result], int]] = {
    "rotation": (rotation, 2),
    "policy": (policy, 2),
    "list": (list_edit, 2),
    "replacement": (replacement, 2),
    "zone": (zone, 5),
    "swap": (swap, 2),
    "widened": (widened, 2),
    "decisions": (decisions, 2),
    "deciding": (deactivated, 2),
    "first-set": (first_set, 2),
    "taken-out": (taken_out, 2),
    "displaced": (displaced, 3),
    "in-force": (in_force, 3),
    "unmanaged": (unmanaged, 3),
    "release": (release, 2),
    "adopt": (adopt, 2),
    "symlink": (symlink, 1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_page_shows_what_is_printed(company: Company, name: str) -> None:
    """What a reviewer reads there is what they will see, on either database."""
    change, exit_code = CHANGES[name]
    compare(company, name, change(company), exit_code)


def test_the_page_has_no_other_parts() -> None:
    """Nothing on it was written by hand."""
    assert re.findall(r"<!-- /([\w-]+) -->", PAGE.read_text("utf-8")) == list(CHANGES)

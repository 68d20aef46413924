"""`zonectl decisions` against a real server: why a client was refused, as text and as JSON."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.real.company import COMPANY, Company

from runtime.services.container import Services

POLICIES = COMPANY["policies.yaml"]
CHANGED = POLICIES.replace("{cedar:", "{description: Who reads, cedar:")


@dataclass
class Asked:
    """A configuration whose application has asked for a token: once in vain, once with success.

    Attributes:
        refused, issued: the ids of the two requests.
        forbids: line of the manifest with the policy that decides.
    """

    company: Company
    refused: str
    issued: str

    def show(self, *options: str, expect: int = 0) -> Result:
        """`zonectl decisions`, which has to exit with that."""
        done = self.company.zonectl("decisions", "--zone", self.company.zone, *options)
        assert done.exit_code == expect, done
        return done

    def json(self, *options: str) -> list[dict[str, Any]]:
        told = json.loads(self.show(*options, "--output", "json").out)
        assert told["format"] == "zonewright/decisions/v1"
        found: list[dict[str, Any]] = told["decisions"]
        return found


@pytest.fixture
def asked(company: Company) -> Asked:
    zone = company.client.get("/zones", params={"slug": company.zone}).json()["items"][0]
    (agent,) = company.client.get(
        f"/zones/{zone['id']}/applications", params={"filter[identifier]": "agent"}
    ).json()["items"]
    made = company.client.post(
        f"/zones/{zone['id']}/application-credentials",
        json={"type": "password", "application_id": agent["id"]},
    ).json()
    ids = []
    for resource in ("https://elsewhere.example", "https://payroll.example"):
        form = {"grant_type": "client_credentials", "resource": resource}
        answer = httpx.post(
            zone["protocols"]["oauth2"]["token_endpoint"],
            data=form,
            auth=(made["identifier"], made["password"]),
            trust_env=False,
        )
        ids.append(answer.headers["X-Request-ID"])

    async def write(services: Services) -> None:
        await services.decisions.flush()

    company.server.call(write)
    return Asked(company, *ids)


def test_a_request_id_leads_to_the_reason(asked: Asked) -> None:
    """The text says who asked, the error that the client got, and the reason that it did not get."""
    said = asked.show("--request", asked.refused).out

    assert (
        "client_credentials  refused  invalid_target\n    reason: unknown resource `https://elsewhere.example`\n"
        in said
    )
    assert "    application: agent\n" in said
    assert f"    request: {asked.refused}\n" in said


def test_an_issued_token_names_the_policy(asked: Asked) -> None:
    """The rule that permitted it is told with its policy."""
    said = asked.show("--request", asked.issued).out

    assert "client_credentials  issued\n" in said
    assert "    resource: https://payroll.example\n" in said
    assert "    permitted by: policy `reading`, rule 1 (policies.yaml:1)" in said


def test_names_select_as_ids_do(asked: Asked) -> None:
    """An application and a resource are named by identifier, or as their manifests are."""
    by_identifier = asked.json("--application", "agent", "--resource", "https://payroll.example")
    by_manifest = asked.json("--application", "agent", "--resource", "payroll")

    assert [each["request_id"] for each in by_identifier] == [asked.issued]
    assert by_manifest == by_identifier


def test_outcomes_select(asked: Asked) -> None:
    """`--outcome refused` leaves out what was issued."""
    assert [each["request_id"] for each in asked.json("--outcome", "refused")] == [asked.refused]


def test_the_limit_is_said(asked: Asked) -> None:
    """Where there may be more than is shown, the last line says so."""
    lines = asked.show("--limit", "1").out.splitlines()

    assert lines[-1] == "the newest 1 record; `--limit` shows more"


def test_nothing_found_is_said_and_no_failure(asked: Asked) -> None:
    """A request id that no record has: exit code 0, and a line that says for how long records are kept."""
    assert asked.show("--request", "nothing").out.startswith("no decision matches; ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--user", "nobody"), "`--user nobody`: there is no user `nobody` in the zone"),
        (("--application", "agnt"), "`--application agnt`: there is no application `agnt` in the zone"),
        (("--resource", "payrol"), "`--resource payrol`: there is no resource `payrol` in the zone"),
        (("--since", "yesterday"), "`since`: must be an RFC 3339 time"),
    ],
)
def test_what_cannot_be_asked_is_said(asked: Asked, options: tuple[str, ...], said: str) -> None:
    """A name that nothing has, and a time that is none: exit code 1, and the value is said."""
    assert said in asked.show(*options, expect=1).err


@pytest.mark.parametrize("option", ["event", "outcome"])
def test_an_unknown_event_or_outcome_is_a_usage_error_with_the_known_ones(asked: Asked, option: str) -> None:
    """Exit code 64: nothing is found by a misspelt word, and that would look like good news."""
    known = {"event": "`client_credentials`", "outcome": "`refused`"}[option]
    assert asked.json(f"--{option}", known.strip("`"))

    said = asked.show(f"--{option}", "refuzed", expect=64).err

    assert f"`--{option}` must be one of" in said
    assert known in said


def test_an_unknown_zone_is_answered_with_those_that_are(
    asked: Asked, zonectl: Callable[..., Result]
) -> None:
    """The message lists the slugs that the credential can read, since manifests may call a zone otherwise."""
    done = zonectl("decisions", "--zone", "nowhere")

    assert done.exit_code == 1
    assert "`--zone nowhere`: no zone has this id, slug or manifest name" in done.err
    assert "give the slug" in done.err
    assert f"`{asked.company.zone}`" in done.err


def test_a_zone_is_named_as_its_manifest(company: Company) -> None:
    """The ownership record has that name; it is not the slug, which the server makes of the zone's name."""
    company.folder.write(
        "desk.yaml",
        "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: desk}\nspec: {name: Help desk}\n",
    )
    applied = company.apply().out
    (desk,) = [each for each in company.client.get("/zones").json()["items"] if each["name"] == "Help desk"]
    issuer = desk["protocols"]["oauth2"]["issuer"]

    assert f"zone desk: slug {desk['slug']}, issuer {issuer}\n" in applied
    assert desk["slug"] != "desk"
    assert company.zonectl("decisions", "--zone", "desk").exit_code == 0


def test_a_secret_goes_to_no_zone_that_is_named_by_a_manifest(company: Company) -> None:
    """Whoever may commit to some configuration would choose the zone that a mistyped slug names."""
    company.folder.write(
        "till.yaml", "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: till}\nspec: {name: Cash}\n"
    )
    company.apply()
    (till,) = [each for each in company.client.get("/zones").json()["items"] if each["name"] == "Cash"]
    assert company.zonectl("secret", "list", "--zone", till["slug"]).exit_code == 0

    done = company.zonectl("secret", "list", "--zone", "till")

    assert done.exit_code == 1
    assert f"`--zone till` is a manifest's name; give the slug: `{till['slug']}`" in done.err


def test_a_zone_of_one_name_in_two_configurations_needs_its_slug(company: Company, tmp_path: Path) -> None:
    """Which one is meant, nobody knows."""
    slugs = []
    for owner in ("one", "two"):
        other = Folder(tmp_path / owner)
        other.write("zonectl.yaml", f"owner: {owner}\n")
        text = (
            f"apiVersion: zonewright/v1\nkind: Zone\nmetadata: {{name: desk}}\nspec: {{name: Desk {owner}}}\n"
        )
        other.write("zone.yaml", text)
        receipt = json.loads(company.zonectl("apply", other, "--yes", "--output", "json").out)
        slugs += [each["slug"] for each in receipt["zones"]]
    done = company.zonectl("decisions", "--zone", "desk")

    assert done.exit_code == 1
    assert "`--zone desk`: several zones have this manifest name" in done.err
    assert all(f"`{slug}`" in done.err for slug in slugs)


def explain(company: Company, resource: str, *options: str, expect: int) -> Result:
    """`zonectl explain` of what the agent would get for Ann."""
    who = ("--application", "agent", "--resource", resource, "--user", "ann@acme.example")
    done = company.zonectl("explain", "--zone", company.zone, *who, *options)
    assert done.exit_code == expect, done
    return done


def test_a_manifest_name_names_the_resource(staffed: Company) -> None:
    """What a person has in git, in place of the URL."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")

    said = explain(staffed, "payroll", expect=0).out

    assert "gets `https://payroll.example` for `ann@acme.example`" in said.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--user", "eve@acme.example"), "there is no user `eve@acme.example` in the zone"),
        (("--application", "agnt"), "there is no application `agnt` in the zone"),
        (("--resource", "https://payrol.example"), "there is no resource `https://payrol.example` in"),
        (("--via", "gatway"), "there is no application `gatway` in the zone"),
    ],
)
def test_a_misspelt_name_is_a_failure_and_no_refusal(
    staffed: Company, options: tuple[str, ...], said: str
) -> None:
    """Exit code 1: a script that expects a refusal (5) does not take a misspelt name for one."""
    explain(staffed, "https://payroll.example", expect=5)
    asked = {"--application": "agent", "--resource": "payroll", "--user": "ann@acme.example"}
    asked[options[0]] = options[1]
    line = ["--zone", staffed.zone, *(part for option in asked.items() for part in option)]

    failed = staffed.zonectl("explain", *line)
    document = json.loads(staffed.zonectl("explain", *line, "--output", "json").out)

    assert (failed.exit_code, failed.out) == (1, "")
    assert f"error: `{options[0]} {options[1]}`: {said}" in failed.err
    jsonschema_rs.validator_for(json.loads(PUBLISHED.read_text())).validate(document)
    assert [(f"--{each['member']}", each["name"]) for each in document["unresolved"]] == [options]


PUBLISHED = Path(__file__).parents[3] / "schemas/output/explanation.json"


@pytest.mark.parametrize("resource", ["https://payroll.example", "https://more.example"])
@pytest.mark.parametrize("user", [("--user", "ann@acme.example"), ()], ids=["user", "own"])
def test_an_explanation_is_as_its_schema_says(staffed: Company, resource: str, user: tuple[str, ...]) -> None:
    """Allowed and refused, for a user's token and for one of the application's own."""
    of = ("--zone", staffed.zone, "--application", "agent", "--resource", resource, *user)

    told = json.loads(staffed.zonectl("explain", *of, "--output", "json").out)

    jsonschema_rs.validator_for(json.loads(PUBLISHED.read_text())).validate(told)


@pytest.fixture
def staffed(company: Company) -> Company:
    """The configuration, with a credential of the agent and somebody who has signed in."""
    company.user("ann@acme.example")
    company.send(
        "POST",
        company.collection("application-credentials"),
        type="password",
        application_id=company.found("applications", identifier="agent")["id"],
    )
    return company


def test_a_refusal_is_explained_step_by_step(staffed: Company) -> None:
    """The answer first, each step with what it came to, and what would mend it; exit code 5."""
    said = explain(staffed, "https://payroll.example", expect=5).out

    assert said.splitlines()[0] == (
        "refused: `agent` does not get `https://payroll.example` for `ann@acme.example`: access_denied"
    )
    assert "   8  dependency  ok" in said
    assert "   9  consent     refused  the user has not consented" in said
    assert "  11  policy      not reached" in said
    assert "  to fix: the user has to consent to `agent` for `https://payroll.example`" in said


def test_a_missing_consent_does_not_hide_that_a_policy_forbids_it(staffed: Company) -> None:
    """Both are shown, with the place of the rule and what mends each."""
    forbids = "forbid(principal, action, resource);"
    staffed.write("policies.yaml", POLICIES.replace("cedar: '", f"cedar: '{forbids} "))
    staffed.apply()

    said = explain(staffed, "https://payroll.example", expect=5).out

    assert said.splitlines()[0].endswith("access_denied")
    assert "   9  consent     refused  the user has not consented" in said
    assert "  11  policy      would also be refused  policy_denied" in said
    assert "  forbidden by: policy `reading`, rule 1 (policies.yaml:1)" in said
    assert said.count("  to fix: ") == 2


def test_what_is_allowed_names_scopes_and_policy(staffed: Company) -> None:
    """Exit code 0; the rule that permits it is named with its policy."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")

    said = explain(staffed, "https://payroll.example", expect=0).out

    first = "allowed: `agent` gets `https://payroll.example` for `ann@acme.example` with `read write`"
    assert said.splitlines()[0] == first
    assert "  permitted by: policy `reading`, rule 1 (policies.yaml:1)" in said


def test_the_policy_is_shown_where_it_was_applied_from(staffed: Company) -> None:
    """File, line and commit of the last apply, without the manifests at hand: on the line, and as JSON."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")
    git(staffed, "init", "-q")
    commit = committed(staffed, "policies.yaml", f"# who may read\n{CHANGED}")
    staffed.apply()

    said = explain(staffed, "https://payroll.example", expect=0).out
    assert f"policy `reading`, rule 1 (policies.yaml:2@{commit[:12]})" in said
    told = json.loads(explain(staffed, "https://payroll.example", "--output", "json", expect=0).out)
    source = told["hops"][0]["policies"][0]["source"]
    assert (source["file"], source["line"], source["commit"]) == ("policies.yaml", 2, commit)


def test_a_line_that_moves_alone_changes_nothing(staffed: Company) -> None:
    """No plan, no revision: the record keeps the line of its commit until the object is written again."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")
    staffed.apply()
    before = staffed.plan_json()["base_revision"]
    staffed.write("policies.yaml", f"# one line more\n{POLICIES}")
    staffed.plan(expect=0)
    staffed.apply()

    assert staffed.plan_json()["base_revision"] == before
    assert "(policies.yaml:1)" in explain(staffed, "https://payroll.example", expect=0).out

    staffed.write("policies.yaml", f"# one line more\n{CHANGED}")
    staffed.apply()
    assert "(policies.yaml:2)" in explain(staffed, "https://payroll.example", expect=0).out


def test_a_remedy_says_where_the_manifest_is(staffed: Company) -> None:
    """Of the application that lacks the dependency, as its ownership record has it."""
    staffed.write("more.yaml", RESOURCE)
    staffed.apply()

    said = explain(staffed, "https://more.example", expect=5).out
    line = COMPANY["rest.yaml"].partition("name: agent}")[0].count("\n") - 1
    assert f"add `https://more.example` to the dependencies of `agent` (rest.yaml:{line})" in said


RESOURCE = """apiVersion: zonewright/v1
kind: Resource
metadata: {zone: "{zone}", name: more}
spec: {name: More, identifier: "https://more.example"}
"""


def git(company: Company, *arguments: str) -> str:
    """Run git in the configuration's folder."""
    command = ["git", "-C", str(company.folder), "-c", "user.name=a", "-c", "user.email=a@acme.example"]
    return subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def committed(company: Company, name: str, text: str) -> str:
    """Write a file, and commit all; the commit."""
    company.write(name, text)
    git(company, "add", "-A")
    git(company, "commit", "-q", "-m", "change")
    return git(company, "rev-parse", "HEAD")


def test_scopes_are_those_that_are_asked_for(staffed: Company) -> None:
    """`--scope` narrows the question."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")

    told = json.loads(
        explain(staffed, "https://payroll.example", "--scope", "read", "--output", "json", expect=0).out
    )

    assert told["format"] == "zonewright/explanation/v1"
    assert told["hops"][0]["scopes"] == ["read"]
    assert told["session"] is None


def test_a_chain_is_told_hop_by_hop(staffed: Company) -> None:
    """Each application that the token comes through has an exchange of its own, up to the first refusal.

    The first line is about the application that asks last, and names the chain.
    """
    asked = "https://payroll.example", "--via", "agent"
    told = json.loads(explain(staffed, *asked, "--output", "json", expect=5).out)

    assert [hop["application"] for hop in told["hops"]] == ["agent"]
    assert told["hops"][0]["remedies"] == ["set `application` of a resource to `agent`"]
    first, _, heading, *_ = explain(staffed, *asked, expect=5).out.splitlines()
    assert first == (
        "refused: `agent` does not get `https://payroll.example` for `ann@acme.example` through `agent`:"
        " `agent` provides no resource, so no token can be issued for it, in the exchange of `agent`"
    )
    assert heading == "agent -> ?"


def test_without_a_user_a_token_of_its_own_is_explained(staffed: Company) -> None:
    """What client credentials would be answered; a chain of applications needs a user (exit code 64)."""
    who = ("--zone", staffed.zone, "--application", "agent", "--resource", "https://payroll.example")

    done = staffed.zonectl("explain", *who)

    assert done.exit_code == 0, done
    assert done.out.splitlines()[0] == (
        "allowed: `agent` gets `https://payroll.example` for itself with `read write`"
    )
    assert "session" not in done.out
    chained = staffed.zonectl("explain", *who, "--via", "agent")
    assert chained.exit_code == 64
    assert "`--via` needs `--user`" in chained.err


def test_scopes_that_a_policy_leaves_out_are_shown_with_its_place(staffed: Company) -> None:
    """The exchange is allowed with the rest; what is missing is said, and by which rule."""
    staffed.send("PATCH", staffed.path("applications", identifier="agent"), consent="implicit")
    forbids = 'forbid(principal, action, resource) when { context.scopes.contains("write") };'
    staffed.write("policies.yaml", POLICIES.replace("cedar: '", f"cedar: '{forbids} "))
    staffed.apply()

    said = explain(staffed, "https://payroll.example", expect=0).out

    assert "with `read`" in said.splitlines()[0]
    assert "  left out: `write`, forbidden by policy `reading`, rule 1 (policies.yaml:1)" in said

"""Deletions against a real server: cascades are shown, and objects in use need consent."""

import json
from datetime import timedelta

import pytest
from tests.reconciler.real.company import Company, sign_in

from runtime.domain.identifiers import new_id
from runtime.services.container import Services
from runtime.services.decision_log import Decision

HEAD = "apiVersion: zonewright/v1\n"
KEY = (
    f'{HEAD}kind: ApplicationCredential\nmetadata: {{zone: "{{zone}}", name: agent-second}}\n'
    "spec: {application: agent, type: public}\n"
)


def gets_a_token(company: Company) -> None:
    """The application `agent` gets a token."""
    application_id = company.found("applications", name="Agent")["id"]
    zone_id, organization_id = company.zone_id, company.server.organization_id

    async def record(parts: Services) -> None:
        decision = Decision(organization_id, zone_id, parts.clock() - timedelta(days=2), new_id())
        decision.application_id = application_id
        decision.issue()
        parts.decisions.record(decision)
        await parts.decisions.flush()

    company.server.call(record)


@pytest.fixture
def without_key(company: Company) -> Company:
    """A configuration whose second credential has left git."""
    company.write("key.yaml", KEY)
    company.apply()
    (company.folder.path / "key.yaml").unlink()
    return company


def test_an_unused_credential_goes_within_the_budget(without_key: Company) -> None:
    """Nobody is locked out."""
    assert "in use" not in without_key.plan(expect=2).out
    without_key.apply()


@pytest.mark.parametrize("how", ["apply", "expect", "saved"])
def test_a_used_credential_goes_with_consent_alone(
    without_key: Company, how: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whichever way it is applied; the budget would allow it."""
    company = without_key
    gets_a_token(company)
    saved = tmp_path_factory.mktemp("saved") / "plan.json"
    planned = company.plan("--out", str(saved), expect=5).out
    assert "in use: it was used within the last thirty days" in planned

    def applied(*options: str, expect: int) -> str:
        if how == "saved":
            done = company.zonectl("apply", saved, "--root", company.folder, *options)
            assert done.exit_code == expect, done
            return done.out + done.err
        more = ("--expect", json.loads(saved.read_text())["digest"]) if how == "expect" else ()
        done = company.apply(*more, *options, expect=expect)
        return done.out + done.err

    assert "--consent in-use=1" in applied(expect=5)
    applied("--consent", "in-use=1", expect=0)
    company.plan(expect=0)


def test_a_zone_says_whom_it_takes_along(company: Company) -> None:
    """As text and as JSON; the digest stays when somebody else signs in."""
    zone_id = company.zone_id
    for file in company.folder.path.glob("*.yaml"):
        if file.name != "zonectl.yaml":
            file.unlink()
    company.write("other.yaml", f"{HEAD}kind: Zone\nmetadata: {{name: {{zone}}-b}}\nspec: {{name: B}}\n")
    sign_in(company, zone_id, "ann", "bob")
    assert "2 sessions" in company.plan(expect=5).out

    plans = []
    for name in ("cy", "dee"):
        sign_in(company, zone_id, name)
        plans.append(json.loads(company.zonectl("plan", company.folder, "--output", "json").out))
    users = [
        each["takes_along"]["users"]
        for plan in plans
        for each in plan["losses"]
        if each["object"].startswith("Zone ")
    ]
    assert users == [3, 4]
    assert plans[0]["digest"] == plans[1]["digest"]

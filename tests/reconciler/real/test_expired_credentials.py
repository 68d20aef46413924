"""Credentials that have expired by their manifests, and that the server does not have."""

import json

import pytest
from tests.reconciler.real.company import Company

OLD = """\
apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: "{zone}", name: agent-1}
spec: {application: agent, type: password, identifier: agent-secret, expires_at: "%s"}
"""
PAST, FUTURE = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z"
TITLE = "ApplicationCredential {zone}/agent-1"


@pytest.mark.parametrize(("expires_at", "left_out"), [(FUTURE, False), (PAST, True)])
def test_what_has_expired_is_left_out(company: Company, expires_at: str, left_out: bool) -> None:
    """A server that never had it needs no dead secret; one that ends later is created."""
    company.write("old.yaml", OLD % expires_at)
    document = company.plan_json()
    title = TITLE.replace("{zone}", company.zone)
    assert document.get("left_out", []) == [title] * left_out
    assert document["summary"] == ({} if left_out else {"create": 1})


def test_an_apply_says_so_and_goes_on(company: Company) -> None:
    """With the rest of the plan; and the next plan is empty."""
    company.write("old.yaml", OLD % PAST)
    company.write(
        "new.yaml",
        'apiVersion: zonewright/v1\nkind: Group\nmetadata: {zone: "{zone}", name: new}\nspec: {name: New}\n',
    )
    done = company.apply()
    title = TITLE.replace("{zone}", company.zone)
    assert f"note: {title} is not created, since it has expired already; remove its manifest" in done.out
    assert company.found("groups", identifier="new")
    assert [each for each in company.items("application-credentials") if each["type"] == "password"] == []
    told = company.plan(expect=0).out
    assert told.count("agent-1") == 1


def test_one_that_exists_stays_managed(company: Company, tmp_path_factory: pytest.TempPathFactory) -> None:
    """It was created before it expired: its manifest may stay, and deleting the manifest deletes it."""
    secrets = tmp_path_factory.mktemp("secrets")
    company.write("old.yaml", OLD % FUTURE)
    company.apply("--secrets-dir", str(secrets))
    company.folder.path.joinpath("old.yaml").unlink()
    assert json.loads(
        company.zonectl("plan", company.folder, "--allow-env", "CORP_SECRET", "--output", "json").out
    )["summary"] == {"delete": 1}

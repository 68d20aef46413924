"""Secrets rotated from git against a real server: what is planned, applied and refused on the way."""

import json
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.real.company import Company
from tests.support.jumping_clock import jumping

from reconciler import planning
from reconciler.commands import plan

CREDENTIAL = """apiVersion: zonewright/v1
kind: ApplicationCredential
metadata: {zone: "{zone}", name: NAME}
spec: {application: agent, type: password, identifier: agentMORE}
"""

_LATER = timedelta(hours=2)


class _Later(datetime):
    """What `zonectl` takes for the present when so much time has passed."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + _LATER


def in_git(company: Company, name: str, more: str = "") -> None:
    """Write the manifest of a secret of the agent."""
    company.write(f"{name}.yaml", CREDENTIAL.replace("NAME", name).replace("MORE", more))


def out_of_git(company: Company, name: str) -> None:
    (company.folder.path / f"{name}.yaml").unlink()


def at(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat(timespec="seconds")


@pytest.fixture
def secrets(tmp_path: Path) -> str:
    return str(tmp_path / "secrets")


@pytest.fixture
def rotated(company: Company, secrets: str) -> Company:
    """A company whose agent has two secrets from git."""
    for name in ("one", "two"):
        in_git(company, name)
        company.apply("--secrets-dir", secrets)
    return company


def credentials(company: Company) -> list[dict[str, Any]]:
    """What the server has of the agent's secrets."""
    found = company.client.get(company.collection("application-credentials")).json()["items"]
    return [each for each in found if each["identifier"] == "agent"]


def test_a_second_manifest_with_the_client_id_is_a_second_secret(rotated: Company) -> None:
    """Applied, there is nothing more to do, and each has a secret of its own."""
    assert len({each["id"] for each in credentials(rotated)}) == 2
    rotated.plan(expect=0)


def test_both_secrets_in_one_apply(company: Company, secrets: str) -> None:
    """The first apply of a zone may bring both."""
    in_git(company, "one")
    in_git(company, "two")
    company.apply("--secrets-dir", secrets)

    assert len(credentials(company)) == 2


def test_the_end_of_a_secret_is_an_update_of_one_member(rotated: Company) -> None:
    """Nothing is replaced; applied with an offset, it is not planned again."""
    end = (datetime.now(UTC) + timedelta(days=30)).isoformat(timespec="seconds").replace("+00:00", "+02:00")
    in_git(rotated, "one", f', expires_at: "{end}"')
    (action,) = rotated.plan_json()["actions"]
    rotated.apply()

    assert (action["op"], [each["field"] for each in action["changes"]]) == ("update", ["expires_at"])
    rotated.plan(expect=0)


def test_an_end_that_leaves_git_is_cleared(rotated: Company) -> None:
    """The secret works without end again."""
    in_git(rotated, "one", f', expires_at: "{at(days=30)}"')
    rotated.apply()
    in_git(rotated, "one")
    rotated.apply()

    assert ["expires_at" in each for each in credentials(rotated)] == [False, False]


def test_a_new_end_in_the_past_is_refused_at_its_manifest(rotated: Company) -> None:
    """The plan says so with the line of the manifest, before anything is applied."""
    in_git(rotated, "one", f', expires_at: "{at(days=-1)}"')
    result = rotated.plan(expect=1)

    assert "is in the past; set a later time" in result.err
    assert "one.yaml" in result.err


def test_an_end_that_has_passed_since_it_was_applied_is_no_change(
    rotated: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git keeps what was said; the plan notes that the manifest can go."""
    in_git(rotated, "one", f', expires_at: "{at(hours=1)}"')
    rotated.apply()
    monkeypatch.setattr(plan, "datetime", _Later)
    monkeypatch.setattr(planning, "datetime", _Later)
    with jumping(rotated.server.services) as clock:
        clock.jump(_LATER.total_seconds())

        assert "expired at" in rotated.plan(expect=0).out
        (expiring,) = rotated.plan_json()["expiring"]
    assert (expiring["expired"], expiring["path"]) == (True, "one.yaml")


def test_what_ends_soon_is_in_the_json_of_plan_and_validate(rotated: Company, tmp_path: Path) -> None:
    """With its place and its end; not what ends later, nor in a saved plan, which is of another moment."""
    soon, file = at(days=3), tmp_path / "plan.json"
    in_git(rotated, "one", f', expires_at: "{soon}"')
    in_git(rotated, "two", f', expires_at: "{at(days=30)}"')
    plan = rotated.plan_json()
    validated = json.loads(rotated.zonectl("validate", rotated.folder, "--output", "json").out)
    rotated.plan("--out", str(file), expect=2)

    told = {
        "object": f"ApplicationCredential {rotated.zone}/one",
        "path": "one.yaml",
        "line": 1,
        "expires_at": soon,
        "expired": False,
    }
    assert plan["expiring"] == validated["expiring"] == [told]
    assert "expiring" not in json.loads(file.read_bytes())
    rotated.apply("--expect", plan["digest"])


def test_a_removed_manifest_deletes_one_secret(rotated: Company) -> None:
    """The other one stays what it is."""
    kept = {each["id"] for each in credentials(rotated)}
    out_of_git(rotated, "one")
    rotated.apply()

    assert len(credentials(rotated)) == 1
    assert {each["id"] for each in credentials(rotated)} < kept
    rotated.plan(expect=0)


def test_a_secret_swapped_in_one_apply_is_refused_with_what_to_do(rotated: Company, secrets: str) -> None:
    """Deleted and created with one identifier is how a rename looks, and it would lose the secret."""
    out_of_git(rotated, "one")
    in_git(rotated, "three")

    assert (
        "to rotate its secret, apply the new one beside it first"
        in rotated.plan("--secrets-dir", secrets, expect=5).out
    )


def test_a_client_id_of_somebody_elses_application_is_refused(company: Company, secrets: str) -> None:
    """What is not in git is found by the server."""
    other = company.send("POST", company.collection("applications"), identifier="other", name="Other")
    company.send(
        "POST",
        company.collection("application-credentials"),
        application_id=other["id"],
        type="public",
        identifier="taken",
    )
    company.write(
        "one.yaml",
        CREDENTIAL.replace("NAME", "one").replace("identifier: agentMORE", "identifier: taken"),
    )

    company.plan("--secrets-dir", secrets, expect=5)

"""`zonectl` against the real server: what plan, apply, drift and the guards do to what is there."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from acme import CONFIG
from tests.end_to_end.operated import Server

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for this file: every test has a zone and an owner of its own."""
    made = Server(tmp_path_factory.mktemp("zonectl"))
    made.init()
    made.start()
    yield made
    made.stop()


class Config:
    """A configuration in a directory: one zone, and what a test puts beside it."""

    def __init__(self, directory: Path, server: Server) -> None:
        self.directory, self.server = directory, server
        number = next(NUMBERS)
        self.zone = f"zone-{number}"
        directory.mkdir()
        (directory / "zonectl.yaml").write_text(f"owner: acme/{self.zone}\n")
        self.put("zone", f"kind: Zone\nmetadata: {{name: {self.zone}}}\nspec: {{name: {self.zone}}}\n")

    def put(self, name: str, text: str) -> None:
        """Write a manifest; `{zone}` in it is this configuration's zone."""
        text = text.replace("{zone}", self.zone)
        (self.directory / f"{name}.yaml").write_text(f"apiVersion: zonewright/v1\n{text}")

    def group(self, name: str, title: str = "A group") -> None:
        """Write a group."""
        self.put(name, f"kind: Group\nmetadata: {{zone: {{zone}}, name: {name}}}\nspec: {{name: {title}}}\n")

    def drop(self, name: str) -> None:
        """Take a manifest out of the configuration."""
        (self.directory / f"{name}.yaml").unlink()

    def plan(self, *options: str, expect: int) -> str:
        """What `plan` says; it must exit with that code."""
        done = self.server.zonectl("plan", str(self.directory), *options, expect=(expect,))
        return done.stdout + done.stderr

    def apply(self, *options: str, expect: int = 0) -> str:
        """What `apply` says; it must exit with that code."""
        done = self.server.zonectl("apply", str(self.directory), "--yes", *options, expect=(expect,))
        return done.stdout + done.stderr

    def groups(self) -> dict[str, str]:
        """Identifier -> name of the groups on the server."""
        with self.server.management() as client:
            path = f"/zones/{self.server.zone(self.zone)['id']}/groups"
            answer = client.get(path, params={"limit": 100})
        answer.raise_for_status()
        return {group["identifier"]: group["name"] for group in answer.json()["items"]}


@pytest.fixture
def make_config(server: Server, tmp_path: Path) -> Callable[[], Config]:
    """Makes configurations with an owner of their own."""
    return lambda: Config(tmp_path / f"config-{next(NUMBERS)}", server)


@pytest.fixture
def config(make_config: Callable[[], Config]) -> Config:
    """One such configuration."""
    return make_config()


def test_the_example_is_applied_once(server: Server, tmp_path: Path):
    """The example configuration: a plan with changes, an apply, and then nothing to do."""
    server.zonectl("plan", str(CONFIG), expect=(2,))
    server.zonectl("apply", str(CONFIG), "--yes", "--secrets-dir", str(tmp_path / "secrets"))
    server.zonectl("plan", str(CONFIG), expect=(0,))
    assert {file.name for file in (tmp_path / "secrets").iterdir()} == {
        "product.ApplicationCredential.calendar-agent.json",
        "product.ApplicationCredential.calendar-tools.json",
    }
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "secrets").iterdir()} == {0o600}


def test_an_invalid_manifest_never_reaches_the_server(config: Config):
    """One mistake in one file: it is named with its place, and nothing of the rest is applied."""
    config.group("staff")
    config.put("typo", "kind: Group\nmetadata: {zone: {zone}, name: ops}\nspec: {nmae: Operations}\n")
    said = config.apply(expect=1)
    assert "typo.yaml:4:8" in said
    assert "did you mean `name`" in said
    with config.server.management() as client:
        assert client.get("/zones", params={"slug": config.zone}).json()["items"] == []


def test_what_leaves_git_is_deleted_and_nothing_else(config: Config):
    """Prune takes what this owner applied; what somebody made by hand stays."""
    for name in ("staff", "guests"):
        config.group(name)
    config.apply()
    with config.server.management() as client:
        path = f"/zones/{config.server.zone(config.zone)['id']}/groups"
        client.post(path, json={"identifier": "by-hand", "name": "By hand"}).raise_for_status()

    config.drop("guests")
    assert "delete" in config.plan(expect=2)
    config.apply()

    assert config.groups().keys() == {"staff", "by-hand"}
    config.plan(expect=0)


def test_another_owner_does_not_see_it(make_config: Callable[[], Config]):
    """Two configurations in one organization: neither plans to delete what the other applied."""
    first, second = make_config(), make_config()
    first.group("staff")
    first.apply()
    second.apply()
    second.plan(expect=0)
    first.plan(expect=0)


def test_many_deletes_need_a_consent_with_their_number(config: Config):
    """Beyond the budget a plan is refused until somebody names the exact count."""
    for number in range(8):
        config.group(f"team-{number}")
    config.apply()
    for number in range(7):
        config.drop(f"team-{number}")

    assert "--consent deletes=7" in config.apply(expect=5)
    config.apply("--consent", "deletes=6", expect=5)
    assert len(config.groups()) == 8
    config.apply("--consent", "deletes=7")
    assert config.groups().keys() == {"team-7"}


def test_a_protected_object_is_not_deleted(config: Config):
    """Protection is kept on the server: taking the manifest away does not take it away."""
    config.put(
        "staff",
        "kind: Group\nmetadata: {zone: {zone}, name: staff}\nspec: {name: Staff}\n"
        "lifecycle: {protect: true}\n",
    )
    config.apply()
    config.drop("staff")
    assert "protected" in config.apply(expect=5)
    assert config.groups().keys() == {"staff"}


def test_drift_is_told_and_put_back(config: Config):
    """What somebody changed by hand is drift; an apply makes it what git says."""
    config.group("staff", "Staff")
    config.apply()
    with config.server.management() as client:
        path = f"/zones/{config.server.zone(config.zone)['id']}/groups"
        group = client.get(path).json()["items"][0]
        client.patch(f"{path}/{group['id']}", json={"name": "Changed by hand"}).raise_for_status()

    said = config.server.zonectl("drift", str(config.directory), expect=(3,)).stdout
    assert "Changed by hand" in said
    config.apply()
    assert config.groups() == {"staff": "Staff"}
    config.server.zonectl("drift", str(config.directory), expect=(0,))


def test_a_saved_plan_is_applied_as_it_was_approved_or_not_at_all(config: Config, tmp_path: Path):
    """A saved plan whose objects changed since is stale: refused, with nothing written."""
    config.group("staff", "Staff")
    config.apply()
    config.group("staff", "Employees")
    saved = tmp_path / "plan.json"
    config.plan("--out", str(saved), expect=2)
    with config.server.management() as client:
        path = f"/zones/{config.server.zone(config.zone)['id']}/groups"
        group = client.get(path).json()["items"][0]
        client.patch(f"{path}/{group['id']}", json={"name": "Changed since"}).raise_for_status()

    done = config.server.zonectl("apply", str(saved), "--yes", expect=(4,))
    assert config.groups() == {"staff": "Changed since"}
    (told,) = done.stderr.splitlines()
    assert re.fullmatch(
        r"error: the plan is stale: Group `staff` was changed by \w+ `[^`]+` at \S+ \(groups\.update\)"
        r" \(\S*staff\.yaml:1\); nothing was applied: plan again",
        told,
    )


def test_all_that_changed_since_a_plan_is_listed(config: Config, tmp_path: Path):
    """Each object once, with its manifest and who changed it; JSON has the same problems."""
    for name in ("staff", "guests"):
        config.group(name, "First")
    config.apply()
    for name in ("staff", "guests"):
        config.group(name, "Second")
    saved = tmp_path / "plan.json"
    config.plan("--out", str(saved), expect=2)
    with config.server.management() as client:
        path = f"/zones/{config.server.zone(config.zone)['id']}/groups"
        for group in client.get(path).json()["items"]:
            client.patch(f"{path}/{group['id']}", json={"name": "Changed since"}).raise_for_status()

    first, *listed = config.server.zonectl("apply", str(saved), "--yes", expect=(4,)).stderr.splitlines()
    assert re.fullmatch(
        r"error: the plan is stale: 2 objects have changed since it was made, at revision \d+;"
        r" nothing was applied: plan again",
        first,
    )
    assert [
        re.match(r"\s+\S*(\w+\.yaml):1: Group `(\w+)` was changed by \w+", each) is not None
        for each in listed
    ] == [True, True]
    done = config.server.zonectl("apply", str(saved), "--yes", "--output", "json", expect=(4,))
    assert [each["object"].rsplit("/")[-1] for each in json.loads(done.stdout)["problems"]] == [
        "guests",
        "staff",
    ]


def test_a_plan_sent_twice_is_applied_once(config: Config, tmp_path: Path):
    """A lost answer is safe: the same plan again is answered with the first result."""
    config.group("staff")
    saved, receipt = tmp_path / "plan.json", tmp_path / "receipt.json"
    config.plan("--out", str(saved), expect=2)
    config.server.zonectl("apply", str(saved), "--yes", "--receipt", str(receipt))
    first = json.loads(receipt.read_text())
    said = config.server.zonectl("apply", str(saved), "--yes", "--receipt", str(receipt)).stdout
    assert "already applied" in said
    assert json.loads(receipt.read_text())["revision"] == first["revision"]


def test_a_secret_needs_somewhere_to_go(config: Config):
    """Without a directory for what is shown once, nothing is sent."""
    config.put("app", "kind: Application\nmetadata: {zone: {zone}, name: app}\nspec: {name: App}\n")
    config.put(
        "secret",
        "kind: ApplicationCredential\nmetadata: {zone: {zone}, name: app}\n"
        "spec: {application: app, type: password}\n",
    )
    assert "--secrets-dir" in config.apply(expect=5)
    with config.server.management() as client:
        assert client.get("/zones", params={"slug": config.zone}).json()["items"] == []

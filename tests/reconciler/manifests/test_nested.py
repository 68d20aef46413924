"""A repository of several teams: a directory with a `zonectl.yaml` is a configuration of its own."""

from collections.abc import Callable

import pytest
from tests.reconciler.conftest import Folder, Result
from tests.reconciler.fake_server import FakeServer, World

ZONE = """apiVersion: zonewright/v1
kind: Zone
metadata: {name: acme}
spec: {name: Acme}
"""
AGENT = """apiVersion: zonewright/v1
kind: Application
metadata: {zone: acme, name: agent}
spec: {name: Agent, identifier: "%s"}
"""

ROLE = """apiVersion: zonewright/v1
kind: Role
metadata: {zone: acme, name: reader}
spec: {identifier: reader}
"""


@pytest.fixture
def repository(config: Folder) -> Folder:
    """The platform's zone at the root, and a team below that shares it."""
    config.write("zonectl.yaml", "owner: platform\nnested: [teams/*]\n")
    config.write("zone.yaml", ZONE)
    config.write("agent.yaml", AGENT % "platform-agent")
    config.write("teams/payments/zonectl.yaml", "owner: payments\nzones: [acme]\n")
    config.write("teams/payments/agent.yaml", AGENT % "payments-agent")
    return config


def test_each_is_applied_by_itself(
    repository: Folder, server: FakeServer, world: World, zonectl: Callable[..., Result]
) -> None:
    """One run has one owner: what is below belongs to the other alone, names included."""
    parts = (repository.path, repository.path / "teams" / "payments")
    done = [zonectl("apply", path, "--yes") for path in parts]
    assert [each.exit_code for each in done] == [0, 0], [each.err for each in done]
    assert [zonectl("plan", path).exit_code for path in parts] == [0, 0]
    found = {
        entity["handle"]: entity["ownership"]["owner"]
        for entity in world.entities.values()
        if entity["kind"] == "Application"
    }
    assert found == {"platform-agent": "platform", "payments-agent": "payments"}


def test_validate_says_what_it_leaves_out(repository: Folder, zonectl: Callable[..., Result]) -> None:
    """Each configuration is valid by itself; the root's says that there is another one."""
    done = zonectl("validate", repository.path)
    assert done.exit_code == 0
    assert "2 manifests in 2 files: valid" in done.out
    assert "teams/payments is another configuration: validate it by itself" in done.out
    done = zonectl("validate", repository.path / "teams" / "payments")
    assert (done.exit_code, done.out) == (0, "1 manifest in 1 file: valid\n")


def test_zone_elsewhere_is_said(repository: Folder, zonectl: Callable[..., Result]) -> None:
    """A zone that no manifest describes and no setting names is a mistake, and where to say it is told."""
    repository.write("teams/payments/zonectl.yaml", "owner: payments\n")
    done = zonectl("validate", repository.path / "teams" / "payments")
    assert done.exit_code == 1
    assert "there is no Zone `acme`; where another configuration describes it, list it in `zones`" in done.out
    repository.write("teams/payments/zonectl.yaml", "owner: payments\nzones: [acne]\n")
    assert "did you mean `acne`?" in zonectl("validate", repository.path / "teams" / "payments").out


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("server: https://id.example\n", "`owner` is missing"),
        ("owner: platform\n", "`platform` is also the owner of another directory"),
    ],
    ids=["no owner", "the same owner"],
)
@pytest.mark.parametrize("verb", ["validate", "plan", "apply"])
def test_nested_configuration_has_another_owner(
    repository: Folder,
    server: FakeServer,
    zonectl: Callable[..., Result],
    verb: str,
    settings: str,
    told: str,
) -> None:
    """Two directories of one owner would delete each other's; one of none belongs to nobody."""
    assert zonectl("plan", repository.path).exit_code == 2
    repository.write("teams/payments/zonectl.yaml", settings)
    done = zonectl(verb, repository.path)
    assert done.exit_code == 64
    assert told in done.err


def test_owner_on_the_command_line_is_another_too(
    repository: Folder, server: FakeServer, zonectl: Callable[..., Result]
) -> None:
    """`--owner` says whose the run is where the file does not: it cannot be that of a nested directory."""
    repository.write("zonectl.yaml", "nested: [teams/payments]\n")
    assert zonectl("plan", repository.path, "--owner", "platform").exit_code == 2
    done = zonectl("plan", repository.path, "--owner", "payments")
    assert (done.exit_code, "`payments` is also the owner of another directory" in done.err) == (64, True)


@pytest.mark.parametrize("verb", ["plan", "drift", "apply"])
@pytest.mark.parametrize("said", ["option", "environment"])
@pytest.mark.threat("49l")
def test_a_pull_request_does_not_change_whose_the_run_is(
    repository: Folder,
    server: FakeServer,
    zonectl: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    verb: str,
) -> None:
    """An owner that is named outside the repository stands; what the repository says may only confirm it."""
    assert zonectl("apply", repository.path, "--yes").exit_code == 0
    part = repository.path / "teams" / "payments"
    more = ("--owner", "payments") if said == "option" else ()
    if said == "environment":
        monkeypatch.setenv("ZONECTL_OWNER", "payments")
    assert zonectl("plan", part, *more).exit_code == 2
    repository.write("teams/payments/zonectl.yaml", "owner: platform\nzones: [acme]\n")
    done = zonectl(verb, part, *more)
    assert done.exit_code == 5
    assert "the owner is `payments` (from `--owner` or ZONECTL_OWNER)" in done.err
    assert "zonectl.yaml has `platform`; a repository cannot choose the owner" in done.err


@pytest.mark.threat("49m")
def test_a_saved_plan_does_not_change_whose_the_run_is(
    repository: Folder,
    server: FakeServer,
    zonectl: Callable[..., Result],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names its owner; another one than is named outside is refused before anything is sent."""
    saved = tmp_path_factory.mktemp("plans") / "plan.json"
    assert zonectl("plan", repository.path, "--out", saved).exit_code == 2
    done = zonectl("apply", saved, "--root", repository.path, "--owner", "payments")
    assert done.exit_code == 5
    assert f"the saved plan `{saved}` has `platform`" in done.err
    monkeypatch.setenv("ZONECTL_OWNER", "platform")
    assert zonectl("apply", saved, "--root", repository.path).exit_code == 0


class TestListing:
    """Whoever writes below decides about what lies there, and neither leaves nor joins by that."""

    @pytest.mark.threat("49n")
    @pytest.mark.parametrize("verb", ["validate", "plan", "apply"])
    def test_what_is_not_listed_does_not_leave(
        self, repository: Folder, server: FakeServer, zonectl: Callable[..., Result], verb: str
    ) -> None:
        """A new `zonectl.yaml` would have all that is described there deleted."""
        repository.write("shared/role.yaml", ROLE)
        assert zonectl("plan", repository.path).exit_code == 2
        repository.write("shared/zonectl.yaml", "owner: evil\n")
        done = zonectl(verb, repository.path)
        assert done.exit_code == 64
        assert "shared/zonectl.yaml: this file makes `shared` a configuration of its own" in done.err
        assert "write `nested: [shared]` there, or remove this file" in done.err

    @pytest.mark.threat("49o")
    @pytest.mark.parametrize("verb", ["validate", "plan", "apply"])
    def test_what_is_listed_does_not_join(
        self, repository: Folder, server: FakeServer, zonectl: Callable[..., Result], verb: str
    ) -> None:
        """Without its `zonectl.yaml` what is described there would be applied in the other's name."""
        assert zonectl("plan", repository.path).exit_code == 2
        (repository.path / "teams/payments/zonectl.yaml").unlink()
        repository.write("teams/payments/deep/role.yaml", ROLE)
        done = zonectl(verb, repository.path)
        assert done.exit_code == 64
        assert "`teams/payments` is listed in `nested`, and there is no" in done.err

    @pytest.mark.parametrize(
        "nested", ["[teams/payments]", "[teams/*]", "['*/*']", "[other, teams/payments, teams/none]"]
    )
    def test_lists_directories(self, repository: Folder, zonectl: Callable[..., Result], nested: str) -> None:
        """By name, or all in one; what is not there need not be."""
        repository.write("zonectl.yaml", f"owner: platform\nnested: {nested}\n")
        assert zonectl("validate", repository.path).exit_code == 0

    @pytest.mark.parametrize(
        ("nested", "told"),
        [
            ("teams", "`nested` must be a list of directories, not a string"),
            ("[../teams]", "`nested[0]` must be a directory below this one"),
            ("[/teams]", "`nested[0]` must be a directory below this one"),
            ("[teams/*, teams/pay*]", "`nested[1]` must be a directory below this one"),
            ("[1]", "`nested[0]` must be a directory below this one"),
            ("[teams]", "a configuration of its own"),
            ("['*']", "a configuration of its own"),
        ],
    )
    def test_refuses_what_is_no_directory_below(
        self, repository: Folder, zonectl: Callable[..., Result], nested: str, told: str
    ) -> None:
        """Nothing outside, and no pattern within a name."""
        assert zonectl("validate", repository.path).exit_code == 0
        repository.write("zonectl.yaml", f"owner: platform\nnested: {nested}\n")
        done = zonectl("validate", repository.path)
        assert (done.exit_code, told in done.err) == (64, True), done.err


def test_two_owners_are_no_one_configuration(repository: Folder, zonectl: Callable[..., Result]) -> None:
    """Paths of two configurations are not validated as if they were one."""
    done = zonectl("validate", repository.path, repository.path / "teams" / "payments")
    assert done.exit_code == 64
    assert "the paths belong to different configurations: `payments`, `platform`" in done.err


@pytest.mark.parametrize(
    ("zones", "told"),
    [
        ("acme", "`zones` must be a list of names of zones"),
        ("[{owner: platform}]", "`zones[0]` must be the name of a zone"),
        ("[acme, acme]", "`zones[1]`: `acme` is listed twice"),
        ("[{name: acme, owner: 1}]", "`zones[0]`: name and owner must be strings"),
    ],
)
def test_zones_are_names(repository: Folder, zonectl: Callable[..., Result], zones: str, told: str) -> None:
    """Names, or names with their owner; anything else is told."""
    part = repository.path / "teams" / "payments"
    repository.write("teams/payments/zonectl.yaml", "owner: payments\nzones: [{name: acme, owner: a}]\n")
    assert zonectl("validate", part).exit_code == 0
    repository.write("teams/payments/zonectl.yaml", f"owner: payments\nzones: {zones}\n")
    done = zonectl("validate", part)
    assert (done.exit_code, told in done.err) == (64, True), done.err


def test_second_of_two_first_applies_is_refused_as_stale(
    repository: Folder,
    server: FakeServer,
    world: World,
    zonectl: Callable[..., Result],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Both are planned on an empty server; the second is stale, exit 4, and plans again."""
    saved = tmp_path_factory.mktemp("plans")
    for name in ("first", "second"):
        repository.write("zone.yaml", ZONE.replace("Acme}", f"Acme, description: {name}}}"))
        zonectl("plan", repository.path, "--out", saved / f"{name}.json")
    assert zonectl("apply", saved / "first.json", "--root", repository.path).exit_code == 0
    done = zonectl("apply", saved / "second.json", "--root", repository.path)
    assert done.exit_code == 4
    assert "the plan is stale" in done.err
    assert zonectl("plan", repository.path).exit_code == 2


def test_a_credential_of_another_team_is_refused(
    repository: Folder, server: FakeServer, world: World, zonectl: Callable[..., Result]
) -> None:
    """With the payments team's credential nobody plans or applies as the platform."""
    assert zonectl("apply", repository.path, "--yes").exit_code == 0
    world.bound_owner = "payments"
    repository.write("agent.yaml", AGENT % "renamed")
    done = zonectl("apply", repository.path, "--yes")
    assert done.exit_code == 1
    assert "this credential is bound to the owner `payments`, not to `platform`" in done.err
    assert zonectl("apply", repository.path / "teams" / "payments", "--yes").exit_code == 0

"""`--output json` prints one document on every exit, which is valid by its schema."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.reconciler.apply.texts import AGENT, PROVIDER, ROLE, ZONE, Zonectl
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.plan.values import decision_impact

from reconciler.cli import run
from reconciler.commands import watch
from reconciler.output_schemas import schema_files

SCHEMAS = Path(__file__).parents[3] / "schemas" / "output"
GROUPS = "".join(
    "---\napiVersion: zonewright/v1\nkind: Group\n"
    f"metadata: {{zone: workforce, name: g{n}}}\nspec: {{name: G{n}}}\n"
    for n in range(7)
)


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_checked_in_schema_is_what_the_definitions_say(name: str) -> None:
    """`make schemas` writes it."""
    assert (SCHEMAS / name).read_text(encoding="utf-8") == schema_files()[name]


def test_nothing_else_is_checked_in() -> None:
    """A document that is gone leaves no schema behind."""
    assert {file.name for file in SCHEMAS.iterdir()} == set(schema_files())


def document(out: str) -> tuple[str, dict[str, Any]]:
    """What was printed: one document, of the kind that it says, and as the schema of that kind says."""
    content = json.loads(out)
    name = content["format"].split("/")[1]
    jsonschema_rs.validator_for(json.loads((SCHEMAS / f"{name}.json").read_text())).validate(content)
    return name, content


class Scene:
    """A configuration with a server, and what its commands print."""

    def __init__(self, config: Any, server: FakeServer, world: World, zonectl: Zonectl) -> None:
        self.config, self.server, self.world, self.zonectl = config, server, world, zonectl

    def says(self, command: str, *options: object, exit_code: int) -> tuple[str, dict[str, Any]]:
        """The document of a command that ends with that code."""
        done = self.zonectl(command, self.config, *options, "--output", "json")
        assert done.exit_code == exit_code, done
        return document(done.out)

    def by_hand(self, **spec: Any) -> None:
        """Somebody changes the role on the server."""
        self.world.find("Role", "reader")["spec"].update(spec)
        self.world.revision += 1


@pytest.fixture
def scene(config: Any, server: FakeServer, world: World, zonectl: Zonectl) -> Iterator[Scene]:
    """One zone and one role, not applied yet."""
    config.write("zone.yaml", ZONE)
    config.write("role.yaml", ROLE)
    return Scene(config, server, world, zonectl)


class TestEveryExit:
    def test_validate_prints_one_document(self, scene: Scene) -> None:
        """Valid, not valid, and no such path."""
        assert scene.says("validate", exit_code=0)[1]["valid"] is True
        scene.config.write("role.yaml", ROLE.replace("description", "descripton"))
        name, found = scene.says("validate", exit_code=1)
        assert (name, found["diagnostics"][0]["line"]) == ("validation", 4)
        assert document(scene.zonectl("validate", "--output=json", "/nowhere").out)[0] == "error"

    @pytest.mark.parametrize("command", ["plan", "apply", "drift"])
    def test_where_the_manifests_are_not_valid(self, scene: Scene, command: str) -> None:
        """The findings, as `validate` tells them."""
        scene.config.write("role.yaml", ROLE.replace("description", "descripton"))
        name, found = scene.says(command, exit_code=1)

        assert (name, found["diagnostics"][0]["path"]) == ("validation", "role.yaml")

    @pytest.mark.parametrize("command", ["plan", "apply", "drift", "validate"])
    def test_wrong_usage_prints_one_document(self, scene: Scene, command: str) -> None:
        """Also of a command line that cannot be understood."""
        name, found = scene.says(command, "--nonsense", exit_code=64)

        assert (name, found["exit_code"]) == ("error", 64)
        assert "--nonsense" in found["message"]

    @pytest.mark.parametrize("command", ["plan", "apply", "drift"])
    def test_where_the_server_does_not_take_the_credential(
        self, scene: Scene, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who is asked, and what it says."""
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_other")
        name, found = scene.says(command, exit_code=1)

        assert (name, found["message"]) == (
            "error",
            f"{scene.server.url} does not accept this API key: the bearer credential is not valid",
        )

    def test_plan_prints_the_plan_whatever_stands_against_it(self, scene: Scene) -> None:
        """Changes, nothing, drift, a conflict, a guard, the server's refusal: always the plan."""
        assert scene.says("plan", exit_code=2)[0] == "plan"
        scene.says("apply", "--yes", exit_code=0)
        assert scene.says("plan", exit_code=0)[1]["actions"] == []
        scene.by_hand(description="by hand")
        assert scene.says("plan", exit_code=3)[1]["actions"][0]["changes"][0]["state"] == "drift"
        scene.config.write("role.yaml", ROLE.replace("reads", "in git"))
        assert scene.says("plan", exit_code=4)[1]["guards"][0]["stale"] is True
        scene.config.write("role.yaml", ROLE + GROUPS.replace("G1}", "forbidden}"))
        assert scene.says("plan", exit_code=1)[1]["problems"][0]["object"] == "Group workforce/g1"
        scene.config.path.joinpath("role.yaml").unlink()
        scene.config.write("zone.yaml", ZONE.replace("workforce", "other"))
        assert scene.says("plan", exit_code=5)[1]["guards"][0]["code"] == "deletes"

    def test_apply_prints_a_receipt_or_the_plan(self, scene: Scene, tmp_path: Path) -> None:
        """A receipt when it is done or there is nothing to do; else the plan with what stands against it."""
        name, found = scene.says("apply", "--yes", exit_code=0)
        assert (name, len(found["operations"])) == ("receipt", 2)
        assert scene.says("apply", "--yes", exit_code=0)[1]["operations"] == []
        assert scene.says("apply", exit_code=0)[0] == "receipt"
        scene.config.write("more.yaml", GROUPS)
        assert scene.says("apply", exit_code=64)[1]["message"].startswith("standard input is not a terminal")
        name, found = scene.says("apply", "--expect", "sha256:no", exit_code=4)
        assert (name, [each["code"] for each in found["guards"]]) == ("plan", ["expect"])
        assert "or objects that they describe, have changed since" in found["guards"][0]["message"]
        scene.says("apply", "--yes", exit_code=0)
        scene.config.path.joinpath("more.yaml").unlink()
        assert scene.says("apply", "--yes", exit_code=5)[1]["guards"][0]["code"] == "deletes"
        found = scene.says("apply", "--yes", "--consent", "deletes=7", "--receipt", tmp_path, exit_code=1)[1]
        assert "cannot be written" in found["problems"][0]["message"]

    def test_apply_takes_the_document_that_plan_prints(self, scene: Scene, tmp_path: Path) -> None:
        """What `plan --output json` prints is a plan that can be applied, too."""
        saved = tmp_path / "plan.json"
        saved.write_text(scene.zonectl("plan", scene.config, "--output", "json").out)
        applied = scene.zonectl("apply", saved, "--root", scene.config, "--output", "json")

        assert (applied.exit_code, document(applied.out)[0]) == (0, "receipt")
        saved.write_text("{}")
        broken = scene.zonectl("apply", saved, "--output", "json")
        assert (broken.exit_code, document(broken.out)[0]) == (1, "error")

    def test_drift_prints_one_document(self, scene: Scene) -> None:
        """None, and some."""
        scene.says("apply", "--yes", exit_code=0)
        assert scene.says("drift", exit_code=0)[1]["drift"] == []
        scene.by_hand(description="by hand")
        assert scene.says("drift", exit_code=3)[1]["drift"][0]["name"] == "reader"

    def test_a_plan_that_widens_tells_what_follows(self, scene: Scene) -> None:
        """What follows from it is in the document, as in the text."""
        group = GROUPS.removeprefix("---\n").partition("---")[0]
        cedar = 'forbid (principal in Group::"g0", action, resource);'
        head = "apiVersion: zonewright/v1\nkind: {}\nmetadata: {{zone: workforce, name: main}}\nspec: {}\n"
        scene.config.write("group.yaml", group.replace("G0", "G0, members: [ann@x.example]"))
        scene.config.write("policy.yaml", head.format("Policy", f"{{cedar: '{cedar}'}}"))
        scene.config.write("set.yaml", head.format("PolicySet", "{policies: [main]}"))
        assert scene.zonectl("apply", scene.config, "--yes").exit_code == 0
        scene.config.write("group.yaml", group)
        _, content = scene.says("plan", exit_code=2)
        (found,) = content["widened"]
        assert (found["name"], found["loses"], found["empty"]) == ('Group::"g0"', ["ann@x.example"], True)
        assert '! access is widened in zone workforce: Group::"g0"' in scene.zonectl("plan", scene.config).out
        scene.config.write("set.yaml", head.format("PolicySet", "{policies: [main], active: false}"))
        _, content = scene.says("plan", exit_code=2)
        assert content["deciding"][0]["forbids"] == ["Policy/main"]

    def test_a_secret_that_is_missing_is_told_in_the_document(self, scene: Scene) -> None:
        """Allowed, and not there."""
        scene.config.write("okta.yaml", PROVIDER)
        name, found = scene.says("apply", "--yes", "--allow-env", "OKTA", exit_code=1)

        assert (name, "`OKTA` is not set" in found["message"]) == ("error", True)

    def test_a_defect_prints_one_document_and_goes_on(
        self, scene: Scene, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Somebody who reads JSON is told even then; the exception goes on."""
        scene.config.write("zonectl.yaml", "owner: acme\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("reconciler.commands.plan.find_refusals", lambda *_, **__: 1 / 0)
            capsys.readouterr()
            with pytest.raises(ZeroDivisionError):
                run(["plan", str(scene.config), "--output", "json"])

        assert document(capsys.readouterr().out)[1]["exit_code"] == 1


REFUSED = (
    "would be refused, or get fewer scopes in zone workforce: 42 of 99,210 recorded requests, of 3 users"
)
SUMMARY = "30 recorded requests would be refused; 12 recorded requests would get fewer scopes"
NAMED = ("ada@acme.example", "bob@acme.example", "billing-agent", "https://api.example", "payments")


class TestDecisionImpact:
    @pytest.fixture(autouse=True)
    def _answer(self, scene: Scene) -> None:
        """The zone exists, and a plan changes what its policies decide."""
        scene.zonectl("apply", scene.config, "--yes")
        scene.config.write("more.yaml", GROUPS)
        scene.world.decision_impact = [decision_impact(zone_id=scene.world.find("Zone", "workforce")["id"])]

    def test_a_plan_tells_what_would_be_refused(self, scene: Scene) -> None:
        """Above its actions, and at the end of its last line."""
        lines = scene.zonectl("plan", scene.config).out.splitlines()

        assert REFUSED in lines[0]
        assert f"9 manifests: 7 to create; {SUMMARY}" in lines
        assert all(any(name in line for line in lines) for name in NAMED)

    @pytest.mark.parametrize("command", ["plan", "apply", "watch"])
    def test_without_request_examples_nobody_is_named(
        self, scene: Scene, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever reads the log of a job, or a screen that is shared, learns the counts."""
        monkeypatch.setattr(watch, "watch_files", lambda _paths, run_once: run_once([]))
        if command == "watch":
            assert NAMED[0] in scene.zonectl(command, scene.config).out

        done = scene.zonectl(command, scene.config, "--no-request-examples")

        assert REFUSED in done.out
        assert SUMMARY in done.out
        assert not [name for name in NAMED if name in f"{done.out}{done.err}"]

    def test_without_request_examples_the_document_has_none(self, scene: Scene) -> None:
        """The list is empty, and the digest the same."""
        content = scene.says("plan", "--no-request-examples", exit_code=2)[1]
        (told,) = content["decision_impact"]

        assert told["loses"] == {**decision_impact()["loses"], "examples": []}
        assert content["digest"] == scene.says("plan", exit_code=2)[1]["digest"]

    def test_a_refused_apply_without_request_examples_has_none(self, scene: Scene, tmp_path: Path) -> None:
        """Of a directory, and of a saved plan."""
        role, saved = scene.world.find("Role", "reader"), tmp_path / "plan.json"
        scene.config.path.joinpath("role.yaml").unlink()
        scene.zonectl("plan", scene.config, "--out", saved)
        scene.world.in_use = frozenset({role["id"]})
        for path in (scene.config, saved):
            done = scene.zonectl("apply", path, "--yes", "--root", scene.config, "--no-request-examples")
            assert done.exit_code == 5
            assert REFUSED in done.out
            assert not [name for name in NAMED if name in f"{done.out}{done.err}"]

    def test_the_document_has_what_the_server_answers(self, scene: Scene) -> None:
        """And the name of the zone; its digest is the same without it."""
        content = scene.says("plan", exit_code=2)[1]
        (answer,) = scene.world.decision_impact or ()
        scene.world.decision_impact = None
        without = scene.says("plan", exit_code=2)[1]

        assert content["decision_impact"] == [{"zone": "workforce", **answer}]
        assert "decision_impact" not in without
        assert content["digest"] == without["digest"]

    def test_the_printed_document_can_be_applied(self, scene: Scene, tmp_path: Path) -> None:
        """A saved plan has nothing of it, and one with it is the same plan."""
        saved, printed = tmp_path / "saved.json", tmp_path / "printed.json"
        printed.write_text(
            scene.zonectl("plan", scene.config, "--out", saved, "--output", "json").out, encoding="utf-8"
        )

        assert "decision_impact" not in json.loads(saved.read_text("utf-8"))
        assert scene.zonectl("apply", printed, "--root", scene.config).exit_code == 0

    def test_an_apply_that_asks_shows_the_same(self, scene: Scene) -> None:
        """Before it asks; here there is nobody to answer."""
        done = scene.zonectl("apply", scene.config)

        assert done.exit_code == 64
        assert REFUSED in done.out

    def test_a_refused_apply_tells_it_in_its_document(self, scene: Scene) -> None:
        """With the other reasons to look at the plan again."""
        found = scene.says("apply", "--expect", "sha256:no", exit_code=4)[1]
        assert "decision_impact" not in found, "an apply that asks nobody sends no dry run"
        scene.zonectl("apply", scene.config, "--yes")
        scene.config.path.joinpath("more.yaml").unlink()
        found = scene.says("apply", "--yes", exit_code=5)[1]
        assert found["decision_impact"][0]["loses"]["decisions"] == 42

    def test_a_refused_saved_plan_shows_it_with_its_deletions(self, scene: Scene, tmp_path: Path) -> None:
        """Where the dry run has counted these; by the name of the zone on the server."""
        role, saved = scene.world.find("Role", "reader"), tmp_path / "plan.json"
        scene.config.path.joinpath("role.yaml").unlink()
        scene.config.path.joinpath("more.yaml").unlink()
        scene.zonectl("plan", scene.config, "--out", saved)
        scene.world.in_use = frozenset({role["id"]})
        done = scene.zonectl("apply", saved, "--root", scene.config)

        assert done.exit_code == 5
        assert REFUSED in done.out


class TestProblems:
    def test_the_line_of_the_member_is_named(self, scene: Scene) -> None:
        """Not that of the document; with the text and a caret, and in the order of the manifests."""
        other, agent = ROLE.replace("reader", "other"), AGENT.replace("Agent", "forbidden")
        scene.config.write("agent.yaml", f"{other}---\n{agent}")
        done = scene.zonectl("plan", scene.config)
        line = next(n for n, text in enumerate(done.err.splitlines()) if "agent.yaml" in text)

        assert done.exit_code == 1
        assert (
            "agent.yaml:9:14: error: Application workforce/agent `name`: may not be `forbidden`" in done.err
        )
        assert "^^^^^^^^^" in done.err.splitlines()[line + 2]

    @pytest.mark.parametrize("command", ["plan", "apply"])
    def test_the_plan_is_shown_though_it_is_refused(self, scene: Scene, command: str) -> None:
        """By the server, and by a guard; on `apply` as on `plan`."""
        scene.config.write("groups.yaml", GROUPS)
        scene.zonectl("apply", scene.config, "--yes")
        scene.config.path.joinpath("groups.yaml").unlink()
        scene.config.write("role.yaml", ROLE.replace("reads", "forbidden"))

        done = scene.zonectl(command, scene.config)

        assert done.exit_code == 5
        assert done.out.count("- delete Group") == 7
        assert "--consent deletes=7" in done.out
        assert "role.yaml:3:35" in done.err  # the server's problem is shown beside the guard's refusal


def test_the_digest_is_that_of_the_plan_and_not_of_the_commit(scene: Scene, tmp_path: Path) -> None:
    """A merge commit with the same files makes the same plan: `--expect` works after it."""
    git = ["git", "-C", str(scene.config), "-c", "user.name=a", "-c", "user.email=a@acme.example"]
    subprocess.run([*git, "init", "-q"], check=True)
    plans = []
    for message in ("one", "two"):
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", message], check=True)
        plans.append(scene.says("plan", exit_code=2)[1])

    assert plans[0]["source"]["commit"] != plans[1]["source"]["commit"]
    assert plans[0]["digest"] == plans[1]["digest"]
    assert scene.says("apply", "--expect", plans[0]["digest"], exit_code=0)[0] == "receipt"


@pytest.mark.parametrize("command", ["plan", "apply", "drift", "validate", "watch", "schema"])
def test_the_help_tells_the_exit_codes(zonectl: Zonectl, command: str) -> None:
    """Where somebody who writes a script looks."""
    assert "Exit codes:" in zonectl(command, "--help").out


@pytest.mark.parametrize(
    ("command", "meaning"),
    [("plan", "the plan has changes"), ("fmt", "`--check` found files to format")],
)
def test_the_help_of_a_command_has_its_own_meaning_of_exit_code_2(
    zonectl: Zonectl, command: str, meaning: str
) -> None:
    """The help of `zonectl` itself lists both."""
    lines = zonectl(command, "--help").out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.split()[:1] == ["2"]] == [meaning]

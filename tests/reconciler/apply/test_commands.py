"""plan, apply, drift, watch and schema as they are called, against a real HTTP server."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.reconciler.factories import plan_for
from tests.reconciler.fake_server import FakeServer, World

from reconciler.apply import explain_rejection
from reconciler.apply.secrets import Secret, SecretMissing, read_secret
from reconciler.client import Rejected

HEAD = "apiVersion: zonewright/v1\n"
ZONE = HEAD + "kind: Zone\nmetadata: {name: workforce}\nspec: {name: workforce}\n"
ROLE = HEAD + "kind: Role\nmetadata: {zone: workforce, name: reader}\nspec: {description: reads}\n"
AGENT = HEAD + "kind: Application\nmetadata: {zone: workforce, name: agent}\nspec: {name: Agent}\n"
KEY = (
    HEAD + "kind: ApplicationCredential\nmetadata: {zone: workforce, name: agent-key}\n"
    "spec: {application: agent, type: password}\n"
)
PROVIDER = (
    HEAD + "kind: Provider\nmetadata: {zone: workforce, name: okta}\n"
    "spec: {name: Okta, identifier: https://okta.example, client_secret: {from_env: OKTA, version: '1'}}\n"
)

CREDENTIAL = f"{ZONE}---\n{AGENT}---\n{KEY}"

Zonectl = Callable[..., Any]


class TestPlan:
    def test_exit_codes_say_what_it_is_like(
        self, config: Any, server: FakeServer, world: World, zonectl: Zonectl
    ) -> None:
        """2 changes, 0 nothing, 3 drift only, 4 conflict, 5 refused, 1 invalid, 64 usage."""
        config.write("zone.yaml", ZONE)
        role = config.write("role.yaml", ROLE)
        assert zonectl("plan", config).exit_code == 2
        assert zonectl("apply", config, "--yes").exit_code == 0
        assert zonectl("plan", config).exit_code == 0
        world.find("Role", "reader")["spec"]["description"] = "by hand"
        world.revision += 1
        assert zonectl("plan", config).exit_code == 3
        role.write_text(ROLE.replace("reads", "in git"))
        assert zonectl("plan", config).exit_code == 4
        role.write_text(ROLE.replace("description", "descripton"))
        assert zonectl("plan", config).exit_code == 1
        role.unlink()
        config.path.joinpath("zone.yaml").unlink()
        assert zonectl("plan", config).exit_code == 5
        assert zonectl("plan", config, "--nonsense").exit_code == 64
        assert zonectl("plan", config, "--consent", "everything=1").exit_code == 64

    def test_says_whose_key_is_not_accepted(
        self, config: Any, server: FakeServer, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The key of another server is the likeliest mistake."""
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_other")
        config.write("zone.yaml", ZONE)
        result = zonectl("plan", config)

        assert result.exit_code == 1
        assert f"{server.url} does not accept this API key: who are you?" in result.err

    def test_says_which_member_is_refused(self, world: World) -> None:
        """Also when it is not one of an operation, such as the owner."""
        error = Rejected(400, "validation_error", "no", [{"field": "owner", "message": "is too long"}])

        assert [str(each) for each in explain_rejection(error, plan_for(world, []))] == [
            "`owner`: is too long"
        ]

    def test_needs_the_same_requests_whatever_the_size(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """A snapshot and a dry run, and once who the caller is."""
        config.write("zone.yaml", ZONE)
        counts = []
        for number in (1, 300):
            roles = [ROLE.replace("reader", f"reader-{n}") for n in range(number)]
            config.write("roles.yaml", "---\n".join(roles))
            server.requests.clear()
            zonectl("plan", config)
            counts.append(len(server.requests))

        assert counts == [3, 3]

    def test_with_an_organization_is_two_requests(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """And one when there is nothing to do."""
        from tests.reconciler.fake_server import ORGANIZATION

        config.write("zone.yaml", ZONE)
        zonectl("plan", config, "--organization", ORGANIZATION)
        assert len(server.requests) == 2
        zonectl("apply", config, "--yes")
        server.requests.clear()
        zonectl("plan", config, "--organization", ORGANIZATION)
        assert len(server.requests) == 1

    def test_sends_no_secret(
        self,
        config: Any,
        server: FakeServer,
        zonectl: Zonectl,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """A plan needs none, and prints none."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")
        config.write("all.yaml", ZONE + "---\n" + PROVIDER)
        result = zonectl("plan", config, "--out", tmp_path / "plan.json")

        assert server.bodies[0]["operations"][1]["spec"]["client_secret"] == {"secret": True}
        assert "secret from OKTA, version 1" in result.out
        everything = (
            result.out + result.err + (tmp_path / "plan.json").read_text() + json.dumps(server.bodies)
        )
        assert "s3cr3t-value" not in everything

    def test_tells_the_servers_objections_with_the_manifest(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """Which file, which object, which member."""
        config.write("zone.yaml", ZONE)
        config.write("agent.yaml", AGENT.replace("Agent", "forbidden"))
        result = zonectl("plan", config)

        assert result.exit_code == 1
        assert "agent.yaml:1: Application workforce/agent `name`: may not be `forbidden`" in result.err

    def test_as_json_is_the_plan(self, config: Any, server: FakeServer, zonectl: Zonectl) -> None:
        """With its digest, and what stands against it."""
        config.write("zone.yaml", ZONE)
        content = json.loads(zonectl("plan", config, "--output", "json").out)

        assert content["digest"].startswith("sha256:")
        assert content["summary"] == {"create": 1}
        assert content["guards"] == []

    def test_needs_an_owner(self, config: Any, server: FakeServer, zonectl: Zonectl) -> None:
        """Explicit, never a path."""
        config.write("zonectl.yaml", "")
        config.write("zone.yaml", ZONE)

        assert "no owner" in zonectl("plan", config).err
        assert zonectl("plan", config, "--owner", "acme").exit_code == 2

    @pytest.mark.parametrize("text", ["ownr: x\n", "owner: 1\n", "[1]\n", "a: [\n"])
    def test_refuses_settings_it_does_not_know(
        self, config: Any, server: FakeServer, zonectl: Zonectl, text: str
    ) -> None:
        """A typo must not change who owns what."""
        config.write("zonectl.yaml", text)
        config.write("zone.yaml", ZONE)

        assert zonectl("plan", config).exit_code == 64


class TestApply:
    def test_a_saved_plan_is_applied_as_it_is(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World
    ) -> None:
        """What was reviewed is what happens; the receipt says what did."""
        config.write("zone.yaml", ZONE)
        zonectl("plan", config, "--out", tmp_path / "plan.json")
        config.write("zone.yaml", ZONE.replace("name: workforce}\nspec", "name: other}\nspec"))
        result = zonectl("apply", tmp_path / "plan.json", "--receipt", tmp_path / "receipt.json")
        receipt = json.loads((tmp_path / "receipt.json").read_bytes())

        assert result.exit_code == 0
        assert world.find("Zone", "workforce")
        assert receipt["plan_digest"] == json.loads((tmp_path / "plan.json").read_bytes())["digest"]
        assert (receipt["base_revision"], receipt["revision"]) == (1, 2)
        assert receipt["operations"][0]["kind"] == "Zone"

    def test_a_saved_plan_applied_twice_happens_once(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World
    ) -> None:
        """Its digest is the idempotency key."""
        config.write("zone.yaml", ZONE)
        zonectl("plan", config, "--out", tmp_path / "plan.json")
        zonectl("apply", tmp_path / "plan.json")
        again = zonectl("apply", tmp_path / "plan.json")

        assert (again.exit_code, world.revision) == (0, 2)
        assert "had been applied before" in again.out

    def test_a_stale_plan_is_refused(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World
    ) -> None:
        """And says who changed what."""
        config.write("all.yaml", ZONE + "---\n" + ROLE)
        zonectl("apply", config, "--yes")
        config.write("all.yaml", ZONE + "---\n" + ROLE.replace("reads", "more"))
        zonectl("plan", config, "--out", tmp_path / "plan.json")
        world.revision += 1
        world.find("Role", "reader")["revision"] = world.revision
        result = zonectl("apply", tmp_path / "plan.json")

        assert result.exit_code == 4
        assert "was changed by somebody at 12:00" in result.err
        assert world.find("Role", "reader")["spec"]["description"] == "reads"

    def test_a_tampered_plan_is_refused(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path
    ) -> None:
        """One changed byte is another plan."""
        config.write("zone.yaml", ZONE)
        zonectl("plan", config, "--out", tmp_path / "plan.json")
        text = (tmp_path / "plan.json").read_text().replace('"protect": false', '"protect": true')
        (tmp_path / "plan.json").write_text(text)

        result = zonectl("apply", tmp_path / "plan.json")
        assert result.exit_code == 1
        assert "changed after it was made" in result.err

    def test_a_plan_goes_to_the_server_it_was_made_for(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path
    ) -> None:
        """A production key does not make a staging plan a production plan."""
        config.write("zone.yaml", ZONE)
        zonectl("plan", config, "--out", tmp_path / "plan.json")

        assert zonectl("apply", tmp_path / "plan.json", "--server", "https://other.example").exit_code == 5

    def test_expect_binds_a_path_to_a_reviewed_plan(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """The digest of a plan made before, or nothing."""
        config.write("zone.yaml", ZONE)
        digest = json.loads(zonectl("plan", config, "--output", "json").out)["digest"]
        assert zonectl("apply", config, "--expect", "sha256:0").exit_code == 4
        assert not world.entities
        assert zonectl("apply", config, "--expect", digest).exit_code == 0

    def test_asks_only_where_somebody_can_answer(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """In a pipeline `--yes` or `--expect` must have been said."""
        config.write("zone.yaml", ZONE)
        result = zonectl("apply", config)

        assert result.exit_code == 64
        assert "nobody can be asked" in result.err

    def test_guards_stand_before_the_server(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """Seven of seven roles: only with the exact count."""
        roles = [ROLE.replace("reader", f"r{n}") for n in range(7)]
        config.write("all.yaml", "---\n".join([ZONE, *roles]))
        zonectl("apply", config, "--yes")
        config.write("all.yaml", ZONE)
        server.bodies.clear()

        assert zonectl("apply", config, "--yes").exit_code == 5
        assert zonectl("apply", config, "--yes", "--consent", "deletes=6").exit_code == 5
        assert not server.bodies
        assert zonectl("apply", config, "--yes", "--allow-deletes", "7").exit_code == 0
        assert len([each for each in world.entities.values() if each["kind"] == "Role"]) == 2

    def test_an_invalid_manifest_never_reaches_the_server(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """Not even a question does."""
        config.write("zone.yaml", ZONE.replace("name: workforce}\nspec", "nme: workforce}\nspec"))

        assert zonectl("apply", config, "--yes").exit_code == 1
        assert not server.requests

    def test_one_bad_operation_applies_none(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """The message says which."""
        config.write("all.yaml", ZONE + "---\n" + ROLE + "---\n" + AGENT.replace("Agent", "forbidden"))
        result = zonectl("apply", config, "--yes")

        assert result.exit_code == 1
        assert "all.yaml:11: Application workforce/agent" in result.err
        assert not world.entities

    def test_an_apply_of_nothing_sends_nothing(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """And is done."""
        config.write("zone.yaml", ZONE)
        zonectl("apply", config, "--yes")
        server.bodies.clear()

        assert zonectl("apply", config, "--yes").exit_code == 0
        assert not server.bodies


class TestSecrets:
    def test_are_sent_and_nothing_else(
        self,
        config: Any,
        server: FakeServer,
        zonectl: Zonectl,
        world: World,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        """Read at the moment of the write; printed nowhere, kept nowhere."""
        monkeypatch.setenv("OKTA", "s3cr3t-value")
        config.write("all.yaml", ZONE + "---\n" + PROVIDER)
        result = zonectl("apply", config, "--yes", "--receipt", tmp_path / "receipt.json")

        assert list(world.secrets.values()) == ["s3cr3t-value"]
        assert "s3cr3t-value" not in result.out + result.err + (tmp_path / "receipt.json").read_text()
        assert zonectl("plan", config).exit_code == 0

    def test_that_are_missing_stop_everything(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """Before anything is sent; all of them are named."""
        config.write("all.yaml", ZONE + "---\n" + PROVIDER)
        result = zonectl("apply", config, "--yes")

        assert result.exit_code == 1
        assert "Provider okta: the environment variable `OKTA` is not set" in result.err
        assert not server.bodies

    def test_come_from_files_beside_the_manifest(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """The line's end does not belong to the secret."""
        config.write("zone.yaml", ZONE)
        config.write("a/okta.txt", "from a file\n")
        config.write("a/okta.yaml", PROVIDER.replace("from_env: OKTA", "from_file: okta.txt"))

        assert zonectl("apply", config, "--yes").exit_code == 0
        assert list(world.secrets.values()) == ["from a file"]

    def test_cannot_be_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither by printing nor by formatting nor by JSON."""
        import pickle

        monkeypatch.setenv("X", "s3cr3t")
        secret = read_secret({"from_env": "X"}, Path())

        assert "s3cr3t" not in f"{secret} {secret!r} {[secret]}"
        assert isinstance(secret, Secret)
        assert not hasattr(secret, "__dict__")
        with pytest.raises(TypeError):
            orjson.dumps(secret)
        with pytest.raises(TypeError):
            pickle.dumps(secret)

    def test_own_credential_is_no_secret_of_a_manifest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A manifest cannot have it sent to a provider that its author has chosen."""
        for name in ("OKTA", "ZONECTL_API_KEY", "ZONECTL_CLIENT_SECRET"):
            monkeypatch.setenv(name, "s3cr3t")
        assert read_secret({"from_env": "OKTA"}, Path()).reveal() == "s3cr3t"

        for name in ("ZONECTL_API_KEY", "ZONECTL_CLIENT_SECRET"):
            with pytest.raises(SecretMissing, match="zonectl's own"):
                read_secret({"from_env": name}, Path())

    @pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"x" * 100_000])
    def test_that_are_no_secrets_are_refused(self, tmp_path: Path, content: bytes) -> None:
        """Empty, binary or huge files are mistakes."""
        (tmp_path / "x").write_bytes(content)

        with pytest.raises(SecretMissing):
            read_secret({"from_file": "x"}, tmp_path)


class TestShownOnce:
    def test_is_written_to_files_of_this_user(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path
    ) -> None:
        """Mode 0600, named after zone and manifest, and not in the output."""
        config.write("all.yaml", CREDENTIAL)
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")
        file = tmp_path / "secrets" / "workforce.agent-key.json"
        content = json.loads(file.read_bytes())
        entity = world.find("ApplicationCredential", "agent-key")

        assert result.exit_code == 0
        assert content == {"identifier": "agent-key", "password": f"password of {entity['id']}"}
        assert file.stat().st_mode & 0o777 == 0o600
        assert content["password"] not in result.out + result.err

    def test_without_a_place_nothing_is_sent(self, config: Any, server: FakeServer, zonectl: Zonectl) -> None:
        """A secret nobody can keep must not be made."""
        config.write("all.yaml", CREDENTIAL)
        result = zonectl("apply", config, "--yes")

        assert result.exit_code == 5
        assert "--secrets-dir" in result.err
        assert not server.bodies

    def test_that_got_lost_is_said(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path
    ) -> None:
        """The changeset is applied, and the secret is gone: that is a failure."""
        config.write("all.yaml", CREDENTIAL)
        server.drop_answers = 1
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path)

        assert result.exit_code == 1
        assert "did not arrive" in result.err


class TestDrift:
    def test_shows_only_what_others_changed(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """What git has pending is not drift."""
        config.write("all.yaml", ZONE + "---\n" + ROLE)
        zonectl("apply", config, "--yes")
        config.write("more.yaml", AGENT)
        assert zonectl("drift", config).exit_code == 0
        world.find("Role", "reader")["spec"]["description"] = "by hand"
        world.revision += 1
        result = zonectl("drift", config)

        assert result.exit_code == 3
        assert 'description: "by hand" -> "reads"' in result.out
        assert "agent" not in result.out
        assert json.loads(zonectl("drift", config, "--output", "json").out)["drift"][0]["name"] == "reader"


class TestWatch:
    def test_runs_at_once_and_on_every_save_until_interrupted(
        self, config: Any, server: FakeServer, world: World, tmp_path: Path
    ) -> None:
        """Several saves in a moment are one run; Ctrl-C ends it with 130."""
        config.write("zone.yaml", ZONE)
        out = tmp_path / "out"
        with out.open("wb") as stream:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "from reconciler.cli import main; main()",
                    "watch",
                    str(config),
                    "--apply",
                ],
                stdout=stream,
                stderr=stream,
            )
        try:
            _until(lambda: world.entities, out)
            time.sleep(0.5)  # the watcher begins after the first run
            config.write("role.yaml", ROLE.replace("description", "descripton"))
            _until(lambda: b"did you mean `description`?" in out.read_bytes(), out)
            config.write("role.yaml", ROLE)
            _until(lambda: any(each["handle"] == "reader" for each in list(world.entities.values())), out)
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 130
        finally:
            process.kill()
            process.wait()


def _until(done: Callable[[], Any], out: Path) -> None:
    give_up = threading.Event()
    timer = threading.Timer(20, give_up.set)
    timer.start()
    while not done():
        assert not give_up.wait(0.05), out.read_text()
    timer.cancel()


class TestSchema:
    def test_editors_get_one_schema_for_all_kinds(self, tmp_path: Path, zonectl: Zonectl, kinds: Any) -> None:
        """`kind` decides which part applies; local references still lead somewhere."""
        from jsonschema_rs import Draft202012Validator

        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "a.yaml").write_text(ZONE)
        (tmp_path / "compose.yaml").write_text("services: {}\n")
        assert zonectl("schema", "--dir", tmp_path).exit_code == 0
        schema = json.loads((tmp_path / ".vscode/zonewright.schema.json").read_bytes())
        settings = json.loads((tmp_path / ".vscode/settings.json").read_bytes())
        validator = Draft202012Validator(schema)

        assert settings["yaml.schemas"] == {
            "./.vscode/zonewright.schema.json": ["config/**/*.{yaml,yml}", "!**/zonectl.yaml"]
        }
        good = {
            "apiVersion": "zonewright/v1",
            "kind": "Zone",
            "metadata": {"name": "a"},
            "spec": {"name": "A"},
        }
        assert validator.is_valid(good)
        assert not validator.is_valid({**good, "spec": {"nme": "A"}})
        assert not validator.is_valid({**good, "kind": "Role"})
        assert set(schema["$defs"]) == set(kinds.by_name)

    def test_other_settings_stay(self, tmp_path: Path, zonectl: Zonectl) -> None:
        """And those that cannot be read are left alone."""
        settings = tmp_path / ".vscode" / "settings.json"
        settings.parent.mkdir()
        settings.write_text('{"editor.tabSize": 2, "yaml.schemas": {"x": ["y"]}}')
        zonectl("schema", "--dir", tmp_path, "--glob", "*.yaml")
        content = json.loads(settings.read_bytes())
        assert content["editor.tabSize"] == 2
        assert content["yaml.schemas"]["x"] == ["y"]

        settings.write_text("{ // comment\n}")
        result = zonectl("schema", "--dir", tmp_path)
        assert result.exit_code == 1
        assert settings.read_text() == "{ // comment\n}"

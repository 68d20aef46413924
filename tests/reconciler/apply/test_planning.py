"""`zonectl plan` and `zonectl drift` against a real HTTP server: exit codes, requests and output."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.apply.texts import AGENT, PROVIDER, ROLE, ZONE, Zonectl
from tests.reconciler.factories import plan_for
from tests.reconciler.fake_server import FakeServer, World

from reconciler.apply import server_problems
from reconciler.client import Rejected


def edits_by_hand(world: World) -> None:
    """Somebody changes the role on the server."""
    world.find("Role", "reader")["spec"]["description"] = "by hand"
    world.revision += 1


class TestExitCodes:
    @pytest.fixture
    def applied(self, config: Any, server: FakeServer, zonectl: Zonectl) -> Any:
        """A configuration of a zone and a role, as the server has it."""
        config.write("zone.yaml", ZONE)
        config.write("role.yaml", ROLE)
        assert zonectl("apply", config, "--yes").exit_code == 0
        return config

    def test_2_where_there_are_changes(self, config: Any, server: FakeServer, zonectl: Zonectl) -> None:
        """An apply would do something."""
        config.write("zone.yaml", ZONE)
        config.write("role.yaml", ROLE)
        assert zonectl("plan", config).exit_code == 2

    def test_0_where_there_are_none(self, applied: Any, zonectl: Zonectl) -> None:
        """Right after an apply the server is as git says."""
        assert zonectl("plan", applied).exit_code == 0

    def test_3_where_only_others_changed_something(
        self, applied: Any, world: World, zonectl: Zonectl
    ) -> None:
        """All that the plan would do is to put back what git says."""
        edits_by_hand(world)
        assert zonectl("plan", applied).exit_code == 3

    def test_4_where_git_and_others_changed_the_same_member(
        self, applied: Any, world: World, zonectl: Zonectl
    ) -> None:
        """A conflict needs consent."""
        edits_by_hand(world)
        applied.write("role.yaml", ROLE.replace("reads", "in git"))
        assert zonectl("plan", applied).exit_code == 4

    def test_1_where_a_manifest_is_not_valid(self, applied: Any, zonectl: Zonectl) -> None:
        """A member that no Role has."""
        applied.write("role.yaml", ROLE.replace("description", "descripton"))
        assert zonectl("plan", applied).exit_code == 1

    def test_5_where_the_plan_is_refused(self, applied: Any, world: World, zonectl: Zonectl) -> None:
        """Seven deletions are consented to, and the plan has one."""
        edits_by_hand(world)
        (applied.path / "role.yaml").unlink()
        assert zonectl("plan", applied, "--consent", "deletes=7").exit_code == 5

    @pytest.mark.parametrize("command", ["plan", "validate", "drift", "apply", "watch"])
    def test_64_where_there_are_no_manifests(
        self, config: Any, server: FakeServer, zonectl: Zonectl, command: str
    ) -> None:
        """A wrong path is an error in usage, of every command that reads manifests."""
        empty = zonectl(command, config)
        assert (empty.exit_code, empty.out) == (64, "")
        assert f"there are no manifests in `{config}`" in empty.err

    @pytest.mark.parametrize("arguments", [["--nonsense"], ["--consent", "everything=1"]], ids=" ".join)
    def test_64_where_an_option_is_unknown(
        self, applied: Any, zonectl: Zonectl, arguments: list[str]
    ) -> None:
        """An option that does not exist, or a consent of no known kind."""
        assert zonectl("plan", applied, *arguments).exit_code == 64


class TestPlan:
    def test_says_whose_key_is_not_accepted(
        self, config: Any, server: FakeServer, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The key of another server is the likeliest mistake."""
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_other")
        config.write("zone.yaml", ZONE)
        result = zonectl("plan", config)

        assert result.exit_code == 1
        assert f"{server.url} does not accept this API key: the bearer credential is not valid" in result.err

    def test_says_which_member_is_refused(self, world: World) -> None:
        """Also when it is not one of an operation, such as the owner."""
        error = Rejected(400, "validation_error", "no", [{"field": "owner", "message": "is too long"}])

        assert [str(each) for each in server_problems(error, plan_for(world, []))] == ["`owner`: is too long"]

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
        result = zonectl("plan", config, "--out", tmp_path / "plan.json", "--allow-env", "OKTA")

        assert server.bodies[0]["operations"][1]["spec"]["client_secret"] == {"secret": True}
        assert 'client_secret: set to version "1" from the environment variable `OKTA`' in result.out
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
        told = "agent.yaml:4:14: error: Application workforce/agent `name`: may not be `forbidden`"
        assert told in result.err

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

        assert "no owner: " in zonectl("plan", config).err
        (config.path / "zonectl.yaml").unlink()
        told = zonectl("plan", config)
        assert told.exit_code == 64
        assert (
            "zonectl.yaml, which names the owner of the manifests: write one with `owner: NAME`" in told.err
        )
        assert zonectl("plan", config, "--owner", "acme").exit_code == 2

    @pytest.mark.parametrize("text", ["ownr: x\n", "owner: 1\n", "[1]\n", "a: [\n"])
    def test_refuses_settings_it_does_not_know(
        self, config: Any, server: FakeServer, zonectl: Zonectl, text: str
    ) -> None:
        """A typo must not change who owns what."""
        config.write("zonectl.yaml", text)
        config.write("zone.yaml", ZONE)

        assert zonectl("plan", config).exit_code == 64


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

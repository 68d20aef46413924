"""`zonectl apply`: exactly the reviewed plan is applied, completely or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.apply.texts import AGENT, ROLE, ZONE, Zonectl
from tests.reconciler.fake_server import FakeServer, World

from reconciler.plan.model import digest_of

HEAD = "---\napiVersion: zonewright/v1\nkind: {}\nmetadata: {{zone: {}, name: {}}}\nspec: {}\n"
ZONES = ("production", "staging")


TWO_ZONES = "---\n".join(ZONE.replace("workforce", zone) for zone in ZONES) + "".join(
    HEAD.format("Role", zone, name, f"{{description: {name}}}") for zone in ZONES for name in ("low", "high")
)


class Saved:
    """A saved plan for the zone `staging`, as somebody may have changed it."""

    def __init__(self, file: Path, world: World) -> None:
        self.file, self.world = file, world
        self.content = json.loads(file.read_bytes())

    def id(self, zone: str, kind: str, handle: str) -> str:
        """The id of what is called so in a zone."""
        zone_id = self.world.find("Zone", zone)["id"]
        for each in self.world.entities.values():
            if (each["zone_id"], each["kind"], each["handle"]) == (zone_id, kind, handle):
                return str(each["id"])
        raise KeyError(handle)

    def forge(self, how: str) -> None:
        """Let the operations be about `production`, where the text still speaks of `staging`."""
        if how in ("updated", "deleted", "adopted"):
            kind, name = {"updated": ("Role", "low"), "deleted": ("Group", "g")}.get(
                how, ("Group", "by-hand")
            )
            text = json.dumps(self.content)
            self.content = json.loads(
                text.replace(self.id("staging", kind, name), self.id("production", kind, name))
            )
        for operation in self.content["operations"]:
            if how == "zone":
                operation["zone"] = {"id": self.world.find("Zone", "production")["id"]}
            if how == "reference" and operation["op"] == "create":
                operation["spec"]["role_id"] = self.id("staging", "Role", "high")
        del self.content["digest"]
        self.file.write_text(json.dumps({**self.content, "digest": digest_of(self.content)}))


class TestApply:
    @pytest.mark.threat("37b", "49q")
    @pytest.mark.parametrize("how", ["", "updated", "deleted", "adopted", "zone", "reference"])
    def test_a_saved_plan_is_about_what_it_names(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World, how: str
    ) -> None:
        """An id that is of something else than the text says is refused, and nothing else is."""
        groups = [HEAD.format("Group", zone, "g", "{name: G}") for zone in ZONES]
        config.write("all.yaml", "".join([TWO_ZONES, *groups]))
        assert zonectl("apply", config, "--yes").exit_code == 0
        for zone in ZONES:
            world.add("Group", {"identifier": "by-hand", "name": "B"}, world.find("Zone", zone)["id"])
        role = HEAD.format("Role", "staging", "low", "{description: low}")
        texts = [
            TWO_ZONES.replace(role, role.replace("description: low", "description: lower")),
            groups[0],
            HEAD.format("RoleAssignment", "staging", "grant", "{role: low, principal: {user: a@x.example}}"),
            HEAD.format("Group", "staging", "by-hand", "{name: B, members: [a@x.example]}"),
        ]
        config.write("all.yaml", "".join(texts))
        assert zonectl("plan", config, "--out", tmp_path / "plan.json").exit_code == 2
        saved = Saved(tmp_path / "plan.json", world)
        assert {each["op"] for each in saved.content["operations"]} == {"update", "create", "adopt", "delete"}
        saved.forge(how)
        before = world.revision

        done = zonectl("apply", saved.file, "--root", config)

        assert (done.exit_code, world.revision) == ((5, before) if how else (0, before + 1)), done

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
        assert "already applied, as revision 2: 1 created; nothing was changed now" in again.out

    @pytest.mark.parametrize("name", ["plan.json", "tfplan", "review.plan"])
    def test_a_saved_plan_has_any_name_but_a_manifests(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, name: str
    ) -> None:
        config.write("zone.yaml", ZONE)
        assert zonectl("plan", config, "--out", tmp_path / name).exit_code == 2
        assert zonectl("apply", tmp_path / name).exit_code == 0

        refused = zonectl("plan", config, "--out", tmp_path / f"{name}.yaml")

        assert refused.exit_code == 64
        assert "`.yaml` is the extension of manifests" in refused.err
        assert not (tmp_path / f"{name}.yaml").exists()

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
        again = zonectl("apply", config, "--expect", digest, "--consent", "deletes=2")
        assert (again.exit_code, again.err) == (
            0,
            f"note: there is nothing to do, so `--expect {digest}` was ignored\n",
        )

    def test_expect_holds_whatever_else_is_written_meanwhile(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """Others apply between the review and the merge. What was undone by hand is done again."""
        config.write("zone.yaml", ZONE)
        digest = json.loads(zonectl("plan", config, "--output", "json").out)["digest"]
        world.revision += 3

        assert zonectl("apply", config, "--expect", digest).exit_code == 0
        made = set(world.entities)
        world.entities.clear()
        world.revision += 1

        assert zonectl("apply", config, "--expect", digest).exit_code == 0
        assert world.entities
        assert made.isdisjoint(world.entities)

    def test_asks_only_where_somebody_can_answer(
        self, config: Any, server: FakeServer, zonectl: Zonectl
    ) -> None:
        """In a pipeline `--yes` or `--expect` must have been said."""
        config.write("zone.yaml", ZONE)
        result = zonectl("apply", config)

        assert result.exit_code == 64
        assert "standard input is not a terminal" in result.err

    def test_guards_stand_before_the_server(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """Seven of seven roles: only with the exact count. Nothing but a dry run is sent."""
        roles = [ROLE.replace("reader", f"r{n}") for n in range(7)]
        config.write("all.yaml", "---\n".join([ZONE, *roles]))
        zonectl("apply", config, "--yes")
        config.write("all.yaml", ZONE)
        before = len(server.requests)

        assert zonectl("apply", config, "--yes").exit_code == 5
        assert zonectl("apply", config, "--yes", "--consent", "deletes=6").exit_code == 5
        sent = [path for method, path in server.requests[before:] if method == "POST"]
        assert len(sent) == 2
        assert all(path.endswith("?dry_run=true") for path in sent)
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
        assert "all.yaml:14:14: error: Application workforce/agent" in result.err
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

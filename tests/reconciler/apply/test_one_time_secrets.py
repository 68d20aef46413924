"""Secrets that the server shows once: kept for this user, or not made."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.reconciler.apply.texts import AGENT, CREDENTIAL, KEY, ZONE, Zonectl
from tests.reconciler.fake_server import ORGANIZATION, FakeServer, World

from reconciler.apply.one_time_secrets import file_name


class TestShownOnce:
    def test_is_written_to_files_of_this_user(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path
    ) -> None:
        """Mode 0600, named after zone and manifest, and not in the output."""
        config.write("all.yaml", CREDENTIAL)
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")
        file = tmp_path / "secrets" / "workforce.ApplicationCredential.agent-key.json"
        content = json.loads(file.read_bytes())
        entity = world.find("ApplicationCredential", "agent-key")

        assert result.exit_code == 0
        assert content == {
            "organization_id": ORGANIZATION,
            "zone": "workforce",
            "kind": "ApplicationCredential",
            "name": "agent-key",
            "id": entity["id"],
            "identifier": "agent-key",
            "password": f"password of {entity['id']}",
        }
        assert file.stat().st_mode & 0o777 == 0o600
        assert content["password"] not in result.out + result.err

    def test_without_a_place_nothing_is_sent(self, config: Any, server: FakeServer, zonectl: Zonectl) -> None:
        """A secret nobody can keep must not be made."""
        config.write("all.yaml", CREDENTIAL)
        result = zonectl("apply", config, "--yes")

        assert result.exit_code == 5
        assert "--secrets-dir" in result.out
        assert result.err == "error: refused; nothing was changed\n"  # the reason is not printed twice
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

    def test_that_got_lost_is_seen_and_made_anew(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path
    ) -> None:
        """Every plan says so until it is asked for; nothing is replaced unasked."""
        config.write("all.yaml", CREDENTIAL)
        server.drop_answers = 1
        zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept")
        lost = world.find("ApplicationCredential", "agent-key")["id"]

        plan = zonectl("plan", config)
        assert (plan.exit_code, "nothing to do" in plan.out) == (0, True)
        assert "perhaps lost: ApplicationCredential workforce/agent-key: its secret" in plan.out
        told = json.loads(zonectl("plan", config, "--output", "json").out)
        assert told["undelivered"] == ["ApplicationCredential workforce/agent-key"]
        zonectl("apply", config, "--yes")
        assert world.find("ApplicationCredential", "agent-key")["id"] == lost

        renewing = zonectl("plan", config, "--renew-lost")
        assert renewing.exit_code == 2
        assert "-/+ replace ApplicationCredential workforce/agent-key" in renewing.out
        assert "lost: " not in renewing.out
        zonectl("apply", config, "--yes", "--renew-lost", "--secrets-dir", tmp_path / "kept")
        renewed = world.find("ApplicationCredential", "agent-key")["id"]
        (file,) = (tmp_path / "kept").glob("*.json")
        assert json.loads(file.read_bytes())["password"] == f"password of {renewed}"
        assert renewed != lost
        assert "lost" not in zonectl("plan", config, "--renew-lost").out

    def test_that_arrived_is_confirmed(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path
    ) -> None:
        """No plan speaks of it, and asking for lost ones replaces nothing."""
        config.write("all.yaml", CREDENTIAL)
        zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept")

        done = zonectl("plan", config, "--renew-lost")
        assert (done.exit_code, "lost: " in done.out) == (0, False)

    def test_of_which_the_server_is_not_told_is_no_failure(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path
    ) -> None:
        """The secret is in its file, and plans doubt it; an apply that sees the file gives word again."""
        config.write("all.yaml", CREDENTIAL)
        answered = server.changeset

        def refusing(request: Any, content: bytes, *, dry_run: bool) -> None:
            if b'"delivered"' in content:
                server.send(request, 409, {"code": "conflict", "message": "not now"})
            else:
                answered(request, content, dry_run=dry_run)

        server.changeset = refusing  # type: ignore[method-assign]
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept")

        assert (result.exit_code, len(list((tmp_path / "kept").glob("*.json")))) == (0, 1)
        assert "the server has no confirmation (not now)" in result.err
        assert "perhaps lost: " in zonectl("plan", config).out
        told_nothing = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept")
        assert (told_nothing.exit_code, "confirmed" in told_nothing.err) == (0, False)

        server.changeset = answered  # type: ignore[method-assign]
        key = world.find("ApplicationCredential", "agent-key")["id"]
        (file,) = (tmp_path / "kept").glob("*.json")
        content = json.loads(file.read_bytes())
        file.write_text(json.dumps({**content, "id": "another"}))  # the secret of one before it
        assert "confirmed" not in zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept").err
        file.write_text(json.dumps(content))
        done = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "kept")
        assert "confirmed: the secret of ApplicationCredential workforce/agent-key is in" in done.err
        assert "lost" not in zonectl("plan", config).out
        assert world.find("ApplicationCredential", "agent-key")["id"] == key


class TestAppliedAgain:
    """The same saved plan, whose secrets the server shows only to the first apply."""

    @pytest.fixture
    def apply(self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path) -> Any:
        """Applies the saved plan with that directory for secrets."""
        config.write("all.yaml", CREDENTIAL)
        zonectl("plan", config, "--out", tmp_path / "plan.json")
        return lambda directory, *options: zonectl(
            "apply", tmp_path / "plan.json", "--secrets-dir", tmp_path / directory, *options
        )

    def test_names_the_file_that_has_the_secret(self, apply: Any, tmp_path: Path) -> None:
        """It is no failure; and the document names the file, too."""
        apply("kept")
        (file,) = (tmp_path / "kept").iterdir()
        again = apply("kept")
        document = json.loads(apply("kept", "--output", "json").out)

        assert (again.exit_code, again.err) == (0, "")
        assert f"the secret of ApplicationCredential workforce/agent-key is in {file}" in again.out
        assert document["secret_files"] == [str(file)]
        assert "problems" not in document

    def test_knows_from_the_server_that_it_was_delivered(self, apply: Any) -> None:
        """Where the file is in another directory, or was moved away."""
        apply("kept")
        again = apply("elsewhere")

        assert (again.exit_code, again.err) == (0, "")
        assert "workforce/agent-key was delivered by that apply" in again.out

    def test_confirms_what_is_in_its_file(
        self, apply: Any, server: FakeServer, world: World, tmp_path: Path
    ) -> None:
        """The first apply could not."""
        apply("kept")
        world.find("ApplicationCredential", "agent-key")["ownership"]["undelivered"] = True
        world.revision += 1

        assert apply("kept").exit_code == 0
        assert not world.find("ApplicationCredential", "agent-key")["ownership"]["undelivered"]

    def test_says_that_it_is_lost_where_nobody_has_it(self, apply: Any, server: FakeServer) -> None:
        """The answer that showed it did not arrive."""
        server.drop_answers = 1
        assert (first := apply("kept")).exit_code == 1
        assert "did not arrive" in first.err
        assert "did not arrive" in apply("kept").err


class TestGit:
    """A directory in a work tree of git: a `git add` must not commit the secrets."""

    @pytest.fixture
    def apply(self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path) -> Any:
        """Applies the configuration, in a repository, with `secrets` in it for secrets."""
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        config.write("all.yaml", CREDENTIAL)
        return lambda: zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")

    def test_that_zonectl_makes_is_ignored(self, apply: Any, tmp_path: Path) -> None:
        """By a `.gitignore` of its own, and nothing is said."""
        assert apply().err == ""
        assert (tmp_path / "secrets" / ".gitignore").read_text() == "*\n"
        assert "secrets" not in status_of(tmp_path)

    @pytest.mark.parametrize("ignored", [True, False])
    def test_that_is_there_is_left_alone(self, apply: Any, tmp_path: Path, ignored: bool) -> None:
        """Whoever made it is warned, unless the repository ignores it."""
        (tmp_path / "secrets").mkdir()
        if ignored:
            (tmp_path / ".gitignore").write_text("secrets/\n")
        done = apply()

        assert done.exit_code == 0
        assert ("warning: `git add` would commit the secrets in " in done.err) is not ignored
        assert ("secrets" in status_of(tmp_path)) is not ignored
        assert not (tmp_path / "secrets" / ".gitignore").exists()


def status_of(repository: Path) -> str:
    """The files that `git add` would take along."""
    done = subprocess.run(
        ["git", "-C", str(repository), "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def credentials(*places: tuple[str, str]) -> str:
    """Manifests of zones with an application each, and its credentials: pairs of zone and name."""
    texts = []
    for zone in dict.fromkeys(zone for zone, _ in places):
        texts += [ZONE.replace("workforce", zone), AGENT.replace("workforce", zone)]
    texts += [KEY.replace("workforce", zone).replace("agent-key", name) for zone, name in places]
    return "---\n".join(texts)


class TestNames:
    @pytest.mark.parametrize(
        "places",
        [
            [("a", "key"), ("b", "key")],
            [("a", "b.c"), ("a.b", "c")],
            [("a", "b~c"), ("a", "b%7Ec"), ("a", "b.c"), ("a", "b%2Ec")],
        ],
    )
    def test_each_secret_has_a_file_of_its_own(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path, places: Any
    ) -> None:
        """Whatever zones and credentials are called: each file holds the secret of what it names."""
        config.write("all.yaml", credentials(*places))
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")
        contents = [json.loads(file.read_bytes()) for file in (tmp_path / "secrets").iterdir()]

        assert result.exit_code == 0
        assert sorted((each["zone"], each["name"]) for each in contents) == sorted(places)
        made = {
            (world.entities[each["zone_id"]]["ownership"]["name"], each["ownership"]["name"]): each["id"]
            for each in world.entities.values()
            if each["kind"] == "ApplicationCredential"
        }
        assert {(each["zone"], each["name"]): each["password"] for each in contents} == {
            key: f"password of {made[key]}" for key in ((each["zone"], each["name"]) for each in contents)
        }

    @given(some.tuples(*[some.text(min_size=1, max_size=8, alphabet="ab.%~2E7 /é")] * 6))
    def test_no_two_objects_have_one_file(self, parts: tuple[str, ...]) -> None:
        """By construction, not by luck."""
        first, second = parts[:3], parts[3:]
        assert (file_name(*first) == file_name(*second)) == (first == second)
        assert file_name(None, first[1], first[2]) != file_name(*second)

    @given(some.text(min_size=1, max_size=255), some.text(min_size=1, max_size=255))
    def test_a_name_fits_a_file_system(self, zone: str, name: str) -> None:
        """However long; and it names no other directory."""
        made = file_name(zone, "ApplicationCredential", name)
        assert len(made.encode()) <= 255
        assert "/" not in made
        assert not made.startswith(".")

    def test_long_names_differ_too(self) -> None:
        """Also one that is what another was cut to."""
        long = [file_name("z", "K", "n" * 300 + end) for end in "ab"]
        assert len({*long, file_name("z", "K", long[0].removesuffix(".json").removeprefix("z.K."))}) == 3


class TestOlderFiles:
    def test_of_the_same_object_are_replaced(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World, tmp_path: Path
    ) -> None:
        """A credential that is made again has a new secret, and the old one is worth nothing."""
        config.write("all.yaml", CREDENTIAL)
        zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")
        (file,) = (tmp_path / "secrets").iterdir()
        before = json.loads(file.read_bytes())["password"]
        world.delete(world.find("ApplicationCredential", "agent-key")["id"])
        again = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")

        assert again.exit_code == 0
        assert json.loads(file.read_bytes())["password"] != before

    @pytest.mark.parametrize("member", ["organization_id", "zone", "kind", "name", None])
    def test_of_another_object_are_left_alone(
        self,
        config: Any,
        server: FakeServer,
        zonectl: Zonectl,
        world: World,
        tmp_path: Path,
        member: str | None,
    ) -> None:
        """Another organization's, as where one configuration is applied to two; or something else."""
        config.write("all.yaml", CREDENTIAL)
        assert zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "ok").exit_code == 0
        (made,) = (tmp_path / "ok").iterdir()
        content = {**json.loads(made.read_bytes()), member: "another"} if member else ["not ours"]
        file = tmp_path / "secrets" / made.name
        file.parent.mkdir()
        file.write_text(json.dumps(content))
        world.delete(world.find("ApplicationCredential", "agent-key")["id"])
        server.bodies.clear()

        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path / "secrets")

        assert result.exit_code == 5
        assert str(file) in result.out
        assert "is not an older secret of the same object" in result.out
        assert not server.bodies
        assert json.loads(file.read_text()) == content

    def test_that_appear_meanwhile_are_left_alone_too(
        self, config: Any, server: FakeServer, zonectl: Zonectl, tmp_path: Path, world: World
    ) -> None:
        """The other secrets still arrive, and the one that did not is named."""
        config.write("all.yaml", credentials(("a", "key"), ("b", "key")))
        file = tmp_path / "a.ApplicationCredential.key.json"
        applied = world.changeset

        def meanwhile(body: Any, *, dry_run: bool = False) -> Any:
            file.write_text("somebody else's")
            return applied(body, dry_run=dry_run)

        world.changeset = meanwhile  # type: ignore[method-assign]
        result = zonectl("apply", config, "--yes", "--secrets-dir", tmp_path)

        assert result.exit_code == 1
        assert "ApplicationCredential a/key" in result.err
        assert file.read_text() == "somebody else's"
        assert json.loads((tmp_path / "b.ApplicationCredential.key.json").read_bytes())["zone"] == "b"

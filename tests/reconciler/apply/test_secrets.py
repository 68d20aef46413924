"""The secrets of manifests: sent where they belong, and shown nowhere."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.reconciler.apply.texts import PROVIDER, ZONE, Zonectl
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.plan.values import action, plan

from reconciler.apply.allowed_env import AllowedNames
from reconciler.apply.secrets import (
    SecretMissing,
    SecretSources,
    SecretValue,
    read_secret,
    secret_refusals,
)
from reconciler.files import Root
from reconciler.plan import FieldChange
from reconciler.plan.model import Op


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
        result = zonectl(
            "apply", config, "--yes", "--receipt", tmp_path / "receipt.json", "--allow-env", "OKTA"
        )

        assert list(world.secrets.values()) == ["s3cr3t-value"]
        assert "s3cr3t-value" not in result.out + result.err + (tmp_path / "receipt.json").read_text()
        assert zonectl("plan", config).exit_code == 0

    def test_that_are_missing_stop_everything(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """Before anything is sent; all of them are named."""
        config.write("all.yaml", ZONE + "---\n" + PROVIDER)
        result = zonectl("apply", config, "--yes", "--allow-env", "OKTA")

        assert result.exit_code == 1
        assert "Provider okta: the environment variable `OKTA` is not set" in result.err
        assert not server.bodies

    def test_that_are_not_set_where_a_plan_is_made_are_told(
        self, config: Any, server: FakeServer, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The plan is none the worse for it; what may not be read at all is refused, as before."""
        config.write("all.yaml", ZONE + "---\n" + PROVIDER)
        told = (
            "note: the environment variable `OKTA` is not set here, and `apply` reads it for"
            " Provider workforce/okta `client_secret`"
        )
        unset = zonectl("plan", config, "--allow-env", "OKTA")
        assert (unset.exit_code, told in unset.out) == (2, True), unset.out
        refused = zonectl("plan", config)
        assert (refused.exit_code, "note: " in refused.out) == (5, False)
        assert "allow it with `--allow-env OKTA`" in refused.out
        monkeypatch.setenv("OKTA", "s3cr3t-value")
        assert "note: " not in zonectl("plan", config, "--allow-env", "OKTA").out

    def test_come_from_files_beside_the_manifest(
        self, config: Any, server: FakeServer, zonectl: Zonectl, world: World
    ) -> None:
        """The line's end does not belong to the secret."""
        config.write("zone.yaml", ZONE)
        config.write("a/okta.txt", "from a file\n")
        config.write("a/okta.yaml", PROVIDER.replace("from_env: OKTA", "from_file: okta.txt"))

        assert zonectl("apply", config, "--yes").exit_code == 0
        assert list(world.secrets.values()) == ["from a file"]

    def test_cannot_be_shown(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Neither by printing nor by formatting nor by JSON."""
        import pickle

        monkeypatch.setenv("X", "s3cr3t")
        secret = read_secret({"from_env": "X"}, SecretSources(Root(tmp_path), (), AllowedNames.of(["X"])))

        assert "s3cr3t" not in f"{secret} {secret!r} {[secret]}"
        assert isinstance(secret, SecretValue)
        assert not hasattr(secret, "__dict__")
        with pytest.raises(TypeError):
            orjson.dumps(secret)
        with pytest.raises(TypeError):
            pickle.dumps(secret)

    @pytest.mark.parametrize("own", ["ZONECTL_API_KEY", "ZONECTL_CLIENT_SECRET"])
    def test_own_credential_is_no_secret_of_a_manifest(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str
    ) -> None:
        """A manifest cannot have it sent to a provider that its author has chosen."""
        sources = SecretSources(Root(tmp_path), (), AllowedNames.of(["OKTA", "Z*"]))
        for name in ("OKTA", own):
            monkeypatch.setenv(name, "s3cr3t")
        assert read_secret({"from_env": "OKTA"}, sources).reveal() == "s3cr3t"

        with pytest.raises(SecretMissing, match="zonectl's own"):
            read_secret({"from_env": own}, sources)

    @pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"x" * 100_000])
    def test_that_are_no_secrets_are_refused(self, tmp_path: Path, content: bytes) -> None:
        """Empty, binary or huge files are mistakes."""
        (tmp_path / "x").write_bytes(content)

        with pytest.raises(SecretMissing):
            read_secret({"from_file": "x"}, SecretSources(Root(tmp_path)))


def refusals(tmp_path: Path, file: str) -> list[str]:
    """Why a plan is refused whose provider has its secret in that file of the repository `tmp_path/work`."""
    reference = {"secret": {"from_file": file}}
    okta = action(Op.CREATE, "Provider", "okta", FieldChange("client_secret", None, reference))
    return [each.message for each in secret_refusals(plan(okta), SecretSources(Root(tmp_path / "work")))]


class TestFilesThatAreNotRead:
    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path) -> None:
        """One in the repository, one that is hidden there, one outside."""
        for name in ("work/okta.txt", "work/.hidden/okta.txt", "mounted/okta.txt"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("s3cr3t")

    def test_none_is_in_the_repository(self, tmp_path: Path) -> None:
        """What a manifest may name is there."""
        assert refusals(tmp_path, "okta.txt") == []

    def test_outside_there_is_an_option_that_lets_them_be_read(self, tmp_path: Path) -> None:
        """The refusal names it."""
        (told,) = refusals(tmp_path, "../mounted/okta.txt")
        assert "is outside the repository" in told
        assert "`--secrets-from`" in told

    def test_hidden_ones_have_no_option(self, tmp_path: Path) -> None:
        """None is offered that would not help."""
        (told,) = refusals(tmp_path, ".hidden/okta.txt")
        assert "is hidden" in told
        assert "--secrets-from" not in told

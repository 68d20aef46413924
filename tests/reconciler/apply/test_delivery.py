"""Secrets that the server shows once: kept for this user, or not made."""

import json
from pathlib import Path
from typing import Any

from tests.reconciler.apply.texts import CREDENTIAL, Zonectl
from tests.reconciler.fake_server import FakeServer, World


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

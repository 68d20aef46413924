"""schema as it is called: one schema for all kinds, for editors."""

import json
from pathlib import Path
from typing import Any

from tests.reconciler.apply.texts import ZONE, Zonectl


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

"""`zonectl fmt`: the files it writes, those it leaves unchanged, and its output."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.files import FileRefused, Root

HEAD = "apiVersion: zonewright/v1\n"
WRITTEN = HEAD + "kind: Zone\nspec: {name: 'Acme'}\nmetadata: {name: acme}\n"
CANONICAL = HEAD + "kind: Zone\nmetadata: {name: acme}\nspec: {name: Acme}\n"
INVALID = HEAD + "kind: Zone\nspec: {nme: 'Acme'}\nmetadata: {name: acme}\n"
Zonectl = Callable[..., Any]


def test_writes_the_canonical_form(config: Any, zonectl: Zonectl) -> None:
    """The files are listed that were written."""
    file = config.write("zone.yaml", WRITTEN)

    result = zonectl("fmt", config)

    assert (result.exit_code, file.read_text()) == (0, CANONICAL)
    assert result.out == f"formatted: {file}\n1 file: 1 formatted, 0 unchanged\n"


def test_a_formatted_file_is_not_written(config: Any, zonectl: Zonectl) -> None:
    """Not even with the same content: a watcher would see it."""
    file = config.write("zone.yaml", CANONICAL)
    before = file.stat()

    result = zonectl("fmt", config)

    assert (result.exit_code, result.out) == (0, "1 file: 0 formatted, 1 unchanged\n")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_formats_the_current_directory_by_default(
    config: Any, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path need not be given."""
    file = config.write("zone.yaml", WRITTEN)
    monkeypatch.chdir(config.path)

    assert zonectl("fmt").exit_code == 0
    assert file.read_text() == CANONICAL


def test_only_what_validate_reads_is_formatted(config: Any, zonectl: Zonectl) -> None:
    """Not the settings, not hidden files, not other configurations below."""
    config.write("zone.yaml", CANONICAL)
    others = [
        config.write("zonectl.yaml", "owner: 'acme/identity'\n"),
        config.write(".hidden/zone.yaml", WRITTEN),
        config.write("nested/zonectl.yaml", "owner: 'other'\n"),
        config.write("nested/zone.yaml", WRITTEN),
    ]
    before = [each.read_text() for each in others]

    assert zonectl("fmt", config).exit_code == 0
    assert [each.read_text() for each in others] == before


class TestCheck:
    def test_exits_with_2_where_a_file_is_not_formatted(self, config: Any, zonectl: Zonectl) -> None:
        """A pipeline fails, and says of which file."""
        file = config.write("zone.yaml", WRITTEN)

        result = zonectl("fmt", "--check", config)

        assert result.exit_code == 2
        assert result.out == f"not formatted: {file}\n1 file: 1 to format, 0 unchanged\n"

    def test_writes_nothing(self, config: Any, zonectl: Zonectl) -> None:
        """It is for pipelines, and for hooks before a commit."""
        file = config.write("zone.yaml", WRITTEN)
        zonectl("fmt", "--check", config)

        assert file.read_text() == WRITTEN

    def test_exits_with_0_where_all_is_formatted(self, config: Any, zonectl: Zonectl) -> None:
        """There is nothing to do."""
        config.write("zone.yaml", CANONICAL)

        assert zonectl("fmt", "--check", config).exit_code == 0

    def test_a_file_that_is_not_valid_fails(self, config: Any, zonectl: Zonectl) -> None:
        """That is 1 also where another file would be formatted: it has to be mended first."""
        config.write("zone.yaml", WRITTEN)
        config.write("bad.yaml", INVALID)

        assert zonectl("fmt", "--check", config).exit_code == 1


class TestDiff:
    def test_is_a_unified_diff(self, config: Any, zonectl: Zonectl) -> None:
        """As git shows changes."""
        config.write("zone.yaml", WRITTEN)

        lines = zonectl("fmt", "--check", "--diff", config).out.splitlines()

        assert lines[1:3] == ["--- a/zone.yaml", "+++ b/zone.yaml"]
        assert "-spec: {name: 'Acme'}" in lines
        assert "+spec: {name: Acme}" in lines

    def test_says_that_only_line_ends_change(self, config: Any, zonectl: Zonectl) -> None:
        """Nothing is to be seen in the lines themselves."""
        config.path.joinpath("zone.yaml").write_bytes(CANONICAL.replace("\n", "\r\n").encode())

        assert "only line ends" in zonectl("fmt", "--check", "--diff", config).out

    @pytest.mark.parametrize("output", ["text", "json"])
    @pytest.mark.parametrize(
        "line",
        [
            "# client_secret: canary",
            "# token = canary",
            "# zwk_canarycanarycanary",
            "description: 'password: canary'",
        ],
    )
    def test_shows_no_secret(self, config: Any, zonectl: Zonectl, line: str, output: str) -> None:
        """One that somebody wrote where the schema takes any text is not repeated in a log."""
        head = HEAD + "kind: Zone\nmetadata: {name: acme}\nspec:\n    name: 'Acme'\n"
        config.write("zone.yaml", f"{head}    {line}\n")

        result = zonectl("fmt", "--check", "--diff", "--output", output, config)

        assert result.exit_code == 2
        assert "canary" not in result.out + result.err


class TestLeftAsTheyAre:
    def test_a_file_that_is_not_valid(self, config: Any, zonectl: Zonectl) -> None:
        """What is wrong is told as `validate` tells it."""
        file = config.write("zone.yaml", INVALID)

        result = zonectl("fmt", config)

        assert (result.exit_code, file.read_text()) == (1, INVALID)
        assert "did you mean `name`?" in result.out
        assert result.out.endswith("0 formatted, 0 unchanged, 1 skipped because of the problems above\n")

    def test_a_file_that_would_lose_a_comment(self, config: Any, zonectl: Zonectl) -> None:
        """The message says why, and what to do."""
        text = HEAD + "kind: Zone\nmetadata: {name: acme}\nspec: {name: Acme, # here\n  description: x}\n"
        file = config.write("zone.yaml", text)

        result = zonectl("fmt", config)

        assert (result.exit_code, file.read_text()) == (1, text)
        assert "the file is left as it is: a comment cannot be kept where it is" in result.out

    def test_others_are_formatted_all_the_same(self, config: Any, zonectl: Zonectl) -> None:
        """One mistake does not keep the rest from it."""
        config.write("bad.yaml", INVALID)
        file = config.write("zone.yaml", WRITTEN)

        assert zonectl("fmt", config).exit_code == 1
        assert file.read_text() == CANONICAL

    def test_a_file_outside_that_a_link_leads_to(self, config: Any, zonectl: Zonectl, tmp_path: Path) -> None:
        """A repository of a stranger formats nothing on this machine."""
        outside = tmp_path / "outside.yaml"
        outside.write_text(WRITTEN)
        (config.path / ".git").mkdir()
        (config.path / "zone.yaml").symlink_to(outside)

        result = zonectl("fmt", config)

        assert (result.exit_code, outside.read_text()) == (1, WRITTEN)
        assert "leads out of the repository through a symbolic link" in result.out


class TestInPlace:
    @pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
    def test_the_mode_is_kept(self, config: Any, zonectl: Zonectl, mode: int) -> None:
        """Formatting opens no file to others, and closes none."""
        file = config.write("zone.yaml", WRITTEN)
        file.chmod(mode)
        zonectl("fmt", config)

        assert stat.S_IMODE(file.stat().st_mode) == mode

    def test_a_link_stays_a_link(self, config: Any, zonectl: Zonectl) -> None:
        """The file it leads to is formatted."""
        file = config.write("shared/zone.txt.yaml", WRITTEN)
        link = config.path / "zone.yaml"
        link.symlink_to(file)
        zonectl("fmt", link)

        assert link.is_symlink()
        assert file.read_text() == CANONICAL

    def test_nothing_is_left_beside_it(self, config: Any, zonectl: Zonectl) -> None:
        """It is written under another name first, and then takes the place."""
        config.write("zone.yaml", WRITTEN)
        zonectl("fmt", config)

        assert sorted(each.name for each in config.path.iterdir()) == ["zone.yaml", "zonectl.yaml"]

    def test_a_file_that_changed_meanwhile_is_not_replaced(self, tmp_path: Path) -> None:
        """Somebody has saved it in their editor: their text is newer."""
        file = tmp_path / "zone.yaml"
        file.write_text("newer")

        with pytest.raises(FileRefused, match="run it again"):
            Root(tmp_path).replace("zone.yaml", b"formatted", expected=b"older")
        assert file.read_text() == "newer"

    def test_a_file_outside_the_root_is_not_replaced(self, tmp_path: Path) -> None:
        """Whatever name it is given by."""
        outside = tmp_path / "outside.yaml"
        outside.write_text("before")
        (tmp_path / "root").mkdir()

        with pytest.raises(FileRefused, match="outside the repository"):
            Root(tmp_path / "root").replace("../outside.yaml", b"after", expected=b"before")
        assert outside.read_text() == "before"


def test_the_result_as_json(config: Any, zonectl: Zonectl) -> None:
    """What changed, and what is wrong, in one document."""
    config.write("zone.yaml", WRITTEN)
    config.write("bad.yaml", INVALID)

    found = json.loads(zonectl("fmt", "--output", "json", config).out)

    assert [each["code"] for each in found.pop("diagnostics")] == ["unknown-member"]
    assert found == {
        "format": "zonewright/formatting/v1",
        "files": 2,
        "written": True,
        "changed": [{"path": "zone.yaml"}],
    }


def test_a_directory_without_manifests_is_wrong_usage(config: Any, zonectl: Zonectl) -> None:
    """A pipeline that names the wrong directory would be green."""
    result = zonectl("fmt", "--check", config)

    assert result.exit_code == 64
    assert "there are no manifests" in result.err

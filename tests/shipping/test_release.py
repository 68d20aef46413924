"""`make release`, in a repository of its own: what it makes, and when it refuses and changes nothing."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from tests.shipping.trees import git, tree
from tools.build import CHECKSUMS, build
from tools.release import NotReleasable, changed_changelog, changed_version

pytestmark = pytest.mark.long

CHART = "deploy/helm/zonewright/Chart.yaml"
DEFINED_IN = "src/reconciler/__init__.py"
GUIDE = "docs/operating/installing.md"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The project as of this tree, on its branch, with something in the changelog that is not released."""
    made = tree(tmp_path / "project")
    assert re.search(r"^## \[Unreleased\]\n(?!\n*## )", (made / "CHANGELOG.md").read_text(), re.MULTILINE)
    return made


def release(clone: Path, version: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tools.release", version, "--date", "2026-02-03"]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


def test_a_release_is_made(clone: Path, tmp_path: Path):
    """Changelog, version, commit, tag and files; what the tag has gives the same files again."""
    done = release(clone, "7.8.9")
    assert done.returncode == 0, done.stderr

    assert git(clone, "log", "-1", "--format=%s") == "Release 7.8.9"
    assert git(clone, "cat-file", "-t", "v7.8.9") == "tag"
    assert git(clone, "rev-parse", "v7.8.9^{commit}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == ""
    changed = set(git(clone, "show", "--name-only", "--format=", "HEAD").splitlines())
    assert changed == {"CHANGELOG.md", CHART, DEFINED_IN, GUIDE}
    assert '__version__ = "7.8.9"' in (clone / DEFINED_IN).read_text()
    assert re.findall(r"git checkout v([\d.]+)|zonewright-([\d.]+)-py3", (clone / GUIDE).read_text()) == [
        ("7.8.9", ""),
        ("", "7.8.9"),
    ]
    assert 'version: 7.8.9\nappVersion: "7.8.9"\n' in (clone / CHART).read_text()
    assert "## [Unreleased]\n\n## [7.8.9] - 2026-02-03\n\n### " in (clone / "CHANGELOG.md").read_text()

    checksums = (clone / "dist" / CHECKSUMS).read_text()
    assert checksums.count("zonewright-7.8.9") == 3
    build(clone, tmp_path / "again")
    assert (tmp_path / "again" / CHECKSUMS).read_text() == checksums
    assert "git push --atomic origin main v7.8.9" in done.stdout


def test_the_next_release_has_to_be_newer_and_to_have_something(clone: Path):
    """Than the tag; and the changelog of the one before is not moved again."""
    assert release(clone, "7.8.9").returncode == 0
    assert "`7.8.9` is not newer than 7.8.9, which is released" in release(clone, "7.8.9").stderr
    assert "`7.8.8` is not newer" in release(clone, "7.8.8").stderr
    assert "nothing under `## [Unreleased]`" in release(clone, "7.9.0").stderr


def test_the_first_release_may_be_of_the_version_that_the_tree_has(clone: Path):
    """It is written already, and nothing with it is released."""
    (current,) = re.findall(r'__version__ = "(.+)"', (clone / DEFINED_IN).read_text())
    done = release(clone, current)
    assert done.returncode == 0, done.stderr
    assert git(clone, "tag", "--list") == f"v{current}"


def dirty(clone: Path) -> None:
    (clone / "README.md").write_text("changed")


def untracked(clone: Path) -> None:
    (clone / "src" / "left-behind.py").write_text("")


def another_branch(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "-b", "fix")


def nothing(clone: Path) -> None:
    pass


def two_versions(clone: Path) -> None:
    with (clone / DEFINED_IN).open("a") as file:
        file.write('__version__ = "1"\n')
    git(clone, "commit", "--quiet", "--all", "--message", "two")


def broken_build(clone: Path) -> None:
    description = clone / "pyproject.toml"
    description.write_text(description.read_text().replace('name = "zonewright"', 'name = ""'))
    git(clone, "commit", "--quiet", "--all", "--message", "broken")


@pytest.mark.parametrize(
    ("prepare", "version", "told"),
    [
        (dirty, "7.8.9", r"commit or remove what has changed first:\n *M README.md"),
        (untracked, "7.8.9", r"\?\? src/left-behind.py"),
        (another_branch, "7.8.9", "this is the branch `fix`: releases are made of `main`"),
        (nothing, "7.8", "`7.8` is no version: expected three numbers"),
        (nothing, "v7.8.9", "`v7.8.9` is no version"),
        (nothing, "", "`` is no version"),
        (nothing, "0.0.1", "`0.0.1` is older than"),
        (two_versions, "7.8.9", "there are 2 lines"),
        (broken_build, "7.8.9", "name"),
    ],
)
def test_a_refused_release_changes_nothing(
    clone: Path, prepare: Callable[[Path], None], version: str, told: str
):
    """Nor does one whose build fails, which is after the commit."""
    prepare(clone)
    before = git(clone, "rev-parse", "HEAD"), git(clone, "status", "--porcelain")
    done = release(clone, version)
    assert done.returncode == 1
    assert re.search(told, done.stderr), done.stderr
    assert (git(clone, "rev-parse", "HEAD"), git(clone, "status", "--porcelain")) == before
    assert git(clone, "tag", "--list") == ""


TEXT = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-01-01\n\n- Another.\n"


def test_the_changelog_keeps_everything_and_dates_it():
    assert changed_changelog(TEXT, "0.2.0", date(2026, 2, 3)) == TEXT.replace(
        "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n"
    )


@pytest.mark.parametrize("text", ["# Changelog\n", TEXT.replace("- A thing.\n", "")])
def test_a_changelog_without_anything_new_is_refused(text: str):
    """Also when an older release has something."""
    with pytest.raises(NotReleasable, match="Unreleased"):
        changed_changelog(text, "0.2.0", date(2026, 2, 3))


def test_only_the_line_of_the_version_is_changed():
    """And not another one that has the same number."""
    text = 'apiVersion: 0.1.0\nversion: 0.1.0\nappVersion: "0.1.0"\nother: 0.1.0\n'
    assert changed_version(text, (r"version: (\S+)",), "0.2.0") == text.replace(
        "\nversion: 0.1.0", "\nversion: 0.2.0"
    )


def test_git_of_the_test_is_not_this_repository(clone: Path):
    """A mistake here would make a release of the project itself."""
    assert git(clone, "rev-parse", "--show-toplevel") == os.fspath(clone.resolve())

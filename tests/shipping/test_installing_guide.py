"""docs/operating/installing.md: what it says of a release, typed beside the files of one."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.shipping.trees import tree
from tests.support.guides import ROOT, run

pytestmark = pytest.mark.long

PAGE = "operating/installing.md"
CURRENT = version("zonewright")
_LATE = 4_000_000_000


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A clone with the files of its release beside it, on a machine that has what `make build` needs."""
    clone = tree(tmp_path / "project")
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python").chmod(0o755)
    for stamp in (".runtime-installed", ".dev-installed"):
        (clone / ".venv" / stamp).touch()
        # Newer than whatever a checkout writes: nothing is installed into the environment that this runs in.
        os.utime(clone / ".venv" / stamp, (_LATE, _LATE))
    subprocess.run([sys.executable, "-m", "tools.release", CURRENT], cwd=clone, check=True)
    shutil.copytree(clone / "dist", clone.parent / "release")
    return clone


def follow(release: Path, tmp_path: Path) -> str:
    """What its commands say."""
    opt = {"/opt/zonewright": str(tmp_path / "opt" / "zonewright")}
    return run(PAGE, tmp_path, folder=release, instead=opt)


def test_a_release_is_checked_and_installed(release: Path, tmp_path: Path):
    """By the checksums, by a build of one's own, and from the lock and the wheel alone."""
    said = follow(release, tmp_path)

    assert len(re.findall(r"^zonewright\S+: OK$", said, re.MULTILINE)) == 3
    assert re.search(rf"\b{re.escape(CURRENT)}$", said.strip())


def test_another_file_of_that_name_is_noticed(release: Path, tmp_path: Path):
    """Before anything of it is installed."""
    (wheel,) = (release.parent / "release").glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"more")

    with pytest.raises(AssertionError, match=r"\.whl: FAILED"):
        follow(release, tmp_path)
    assert not (tmp_path / "opt").exists()


def test_another_source_is_noticed(release: Path, tmp_path: Path):
    """A build of what the tag has gives other checksums than those that were published."""
    sums = release.parent / "release" / "SHA256SUMS"
    (wheel,) = sums.parent.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"more")
    text = subprocess.run(
        ["sha256sum", wheel.name], cwd=sums.parent, capture_output=True, text=True, check=True
    )
    sums.write_text(re.sub(rf"^\w+  {re.escape(wheel.name)}\n", text.stdout, sums.read_text(), flags=re.M))

    with pytest.raises(AssertionError, match=r"(?ms)\.whl: OK.*^> \w+  zonewright"):
        follow(release, tmp_path)
    assert not (tmp_path / "opt").exists()


def test_the_page_names_the_version_that_there_is():
    """Of the tag and of the wheel."""
    text = (ROOT / "docs" / PAGE).read_text("utf-8")
    assert set(re.findall(r"zonewright-(\d[\d.]*\d)-py3|git checkout v(\S+)", text)) == {
        (CURRENT, ""),
        ("", CURRENT),
    }

"""The systemd units of docs/operating/data.md, read by systemd where it is, and their commands run."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import acme
import pytest
from tests.support.systemd import complaints, needs_systemd

PAGE = (Path(__file__).parents[2] / "docs/operating/data.md").read_text("utf-8")
SERVICE, TIMER = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
(FRESH,) = re.findall(r"`(find DIRECTORY [^`]*)`", PAGE)
_DAY = 86_400


def commands() -> list[str]:
    """What the service runs, as systemd hands it over."""
    lines = re.findall(r"^ExecStart=(.*)$", SERVICE, re.MULTILINE)
    return [line.replace("$$", "$").replace("%%", "%") for line in lines]


@needs_systemd
@pytest.mark.parametrize("spoilt", [False, True], ids=["as they are", "misspelt"])
def test_the_units_are_what_systemd_reads(tmp_path: Path, spoilt: bool) -> None:
    """Every name and value; a name that it does not know is told."""
    service = SERVICE.replace("StateDirectoryMode", "StateDirectoryMod") if spoilt else SERVICE
    (tmp_path / "zoned-backup.service").write_text(
        service.replace("/opt/zonewright/bin/zoned", acme.command("zoned")[0])
    )
    (tmp_path / "zoned-backup.timer").write_text(TIMER)

    assert bool(complaints(tmp_path / "zoned-backup.timer")) == spoilt


def test_the_commands_make_a_backup_and_keep_a_month(tmp_path: Path) -> None:
    """One of today appears, one of 32 days ago goes, one of 20 days ago stays; and the check of their age."""
    kept = tmp_path / "backups"
    kept.mkdir()
    server = acme.Server(tmp_path / "server")
    server.init()
    settings = acme.clean_environment(ZONED_DATA_DIR=str(server.directory), **server.settings)
    is_fresh = ["sh", "-c", FRESH.replace("DIRECTORY", shlex.quote(str(kept)))]
    for days in (20, 32):
        file = kept / f"{days}.db"
        file.touch()
        os.utime(file, (file.stat().st_mtime - days * _DAY,) * 2)
    assert subprocess.run(is_fresh, check=False).returncode == 1

    for command in commands():
        here = command.replace("/opt/zonewright/bin/zoned", acme.command("zoned")[0])
        here = here.replace("/var/lib/zoned-backups", str(kept))
        subprocess.run(shlex.split(here), env=settings, check=True, capture_output=True)

    names = sorted(file.name for file in kept.iterdir())
    assert len(names) == 2
    assert names[0] == "20.db"
    assert re.fullmatch(r"\d{8}T\d{6}Z\.db", names[1])
    assert subprocess.run(is_fresh, check=False).returncode == 0

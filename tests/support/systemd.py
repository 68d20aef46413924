"""What systemd says of units, where its program is."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine"
)


def complaints(unit: Path) -> list[str]:
    """What it does not understand of a unit, and of those of the same folder that belong to it."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{unit.parent}:/lib/systemd/system"},
    )
    return [line for line in done.stderr.splitlines() if unit.stem in line]

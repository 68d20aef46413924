"""Colors and bars: on a terminal that takes them, for a user who wants them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


def on_a_terminal(folder: Path, **environment: str) -> str:
    """What `zonectl validate` prints to a terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from reconciler.cli import main; main()", "validate", str(folder)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child,
    )
    os.close(child)
    content = b""
    try:
        while part := os.read(parent, 65536):
            content += part
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        process.wait(30)
        os.close(parent)
    return content.decode()


@pytest.mark.parametrize(
    ("environment", "styled"),
    [
        ({}, True),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_styles_are_for_who_takes_them(tmp_path: Path, environment: dict[str, str], styled: bool) -> None:
    """`NO_COLOR` of any length, and a dumb terminal, get plain text; the words are the same."""
    (tmp_path / "zone.yaml").write_text("kind: Zone\n")
    said = on_a_terminal(tmp_path, **environment)

    assert ("\x1b[" in said) is styled
    assert "is missing" in said

"""Colors and bars: on a terminal that takes them, for a user who wants them."""

import os
import sys
from pathlib import Path

import pytest
from tests.support.terminals import on_a_terminal


def validated(folder: Path, **environment: str) -> str:
    """What `zonectl validate` prints to a terminal."""
    command = [sys.executable, "-c", "from reconciler.cli import main; main()", "validate", str(folder)]
    settings = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm", **environment}
    return on_a_terminal(command, folder, settings)


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
    said = validated(tmp_path, **environment)

    assert ("\x1b[" in said) is styled
    assert "is missing" in said

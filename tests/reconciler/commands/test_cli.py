"""What every command has in common: help without a command, and an answer of no."""

import os
import pty
from typing import Any

import pytest
from tests.reconciler.apply.texts import ZONE, Zonectl
from tests.reconciler.fake_server import FakeServer


@pytest.mark.parametrize("group", [(), ("secret",)], ids=["zonectl", "secret"])
def test_without_a_command_the_help_is_printed(zonectl: Zonectl, group: tuple[str, ...]) -> None:
    """As text, on standard error, and not as an error."""
    done = zonectl(*group)

    assert (done.exit_code, done.out) == (64, "")
    assert done.err.startswith(" ".join(["Usage: zonectl", *group]))
    assert "\nCommands:\n" in done.err
    assert "error:" not in done.err


def test_an_answer_of_no_is_no_error(
    config: Any, server: FakeServer, zonectl: Zonectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was changed, as was wished; the exit code says that nothing was applied."""
    config.write("zone.yaml", ZONE)
    parent, child = pty.openpty()
    os.write(parent, b"n\n")
    with os.fdopen(child, "r") as terminal, os.fdopen(parent, "wb"):
        monkeypatch.setattr("sys.stdin", terminal)
        done = zonectl("apply", config)

    assert done.exit_code == 1
    assert done.err.endswith("nothing was changed\n")
    assert "error:" not in done.err

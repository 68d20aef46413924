"""Processes of `zoned serve` that die, one or all of them: others answer again, or the service ends."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
from acme import Server
from tests.support import waiting

from runtime.cli.worker import STOP_SECONDS

pytestmark = pytest.mark.long


@pytest.fixture
def server(make_server: Callable[..., Server], postgres_url: str, redis_url: str) -> Iterator[Server]:
    """Two workers that serve."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    made.start()
    wait_until(lambda: ready(made) >= 2, made)
    yield made
    made.kill()  # all of its processes: some have no parent to stop them when a test here fails


def wait_until(is_so: Callable[[], bool], server: Server, *, seconds: float = 60) -> float:
    """How long it took until that was so. Raises AssertionError when it does not come."""
    began = time.monotonic()
    waiting.wait_until(is_so, seconds=seconds, otherwise=server.log.read_text)
    return time.monotonic() - began


def ready(server: Server) -> int:
    """How many workers have said so far that they serve: each warns of this setting once, at its start."""
    return server.log.read_text().count("outbound fetches may reach private addresses")


def workers(server: Server) -> list[int]:
    """Their process ids."""
    assert server.process is not None
    told = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in told.stdout.splitlines()]
    return [int(pid) for pid, ppid, what in rows if int(ppid) == server.process.pid and "spawn_main" in what]


def is_there(pid: int) -> bool:
    """Tell whether a process runs; one that is no child of this one leaves nothing behind."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def answers(server: Server) -> set[int]:
    """What twenty requests get, each on a connection of its own."""
    return {httpx.get(f"{server.url}/readyz", trust_env=False, timeout=10).status_code for _ in range(20)}


def of_group(leader: int) -> list[str]:
    """The processes that a server has started, itself among them; none that only waits for its parent."""
    told = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pgid=,stat=,pid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in told.stdout.splitlines()]
    return [what for group, state, what in rows if int(group) == leader and not state.startswith("Z")]


def listens(server: Server) -> bool:
    """The port takes connections."""
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            return True
    except ConnectionRefusedError:
        return False


def check_end(server: Server, codes: set[int]) -> None:
    """Check that a server ends soon, with one of these codes, and leaves neither process nor address."""
    process = server.process
    assert process is not None
    assert process.wait(20) in codes, server.log.read_text()
    wait_until(lambda: of_group(process.pid) == [], server, seconds=5)
    assert not listens(server)
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_worker_is_replaced(server: Server, how: signal.Signals):
    """It is told within a second which one ended, and how; another takes its place."""
    assert answers(server) == {200}
    first, other = sorted(workers(server))
    os.kill(first, how)
    wait_until(lambda: not is_there(first), server, seconds=5)

    wait_until(lambda: f"pid={first}" in server.log.read_text(), server, seconds=1)
    [line] = [each for each in server.log.read_text().splitlines() if "exited unexpectedly" in each]
    assert re.search(r"worker=[12]\b", line)
    assert ("signal SIGKILL" if how is signal.SIGKILL else "exit code 0") in line
    wait_until(lambda: ready(server) == 3, server)
    now = workers(server)
    assert len(now) == 2
    assert other in now
    assert answers(server) == {200}
    told = httpx.get(f"{server.url}/metrics", trust_env=False).text
    assert "zoned_workers_replaced_total 1.0" in told.splitlines()


def test_all_workers_dead_at_once(server: Server):
    """Who connects meanwhile waits for the next worker, and is answered."""
    for pid in workers(server):
        os.kill(pid, signal.SIGKILL)

    assert httpx.get(f"{server.url}/readyz", trust_env=False, timeout=60).status_code == 200


def test_workers_that_do_not_stay(server: Server):
    """The fifth end within half a minute ends the service, so that whoever watches it takes over."""
    process = server.process
    assert process is not None
    ended: set[int] = set()

    def is_over() -> bool:
        for pid in set(workers(server)) - ended:
            os.kill(pid, signal.SIGKILL)
            ended.add(pid)
        return process.poll() is not None

    wait_until(is_over, server)
    assert process.returncode == 1
    assert "Error: workers ended 5 times within 30 seconds, the last with signal SIGKILL" in (
        server.log.read_text()
    )
    assert not any(is_there(pid) for pid in ended)


@pytest.fixture
def without_connections(postgres_url: str) -> Iterator[Callable[[bool], None]]:
    """Lets the database refuse new connections, those that there are stay; or take them again."""
    parts = urlsplit(postgres_url.replace("+asyncpg", ""))

    async def set_allowed(is_allowed: bool) -> None:
        connection = await asyncpg.connect(parts._replace(path="/postgres").geturl())
        await connection.execute(f"ALTER DATABASE {parts.path[1:]} ALLOW_CONNECTIONS {is_allowed}")
        await connection.close()

    yield lambda refuses: asyncio.run(set_allowed(not refuses))
    asyncio.run(set_allowed(True))


def test_a_worker_waits_for_a_database_that_takes_no_connections(
    server: Server, without_connections: Callable[[bool], None]
):
    """The other one serves meanwhile with those that it has; a node would not get any by starting again."""
    first, other = sorted(workers(server))
    without_connections(True)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: server.log.read_text().count("not ready") > 5, server)
    assert sorted(set(workers(server)) - {other}) != []
    assert other in workers(server)
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
    assert "Traceback" not in server.log.read_text()

    without_connections(False)
    wait_until(lambda: ready(server) == 3, server)


def test_stopped_while_a_worker_waits_for_the_database(
    server: Server, without_connections: Callable[[bool], None]
):
    """It has nothing to finish."""
    without_connections(True)
    os.kill(workers(server)[0], signal.SIGKILL)
    wait_until(lambda: server.log.read_text().count("not ready") > 1, server)
    assert server.process is not None
    server.process.terminate()
    check_end(server, {0})


@pytest.fixture
def draining(make_server: Callable[..., Server], postgres_url: str, redis_url: str) -> Iterator[Server]:
    """Two workers that serve for a minute more once they are told to stop."""
    settings = {"ZONED_DATABASE_URL": postgres_url, "ZONED_REDIS_URL": redis_url, "ZONED_DRAIN_SECONDS": "60"}
    made = make_server(ZONED_WORKERS="2", **settings)
    made.start()
    wait_until(lambda: ready(made) >= 2, made)
    yield made
    made.kill()


def test_workers_follow_their_parent(draining: Server):
    """With the main process killed nobody serves on, and the address is free for the next start."""
    server = draining
    assert server.process is not None
    left = workers(server)
    with httpx.Client(base_url=server.url, trust_env=False) as kept_alive:
        assert kept_alive.get("/healthz").status_code == 200
        server.process.kill()
        server.process.wait()
        wait_until(lambda: not any(is_there(pid) for pid in left), server, seconds=5)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/healthz", trust_env=False)

    server.start()
    assert answers(server) == {200}


def by_terminal(process: subprocess.Popen[bytes]) -> None:
    """Interrupt all processes at once."""
    os.killpg(process.pid, signal.SIGINT)


def by_supervisor(process: subprocess.Popen[bytes]) -> None:
    """Ask the main process alone, as systemd and container runtimes do."""
    process.terminate()


@pytest.mark.parametrize("seconds", [0.0, 0.6])
@pytest.mark.parametrize("ask", [by_terminal, by_supervisor])
def test_stopped_while_a_worker_is_replaced(
    make_server: Callable[..., Server],
    postgres_url: str,
    redis_url: str,
    ask: Callable[[subprocess.Popen[bytes]], None],
    seconds: float,
) -> None:
    """Whatever the processes are at, being asked to end is no failure."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    made.start()
    assert made.process is not None
    wait_until(lambda: ready(made) >= 2, made)
    os.kill(workers(made)[0], signal.SIGKILL)
    wait_until(lambda: "replacement worker was started" in made.log.read_text(), made, seconds=2)
    waiting.let_pass(seconds)

    ask(made.process)

    check_end(made, {0})


def exists(_server: Server) -> bool:
    """The process has been started, and nothing more is known."""
    return True


def starts_workers(server: Server) -> bool:
    """Both have been started."""
    return len(workers(server)) == 2


def has_a_worker(server: Server) -> bool:
    """One is as far as to serve."""
    return ready(server) >= 1


# Until the main process looks after workers, the signal ends it by itself, as it does any program.
@pytest.mark.parametrize(
    ("moment", "codes"),
    [
        (exists, {-signal.SIGTERM}),
        (listens, {0}),
        (starts_workers, {0}),
        (has_a_worker, {0}),
    ],
)
def test_stopped_while_it_starts(
    make_server: Callable[..., Server],
    postgres_url: str,
    redis_url: str,
    moment: Callable[[Server], bool],
    codes: set[int],
) -> None:
    """At whatever moment: it ends at once, and nothing of it stays. The next start is as any other."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    process = made.launch()
    wait_until(lambda: process.poll() is not None or moment(made), made)
    assert process.poll() is None, made.log.read_text()

    process.terminate()

    check_end(made, codes)
    made.start()
    assert answers(made) == {200}


def test_a_worker_that_hangs_is_killed(server: Server):
    """It does not keep the service from ending, which says so."""
    assert server.process is not None
    hanging = workers(server)[0]
    os.kill(hanging, signal.SIGSTOP)
    server.process.terminate()

    assert server.process.wait(STOP_SECONDS + 15) == 1
    assert "workers did not stop as they should: worker" in server.log.read_text()
    assert not is_there(hanging)

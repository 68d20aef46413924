"""Processes of `zoned serve` that die, one or all of them: others answer again, or the service ends."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from acme import Server
from tests.support import waiting

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


def test_workers_follow_their_parent(server: Server):
    """With the main process killed nobody serves on, and the address is free for the next start."""
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


@pytest.mark.parametrize("seconds", [0.0, 0.6])
def test_interrupted_while_workers_start(
    make_server: Callable[..., Server], postgres_url: str, redis_url: str, seconds: float
):
    """A terminal interrupts all processes at once, and whatever they are at, that is no failure."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    made.start()
    assert made.process is not None
    wait_until(lambda: ready(made) >= 2, made)
    os.kill(workers(made)[0], signal.SIGKILL)
    wait_until(lambda: "replacement worker was started" in made.log.read_text(), made, seconds=2)
    waiting.let_pass(seconds)

    os.killpg(made.process.pid, signal.SIGINT)

    assert made.process.wait(20) == 0, made.log.read_text()
    assert "Traceback" not in made.log.read_text()


def test_a_worker_that_hangs_is_killed(server: Server):
    """It does not keep the service from ending, which says so."""
    assert server.process is not None
    hanging = workers(server)[0]
    os.kill(hanging, signal.SIGSTOP)
    server.process.terminate()

    assert server.process.wait(45) == 1
    assert "workers did not stop as they should: worker" in server.log.read_text()
    assert not is_there(hanging)

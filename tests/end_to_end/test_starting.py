"""`zoned serve` until its first worker is ready: it has the port, and refuses connections."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import acme
import httpx
import pytest
from tests.end_to_end.test_deployment import Activated
from tests.end_to_end.test_supervisor import listens, ready, workers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

# An application that becomes ready when it is told to, on an address that it prints.
SLOW = """
import asyncio, sys
from sanic import Sanic, text
from runtime.app import listening_socket
from runtime.cli.worker import serve

app = Sanic("slow", configure_logging=False)
app.get("/")(lambda request: text("served"))
bound = listening_socket("127.0.0.1:0")

@app.before_server_start
async def wait(app):
    print(bound.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.readline)

serve(app, bound)
"""


def test_connections_are_refused_until_the_worker_is_ready() -> None:
    """Then they are accepted on the same port, which nobody else could bind meanwhile."""
    command = [sys.executable, "-c", SLOW]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with pytest.raises(OSError, match="Address already in use"):
            socket.create_server(address)

        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: answers(f"http://127.0.0.1:{address[1]}/"))
        process.terminate()


def answers(url: str) -> bool:
    """Somebody listens there; whoever does answers."""
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.ConnectError:
        return False


@contextmanager
def held(pids: list[int]) -> Iterator[None]:
    """These processes do nothing meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_one_ready_worker_is_enough(
    make_server: Callable[..., acme.Server], postgres_url: str, redis_url: str
) -> None:
    """While workers start, connections are refused, and so is the port to another `zoned serve`."""
    made = make_server(ZONED_WORKERS="2", ZONED_DATABASE_URL=postgres_url, ZONED_REDIS_URL=redis_url)
    made.launch()
    wait_until(lambda: len(workers(made)) == 2, seconds=60, otherwise=made.log.read_text)
    one, other = workers(made)
    with held([other]):
        with held([one]):
            assert not listens(made)
            second = subprocess.run(
                [*acme.command("zoned"), "serve"], env=made.environment, capture_output=True, text=True
            )
            assert (second.returncode, second.stdout) == (1, "")
            assert "(ZONED_LISTEN): Address already in use" in second.stderr
            assert not listens(made)
            assert ready(made) == 0
        wait_until(lambda: answers(f"{made.url}/readyz"), seconds=60, otherwise=made.log.read_text)
    wait_until(lambda: ready(made) == 2, seconds=60, otherwise=made.log.read_text)


class Telling(acme.Server):
    """A server whose log tells more than warnings."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"ZONED_LOG_LEVEL": "info", "ZONED_LOG_FORMAT": "json"}


@pytest.fixture
def telling(tmp_path: Path, postgres_url: str, redis_url: str) -> Iterator[Telling]:
    """Two workers, not started yet."""
    settings = {"ZONED_WORKERS": "2", "ZONED_DATABASE_URL": postgres_url, "ZONED_REDIS_URL": redis_url}
    made = Telling(tmp_path / "data", settings)
    made.init()
    yield made
    made.stop()


def test_a_ready_worker_says_which_it_is(telling: Telling) -> None:
    """Its number, as the metrics have it, and its process."""
    telling.start()
    wait_until(lambda: ready(telling) == 2, seconds=60, otherwise=telling.log.read_text)

    events = [json.loads(line) for line in telling.log.read_text().splitlines() if line.startswith("{")]
    told = {each["worker"]: each["pid"] for each in events if each["event"] == "ready"}
    assert told.keys() == {1, 2}
    assert {each["listen"] for each in events if each["event"] == "ready"} == {f"127.0.0.1:{telling.port}"}
    assert sorted(told.values()) == sorted(workers(telling))


def bound_as_before(port: int) -> socket.socket:
    """A socket with a port that others may bind, too, until one of them listens."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_port_that_is_lost_while_it_starts(
    tmp_path: Path, postgres_url: str, redis_url: str, count: str
) -> None:
    """Two may have bound it at the very same moment: who listens later ends with 1, and says why."""
    settings = {"ZONED_WORKERS": count, "ZONED_DATABASE_URL": postgres_url, "ZONED_REDIS_URL": redis_url}
    made = Activated(tmp_path / "data", settings)
    made.init()
    with closing(bound_as_before(0)) as other:
        with closing(bound_as_before(other.getsockname()[1])) as made.passed:
            other.listen()
            made.start()
        assert made.process is not None
        assert made.process.wait(60) == 1
    log = made.log.read_text()
    assert log.count("(ZONED_LISTEN): Address already in use") == 1
    assert "Traceback" not in log

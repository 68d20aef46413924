"""Requests that take their time: bytes that drip, and frames that two readers would see differently."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.server import Server, serve

from runtime import app

_HEAD = (
    "POST /z/nowhere/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits for a request a second at most."""
    folder: Path = tmp_path_factory.mktemp("prompt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(app._LIMITS, "REQUEST_TIMEOUT", 1)
        with serve(folder) as started:
            yield started


def sent(server: Server, text: str, drip: str = "", *, seconds: float = 8) -> tuple[int, bool]:
    """The status of the answer (0 for none in time), and whether the connection was closed."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    deadline, heard, closed = time.monotonic() + seconds, b"", False
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(text.encode())
        connection.settimeout(0.1)
        while not closed and time.monotonic() < deadline and not (heard and not drip):
            try:
                if drip:
                    connection.sendall(drip.encode())
                received = connection.recv(4096)
                heard, closed = heard + received, not received
            except TimeoutError:
                continue
            except OSError:
                closed = True
    return int(heard[9:12] or 0), closed


_SLOW = {
    "a body that drips": (f"{_HEAD}Content-Length: 5000\r\n\r\na=", "b"),
    "a body that does not come": (f"{_HEAD}Content-Length: 5000\r\n\r\na=", ""),
    "chunks that drip": (f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n", "1\r\nb\r\n"),
    "a head that drips": (_HEAD, "x"),
    "a head that does not come": (_HEAD, ""),
}


@pytest.fixture(scope="module")
def slow_answers(server: Server) -> dict[str, tuple[int, bool]]:
    """What slow senders are told, all of them at once."""
    assert sent(server, f"{_HEAD}Content-Length: 3\r\n\r\na=b")[0] == 404
    with ThreadPoolExecutor(len(_SLOW)) as pool:
        return dict(zip(_SLOW, pool.map(lambda each: sent(server, *each), _SLOW.values()), strict=True))


@pytest.mark.threat("31m")
@pytest.mark.parametrize("slow", _SLOW)
def test_what_drips_is_not_waited_for(slow_answers: dict[str, tuple[int, bool]], slow: str) -> None:
    """408 for a body, plain or in chunks, and for a head; and the connection of who drips is closed."""
    status, closed = slow_answers[slow]

    assert status == 408
    assert closed or "does not come" in slow


@pytest.mark.threat("31m")
@pytest.mark.parametrize(
    "body", ["Content-Length: 5000\r\n\r\na=", "Transfer-Encoding: chunked\r\n\r\n1388\r\n"]
)
@pytest.mark.parametrize(
    ("first", "status"), [("GET /healthz", 200), ("POST /nowhere", 404), ("POST /healthz", 405)]
)
def test_nor_is_what_drips_after_the_answer(server: Server, first: str, status: int, body: str) -> None:
    """A body that nobody asks for has the time of any other one; what comes of it is skipped."""
    head = f"{first} HTTP/1.1\r\nHost: x\r\n"
    assert sent(server, f"{head}Content-Length: 3\r\n\r\na=b")[0] == status

    assert sent(server, head + body, "b") == (status, True)


@pytest.mark.threat("31n")
@pytest.mark.parametrize(
    "frame",
    [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\na=b",
        "Content-Length: 3\r\nContent-Length: 4\r\n\r\na=b",
        "Content-Length: 3\r\nContent-Length: 3\r\n\r\na=b",
        "Content-Length: -3\r\n\r\na=b",
        "Content-Length: +3\r\n\r\na=b",
        "Content-Length: 3, 3\r\n\r\na=b",
        "Transfer-Encoding: xchunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nz\r\na=b\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\nGET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_frame_is_read_in_one_way(server: Server, frame: str) -> None:
    """Two lengths, or one that cannot be read: 400, so nothing is left that could be another request."""
    assert sent(server, f"{_HEAD}Content-Length: 3\r\n\r\na=b")[0] == 404
    assert sent(server, f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n")[0] == 404

    assert sent(server, _HEAD + frame)[0] == 400

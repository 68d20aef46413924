"""A load generator of its own process: keep-alive HTTP/1.1 connections that send one request after the other.

Reads one JSON object from standard input and prints one: see `Load` and `Outcome`.
"""

import asyncio
import json
import random
import re
import sys
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from urllib.parse import urlsplit

import uvloop

_CODE = re.compile(rb"location: [^\r\n]*[?&]code=([^&\r\n]+)", re.IGNORECASE)
_CHOSEN = 5  # of the scopes, in each request


@dataclass(frozen=True)
class Load:
    """What to send.

    Attributes:
        body: the form; a GET is sent without one. With *scopes*, each request gets a random choice of them
            in a last field `scope` besides, so that hardly two requests are the same question.
        bodies: forms that are sent in place of *body*, in this order and each once; the load ends with the
            last one, or after *seconds*, and all of them are counted.
        bearer: who sends it, when that takes one.
        cookies: whose browsers send it, when that takes one: the connections have them in turn.
        then_path, then_body: a form to post after each answer, which is a redirect then; the code in its
            address stands for `{code}`. The two together are one request that is counted.
        seconds: how long requests are counted, after *warm_up* seconds in which they are not.
    """

    url: str
    body: str = ""
    bodies: list[str] = field(default_factory=list)
    bearer: str = ""
    cookies: list[str] = field(default_factory=list)
    then_path: str = ""
    then_body: str = ""
    scopes: list[str] = field(default_factory=list)
    connections: int = 32
    warm_up: float = 1.0
    seconds: float = 4.0


@dataclass
class Outcome:
    """What came back: `refused` counts answers other than 200, and `sample` shows one of them.

    Attributes:
        sent: requests that were sent, those included that were not counted.
    """

    answered: int
    sent: int
    seconds: float
    refused: int
    sample: str
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds


class _Tally:
    def __init__(self, load: Load) -> None:
        self.load = load
        parts = urlsplit(load.url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        method = "POST" if load.body or load.bodies else "GET"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        bearer = f"Authorization: Bearer {load.bearer}\r\n" if load.bearer else ""
        rest = (
            f"HTTP/1.1\r\nHost: {parts.netloc}\r\n{bearer}Content-Type: application/x-www-form-urlencoded\r\n"
        )
        self.head = f"{method} {target} {rest}".encode()
        self.then_head = f"POST {load.then_path} {rest}".encode()
        self.cookies = [f"Cookie: {each}\r\n".encode() for each in load.cookies] or [b""]
        self.bodies = iter(load.bodies)
        self.random = random.Random(time.time_ns())
        self.counting = False
        self.stopped = False
        self.sent = 0
        self.took: list[float] = []
        self.refused = 0
        self.sample = ""

    def cookie_of(self, connection: int) -> bytes:
        """The header that a connection sends with what it begins with; empty without one."""
        return self.cookies[connection % len(self.cookies)]

    def request(self, cookie: bytes) -> bytes | None:
        """The next request, complete; None after the last one."""
        body, scopes = next(self.bodies, None) if self.load.bodies else self.load.body, self.load.scopes
        if body is None:
            return None
        if scopes:
            body = f"{body}&scope={'+'.join(self.random.sample(scopes, _CHOSEN))}"
        return _complete(self.head + cookie, body.encode())

    def following(self, head: bytes) -> bytes | None:
        """What is sent after the answer with that head; None when it was the last of its round."""
        code = _CODE.search(head) if self.load.then_path else None
        if code is None:
            return None
        return _complete(self.then_head, self.load.then_body.encode().replace(b"{code}", code[1]))


def _complete(head: bytes, body: bytes) -> bytes:
    return b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


class _Connection(asyncio.Protocol):
    def __init__(self, tally: _Tally, number: int) -> None:
        self.tally = tally
        self.cookie = tally.cookie_of(number)
        self.buffer = b""
        self.sent_at = 0.0
        self.is_done = False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        request = self.tally.request(self.cookie)
        if request is None:
            self.is_done = True
            self.transport.close()
            return
        self.sent_at = time.perf_counter()
        self.tally.sent += 1
        self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        following = self.tally.following(self.buffer[:end])
        head = self.buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return
        body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
        tally = self.tally
        if following is not None and not tally.stopped:
            self.transport.write(following)  # type: ignore[attr-defined]
            return
        if tally.counting:
            tally.took.append(time.perf_counter() - self.sent_at)
            if head[9:12] != b"200":
                tally.refused += 1
                tally.sample = tally.sample or f"{head[9:12].decode()} {body[:300].decode(errors='replace')}"
        if tally.stopped:
            self.transport.close()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.tally.stopped and not self.is_done:
            self.tally.refused += 1
            self.tally.sample = self.tally.sample or f"connection lost: {exc}"
        if not self.closed.done():
            self.closed.set_result(None)


async def run(load: Load) -> Outcome:
    """Put the load on the server and count."""
    tally = _Tally(load)
    tally.counting, started = bool(load.bodies), time.perf_counter()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(partial(_Connection, tally, number), tally.host, tally.port))[1]
        for number in range(load.connections)
    ]
    if load.bodies:
        await asyncio.wait([each.closed for each in connections], timeout=load.seconds)
    else:
        await asyncio.sleep(load.warm_up)
        tally.counting, started = True, time.perf_counter()
        await asyncio.sleep(load.seconds)
    tally.counting, seconds = False, time.perf_counter() - started
    tally.stopped = True
    await asyncio.wait([connection.closed for connection in connections], timeout=5)
    took = sorted(tally.took) or [0.0]
    return Outcome(
        answered=len(tally.took) - tally.refused,
        sent=tally.sent,
        seconds=seconds,
        refused=tally.refused,
        sample=tally.sample,
        p50_ms=1000 * took[len(took) // 2],
        p99_ms=1000 * took[min(len(took) - 1, len(took) * 99 // 100)],
    )


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Load(**json.load(sys.stdin)))))))

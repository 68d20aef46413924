"""A load generator of its own process, with keep-alive HTTP/1.1 connections.

A closed loop sends one request after the other on each connection: that finds how many a server answers, and
says little of how long callers wait, since who waits sends nothing meanwhile. An open loop sends by a
schedule, whatever has been answered, and measures from the instant at which a request was due: what waits for
a free connection has waited, too, so no slow answer hides the ones behind it (coordinated omission).

Reads one JSON object from standard input and prints one: see `Load` and `Outcome`.
"""

import asyncio
import contextlib
import json
import math
import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle
from urllib.parse import urlsplit

import uvloop

_CODE = re.compile(rb"location: [^\r\n]*[?&]code=([^&\r\n]+)", re.IGNORECASE)
_CHOSEN = 5  # of the scopes, in each request
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 100.0)
_GRACE_SECONDS = 5.0  # for answers to what was sent last


@dataclass(frozen=True)
class Load:
    """What to send.

    Attributes:
        body: the form; a GET is sent without one. With *scopes*, each request gets a random choice of them
            in a last field `scope` besides, so that hardly two requests are the same question.
        bodies: forms that are sent in place of *body*, in this order and each once; the load ends with the
            last one, or after *seconds*, and all of them are counted.
        bearer: who sends it, when that takes one.
        cookies: whose browsers send it, when that takes one: requests have them in turn, since a browser is
            handed out only so many codes a minute.
        then_path, then_body: a form to post after each answer, which is a redirect then; the code in its
            address stands for `{code}`. The two together are one request that is counted.
        rate: how many requests are due each second, in an open loop; 0 for a closed one.
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
    rate: float = 0.0
    warm_up: float = 1.0
    seconds: float = 4.0


@dataclass
class Outcome:
    """What came back: `refused` counts answers other than 200, and `sample` shows one of them.

    Attributes:
        errors: HTTP status, `connection lost` or `no answer` -> how many.
        percentiles: of `PERCENTILES`, in milliseconds; in an open loop from when a request was due.
        cpu_seconds: how long the generator itself kept a core busy.
        sent: requests that were sent, those included that were not counted.
    """

    answered: int
    sent: int
    seconds: float
    refused: int
    sample: str
    p50_ms: float
    p99_ms: float
    errors: dict[str, int] = field(default_factory=dict)
    percentiles: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0

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
        self.cookies = cycle([f"Cookie: {each}\r\n".encode() for each in load.cookies] or [b""])
        self.bodies = iter(load.bodies)
        self.random = random.Random(time.time_ns())
        self.counting = False
        self.stopped = False
        self.sent = 0
        self.took: list[float] = []
        self.errors: Counter[str] = Counter()
        self.sample = ""
        self.due: deque[tuple[float, bool]] = deque()  # when, and whether it is counted
        self.idle: list[_Connection] = []
        self.all_idle = asyncio.Event()

    def fail(self, kind: str, sample: str) -> None:
        """Count what came to nothing."""
        self.errors[kind] += 1
        self.sample = self.sample or sample

    def request(self) -> bytes | None:
        """The next request, complete; None after the last one."""
        body, scopes = next(self.bodies, None) if self.load.bodies else self.load.body, self.load.scopes
        if body is None:
            return None
        if scopes:
            body = f"{body}&scope={'+'.join(self.random.sample(scopes, _CHOSEN))}"
        return _complete(self.head + next(self.cookies), body.encode())

    def following(self, head: bytes) -> bytes | None:
        """What is sent after the answer with that head; None when it was the last of its round."""
        code = _CODE.search(head) if self.load.then_path else None
        if code is None:
            return None
        return _complete(self.then_head, self.load.then_body.encode().replace(b"{code}", code[1]))


def _complete(head: bytes, body: bytes) -> bytes:
    return b"%sContent-Length: %d\r\n\r\n%s" % (head, len(body), body)


class _Connection(asyncio.Protocol):
    def __init__(self, tally: _Tally) -> None:
        self.tally = tally
        self.buffer = b""
        self.sent_at = 0.0
        self.is_counted = False
        self.is_done = False
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        """Send what is next, or wait until something is due."""
        due = None
        if self.tally.load.rate:
            if not self.tally.due:
                self.tally.idle.append(self)
                if len(self.tally.idle) == self.tally.load.connections:
                    self.tally.all_idle.set()
                return
            self.tally.all_idle.clear()
            due = self.tally.due.popleft()
        request = self.tally.request()
        if request is None:
            self.is_done = True
            self.transport.close()
            return
        self.sent_at, self.is_counted = due or (time.perf_counter(), False)
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
        if self.is_counted or tally.counting:
            tally.took.append(time.perf_counter() - self.sent_at)
            if head[9:12] != b"200":
                status = head[9:12].decode()
                tally.fail(status, f"{status} {body[:300].decode(errors='replace')}")
        if tally.stopped:
            self.transport.close()
        else:
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.tally.stopped and not self.is_done:
            self.tally.fail("connection lost", f"connection lost: {exc}")
        if not self.closed.done():
            self.closed.set_result(None)


async def run(load: Load) -> Outcome:
    """Put the load on the server and count."""
    tally = _Tally(load)
    tally.counting, started = bool(load.bodies), time.perf_counter()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(partial(_Connection, tally), tally.host, tally.port))[1]
        for _ in range(load.connections)
    ]
    busy = time.process_time()
    if load.rate:
        started = await _by_schedule(tally)
        await _until_answered(tally)
    elif load.bodies:
        await asyncio.wait([each.closed for each in connections], timeout=load.seconds)
    else:
        await asyncio.sleep(load.warm_up)
        tally.counting, started, busy = True, time.perf_counter(), time.process_time()
        await asyncio.sleep(load.seconds)
    tally.counting, seconds = False, time.perf_counter() - started
    cpu_seconds = time.process_time() - busy
    tally.stopped = True
    for each in tally.idle:
        each.transport.close()
    await asyncio.wait([connection.closed for connection in connections], timeout=_GRACE_SECONDS)
    took = sorted(tally.took) or [0.0]
    return Outcome(
        answered=len(tally.took) - sum(count for kind, count in tally.errors.items() if kind.isdigit()),
        sent=tally.sent,
        seconds=seconds,
        refused=tally.errors.total(),
        sample=tally.sample,
        p50_ms=percentile(took, 50.0),
        p99_ms=percentile(took, 99.0),
        errors=dict(sorted(tally.errors.items())),
        percentiles={f"{each:g}": percentile(took, each) for each in PERCENTILES},
        cpu_seconds=cpu_seconds,
    )


def percentile(took: Sequence[float], share: float) -> float:
    """The least of these many seconds, in order, that so many per cent do not exceed; in milliseconds."""
    return 1000 * took[max(0, math.ceil(len(took) * share / 100) - 1)]


async def _by_schedule(tally: _Tally) -> float:
    """Have requests sent when they are due; when the first of those was that are counted."""
    load = tally.load
    warm = int(load.warm_up * load.rate)
    began_at = time.perf_counter()
    for number in range(warm + int(load.seconds * load.rate)):
        at = began_at + number / load.rate
        if (left := at - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        elif number % 64 == 0:
            await asyncio.sleep(0)  # answers come in while the schedule is behind
        tally.due.append((at, number >= warm))
        if tally.idle:
            tally.idle.pop().send()
    return began_at + warm / load.rate


async def _until_answered(tally: _Tally) -> None:
    """Wait for what was sent last; what has no answer in time is an error."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_SECONDS):
            await tally.all_idle.wait()
    for _ in range(len(tally.due) + tally.load.connections - len(tally.idle)):
        tally.fail("no answer", "no answer")


if __name__ == "__main__":
    print(json.dumps(asdict(uvloop.run(run(Load(**json.load(sys.stdin)))))))

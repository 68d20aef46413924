"""Requests made to exhaust a parser: refused as they should be, cheaply, and nothing of them stays."""

import json
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from acme import TOKEN_EXCHANGE, Server
from benchmarks.exchange import ACCESS_TOKEN, TOOLS, Stage
from tests.soak.judging import Statement, counted
from tests.soak.vitals import Vitals, settled
from tests.soak.wire import FORM, JSON, Wire, request

ROUNDS = 3
TIMES = 100  # of each request in a round
CPU_SECONDS = 0.005
GROWTH = 0.10
_SOURCE = "127.31.0.{}"  # one for each request, so that none waits for what another did
_SLOW = 20
_SLOW_SECONDS = 45  # the server waits 30


@dataclass(frozen=True)
class Hostile:
    """One request, complete, and what may be answered."""

    what: str
    text: bytes
    statuses: frozenset[int]


def measure(server: Server, stage: Stage) -> Iterator[Statement]:
    """Row 31 of the threats, a few hundred times each."""
    vitals = Vitals(server)
    dripping = _begin_slowly(stage)
    hostile = requests(server, stage)
    answered: dict[str, Counter[int]] = {each.what: Counter() for each in hostile}
    used = dict.fromkeys(answered, 0.0)
    for number, each in enumerate(hostile, start=1):  # caches fill and buffers grow once
        with Wire(server.url, _SOURCE.format(number)) as wire:
            cost(wire, vitals, each, TIMES, answered[each.what])
    before = settled(vitals)
    for _ in range(ROUNDS):
        for number, each in enumerate(hostile, start=1):
            with Wire(server.url, _SOURCE.format(number)) as wire:
                used[each.what] += cost(wire, vitals, each, TIMES, answered[each.what])
    after = settled(vitals)
    for each in hostile:
        cpu, statuses = used[each.what] / (ROUNDS * TIMES), answered[each.what]
        yield Statement(
            f"{each.what}: {' or '.join(map(str, sorted(each.statuses)))}",
            f"{counted(statuses)}, {1000 * cpu:.2f} ms CPU",
            set(statuses) <= each.statuses and cpu < CPU_SECONDS,
        )
    yield Statement(
        f"memory stays within {GROWTH:.0%} after the first round",
        f"{before / 2**20:.1f} MB, then {after / 2**20:.1f} MB",
        after <= before * (1 + GROWTH),
    )
    yield _end_of(dripping)


def requests(server: Server, stage: Stage) -> list[Hostile]:
    """What is sent; the first is no attack, and is what the others compare with."""
    return [*_to_the_token_endpoint(stage), *_to_the_management_api(server), *_in_frames(stage)]


def cost(wire: Wire, vitals: Vitals, each: Hostile, times: int, answered: Counter[int]) -> float:
    """Processor time of sending one of them so often, in seconds; what is answered is counted."""
    began = vitals.cpu_seconds()
    for _ in range(times):
        answered[wire.send(each.text).status] += 1
    return vitals.cpu_seconds() - began


def _to_the_token_endpoint(stage: Stage) -> Iterator[Hostile]:
    url = f"{stage.agent.issuer}/oauth/token"
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": stage.subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": TOOLS,
        "client_id": stage.agent.client_id,
        "client_secret": stage.agent.secret or "",
    }
    good = urlencode(form)

    def post(what: str, body: str | bytes, *statuses: int, content_type: str = FORM) -> Hostile:
        sent = body if isinstance(body, bytes) else body.encode()
        return Hostile(what, request("POST", url, sent, content_type), frozenset(statuses or (400,)))

    def signed(characters: int) -> str:
        head, _, signature = stage.subject.split(".")
        return urlencode(form | {"subject_token": f"{head}.{'A' * characters}.{signature}"})

    yield post("a token exchange as it should be", good, 200)
    for name in ("client_id", "grant_type", "subject_token"):
        yield post(f"`{name}` twice", f"{good}&{name}={form[name]}")
    yield post("`grant_type[]`", good.replace("grant_type=", "grant_type[]="))
    yield post("JSON at the token endpoint", json.dumps(form), content_type=JSON)
    yield post("invalid UTF-8 in a form", good.encode() + b"&a=\xff")
    yield post("invalid UTF-8, percent-encoded", f"{good}&a=%ff")
    yield post("a JWT of 100 KB", signed(100_000), 413)
    yield post("a JWT of 60 KB, below the cap", signed(60_000))
    yield post("100,000 scopes", f"{good}&scope={'+'.join(['a'] * 100_000)}", 413)
    yield post("25,000 scopes, below the cap", f"{good}&scope={'+'.join(['a'] * 25_000)}")
    yield post("10,000 other scopes", f"{good}&scope={'+'.join(f'{n:x}' for n in range(10_000))}")
    yield post("10,000 parameters", "&".join(f"{number:x}=1" for number in range(10_000)), 400, 413)
    yield post("10,000 parameters, below the cap", "&".join(["a="] * 10_000))
    yield post("10,000 resources", f"{good}{'&resource=a' * 5_000}")


def _to_the_management_api(server: Server) -> Iterator[Hostile]:
    def post(what: str, body: bytes, *statuses: int) -> Hostile:
        bearer = {"Authorization": f"Bearer {server.api_key}"}
        text = request("POST", f"{server.url}/zones", body, JSON, bearer)
        return Hostile(f"M: {what}", text, frozenset(statuses or (400,)))

    yield post("a member twice", b'{"name": "a", "name": "b"}')
    yield post("NaN", b'{"name": NaN}')
    yield post("1e999", b'{"name": 1e999}')
    yield post("an integer of 10,000 digits", b'{"name": ' + b"9" * 10_000 + b"}")
    yield post("a depth of 10,000", b'{"name": ' + b"[" * 10_000 + b"]" * 10_000 + b"}")
    yield post("a depth of 10,000 without an end", b'{"a":' * 10_000)
    yield post("invalid UTF-8", b'{"name": "\xff"}')
    yield post("half of a character", b'{"name": "\\ud800"}')
    yield post("2,000 unknown members", json.dumps({f"m{n}": n for n in range(2_000)}).encode())
    yield post("a member with a name of 200 KB", json.dumps({"m" * 200_000: 1}).encode())
    yield post("more than a mebibyte", b'{"name": "' + b"a" * 2**20 + b'"}', 413)


def _in_frames(stage: Stage) -> Iterator[Hostile]:
    url = f"{stage.agent.issuer}/oauth/token"
    chunked = {"Transfer-Encoding": "chunked"}

    def post(what: str, body: bytes, headers: dict[str, str]) -> Hostile:
        return Hostile(what, request("POST", url, body, FORM, headers), frozenset({400}))

    yield post("both lengths", b"a=b", chunked)
    yield post("two lengths", b"a=b", {"Content-length": "4"})
    yield post("a negative length", b"a=b", {"Content-Length": "-3"})
    header = {"X-Large": "a" * 20_000}
    yield Hostile("a head of 20 KB", request("GET", url, headers=header), frozenset({400, 413, 431}))
    large = request("GET", f"{url}?{'a' * 15_000}")
    yield Hostile("an address of 15 KB", large, frozenset({400, 404, 405, 413, 414}))


def _begin_slowly(stage: Stage) -> tuple[float, list[socket.socket]]:
    """Requests whose bodies never end: when they began, and their connections."""
    parts = urlsplit(stage.agent.issuer)
    length = {"Content-Length": "5000"}
    text = request("POST", f"{stage.agent.issuer}/oauth/token", b"grant_type=", FORM, length)
    connections = []
    for _ in range(_SLOW):
        connection = socket.create_connection((parts.hostname or "", parts.port or 80))
        connection.sendall(text)
        connections.append(connection)
    return time.monotonic(), connections


def _end_of(dripping: tuple[float, list[socket.socket]]) -> Statement:
    began, connections = dripping
    statuses = Counter[str]()
    for connection in connections:
        with connection:
            connection.settimeout(max(began + _SLOW_SECONDS - time.monotonic(), 0.1))
            try:
                statuses[connection.recv(4096)[9:12].decode() or "closed"] += 1
            except TimeoutError:
                statuses["waits"] += 1
    return Statement(f"{_SLOW} bodies that never end: 408", counted(statuses), set(statuses) == {"408"})

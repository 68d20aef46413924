"""Warm token exchange in a zone that is written to beside it: how much of it is left, in one run.

What is written has nothing to do with the exchange: new applications and resources, and changes of these.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from acme import Server

from benchmarks import servers
from benchmarks.exchange import empty_rate, exchange_form, prepare
from benchmarks.load import Load
from benchmarks.table import Row
from benchmarks.turns import Asked, Turn, were_crowded

_A_SECOND = 5
_ROUNDS, _SECONDS = 9, 2.5


def measure(directory: Path) -> Iterator[Row]:
    """Two rows for each storage: without writes, and beside them. The rounds of both take turns."""
    yield from _on("SQLite", Server(directory / "writes-sqlite"), directory)
    with (
        servers.postgresql(directory / "writes-pg") as database,
        servers.redis(directory / "writes-redis") as state,
    ):
        settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "writes", settings), directory)


def _on(storage: str, server: Server, directory: Path) -> Iterator[Row]:
    server.init()
    server.start()
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(server.stop)
        stage = prepare(server, directory / f"config-{server.port}")
        address, body = f"{stage.agent.issuer}/oauth/token", urlencode(exchange_form(stage))
        empty, asked = empty_rate(body), Asked.of(server, Load(address, body, seconds=_SECONDS))
        writes = cleanup.enter_context(contextlib.closing(Writes(server)))
        quiet: list[Turn] = []
        busy: list[Turn] = []
        for number in range(_ROUNDS):
            if number % 2:  # each comes first in turns: a machine that slows down is in neither one's favor
                quiet.append(asked.put())
            with writes.going_on():
                busy.append(asked.put())
            if not number % 2:
                quiet.append(asked.put())
        ratio = statistics.median(
            with_.outcome.rate / without.outcome.rate for with_, without in zip(busy, quiet, strict=True)
        )
        yield Row(f"exchange, warm, no writes, {storage}", _rate(quiet), empty, _latency(quiet))
        told = f"{_latency(busy)}; {ratio:.2f} of that without, {writes.done} writes"
        yield Row(
            f"exchange, warm, {_A_SECOND} writes/s, {storage}",
            _rate(busy),
            empty,
            told,
            ratio,
            were_crowded(quiet + busy),
        )


class Writes:
    """Somebody who changes the zone of the exchange by the management API, at so many writes a second."""

    def __init__(self, server: Server) -> None:
        self.done = 0
        self._client = server.management()
        self._zone = f"/zones/{server.zone('acme-product')['id']}"
        self._numbers = count()
        self._made: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Write for as long as the block takes. Raises what a write has raised."""
        stop, failed = threading.Event(), []

        def work() -> None:
            due = time.monotonic()
            try:
                while not stop.wait(max(0.0, due - time.monotonic())):
                    self._write()
                    due += 1 / _A_SECOND
            except httpx.HTTPError as failure:
                failed.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    def _write(self) -> None:
        number = next(self._numbers)
        if number % 4 == 0:
            self._make("applications", identifier=f"unrelated-{number}", name="Unrelated")
        elif number % 4 == 1:
            self._make("resources", identifier=f"https://unrelated-{number}.example", name="Unrelated")
        elif number % 4 == 2:
            self._change("applications", name=f"Unrelated, change {number}")
        else:
            self._change("resources", scopes=[f"scope-{number}"])
        self.done += 1

    def _make(self, collection: str, **members: Any) -> None:
        answer = self._client.post(f"{self._zone}/{collection}", json=members)
        self._made[collection] = answer.raise_for_status().json()

    def _change(self, collection: str, **members: Any) -> None:
        made = self._made[collection]["id"]
        self._client.patch(f"{self._zone}/{collection}/{made}", json=members).raise_for_status()


def _rate(turns: list[Turn]) -> float:
    return statistics.median(each.outcome.rate for each in turns)


def _latency(turns: list[Turn]) -> str:
    p50, p99 = (
        statistics.median(getattr(each.outcome, name) for each in turns) for name in ("p50_ms", "p99_ms")
    )
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"

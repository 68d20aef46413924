"""Scale: 1,000 zones, 1,000,000 users and 10,000,000 grants on PostgreSQL, beside an empty installation.

Exchanges on both take turns in the same run, in a zone that has a tenth of everything: how long they take,
and for how long each keeps a core busy, which other programs change little. Each server has the same core to
itself, where the system lets choose. The ratios are medians of those of the rounds, and one above the bound
is a failure unless something else had the machine. Then lists and searches, and what memory a worker has once
it has served every zone, and served it again.

`make bench ONLY=scale ZONES=20 USERS=2000` does the same in a minute or two; a user has ten grants.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import httpx
from acme import Server
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks import cores, servers
from benchmarks.exchange import SCOPES, empty_rate, exchange_form, prepare
from benchmarks.load import Load
from benchmarks.results import Facts
from benchmarks.scale_data import RESOURCES, TABLES, FilledZone, fill
from benchmarks.table import Row
from benchmarks.turns import Asked, Turn, were_crowded
from runtime.storage.sql.database import Database

ZONES, USERS = 1_000, 1_000_000
BOUND = 1.1  # times as long an exchange may take as in an empty installation
_SHARE = 10  # a tenth of all users are in the zone of the exchanges
_ROUNDS, _SECONDS = 5, 3.0
_ASKED = 40  # times that each list is asked for


@dataclass(frozen=True)
class Size:
    """How much is made: the whole, unless the environment says less."""

    zones: int = field(default_factory=lambda: int(os.environ.get("ZONES") or ZONES))
    users: int = field(default_factory=lambda: int(os.environ.get("USERS") or USERS))


@dataclass(frozen=True)
class Ratio:
    """How many times as much something takes as in an empty installation."""

    what: str
    value: float
    was_crowded: bool = False

    @property
    def is_above(self) -> bool:
        """Tell whether it is above the bound on a machine that nothing else had."""
        return self.value > BOUND and not self.was_crowded

    @property
    def text(self) -> str:
        """For the table."""
        told = f"{self.value:.2f} (at most {BOUND})"
        if self.is_above:
            return f"{told}, ABOVE THE BOUND"
        return f"{told}, not told: something else had the machine" if self.value > BOUND else told


def measure(directory: Path, size: Size | None = None) -> Iterator[Row | Facts]:
    """Rows for exchanges and lists; facts about size, time and memory.

    Raises RuntimeError when an exchange takes more than the bound allows, or memory grows.
    """
    size, apart = size or Size(), cores.can_be_shared_out()
    on_server, on_load = (cores.SERVER, cores.LOAD) if apart else (None, None)
    with contextlib.ExitStack() as cleanup:
        with cores.started_on(on_load):
            state = cleanup.enter_context(servers.redis(directory / "scale-redis"))
        made: dict[str, tuple[Server, Load]] = {}
        for number, name in enumerate(("empty", "filled")):
            with cores.started_on(on_load):
                database = cleanup.enter_context(servers.postgresql(directory / f"scale-pg-{name}"))
            settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state.replace("/0", f"/{number}")}
            server = Server(directory / f"scale-{name}", settings)
            server.init()
            with cores.started_on(on_server):
                server.start()
            cleanup.callback(server.stop)
            stage = prepare(server, directory / f"scale-config-{name}")
            load = Load(f"{stage.agent.issuer}/oauth/token", urlencode(exchange_form(stage)))
            made[name] = server, load
        server, load = made["filled"]
        told = _fill(server, size)
        empty = empty_rate(load.body)
        asked = {name: Asked.of(each, load) for name, (each, load) in made.items()}
        ratios = list[Ratio]()
        for sort, scopes in (("warm", []), ("cold", SCOPES)):
            with cores.started_on(on_load):
                rounds = _in_turns(asked, scopes)
            ratios += compared(sort, rounds)
            yield from _rows(sort, rounds, empty)
        yield from _lists(server, empty)
        of_memory, grown = _memory(made["empty"][0], server)
        ratios.append(
            Ratio("memory of a worker that has served every zone twice, times as much as once", grown)
        )
        told |= {each.what: each.text for each in ratios} | of_memory
    yield Facts("scale", told)
    if above := [f"{each.what}: {each.text}" for each in ratios if each.is_above]:
        raise RuntimeError("; ".join(above))


def _fill(server: Server, size: Size) -> dict[str, str]:
    """Make the zones by the management API, and fill them; what that took."""
    started = time.monotonic()
    largest = server.zone("acme-product")
    with server.management() as client, ThreadPoolExecutor(4) as threads:
        others = list(threads.map(lambda number: _zone(client, number), range(size.zones - 1)))
    seconds_of_zones = time.monotonic() - started
    rest = size.users - size.users // _SHARE
    zones = [FilledZone(largest["id"], largest["organization_id"], size.users // _SHARE)]
    zones += [
        FilledZone(
            each["id"],
            each["organization_id"],
            rest * (place + 1) // len(others) - rest * place // len(others),
        )
        for place, each in enumerate(others)
    ]
    started = time.monotonic()
    rows, bytes_ = asyncio.run(_filled(server.settings["ZONED_DATABASE_URL"], largest["id"], zones))
    return {
        "zones": f"{len(zones):,}",
        **{name.replace("_", " "): f"{rows[name]:,}" for name in TABLES},
        "zones made by the management API in": f"{seconds_of_zones:.0f} s",
        "rows made in": f"{time.monotonic() - started:.0f} s",
        "database": f"{bytes_ / 2**30:.1f} GiB",
    }


def _zone(client: httpx.Client, number: int) -> dict[str, Any]:
    made = client.post("/zones", json={"name": f"Scale {number}"}).raise_for_status()
    zone: dict[str, Any] = made.json()
    return zone


async def _filled(url: str, sample: str, zones: list[FilledZone]) -> tuple[dict[str, int], int]:
    database = Database.open(url, migrating=True)  # its statements may take as long as they like
    try:
        async with database.transaction() as conn:
            rows = await fill(conn, sample, zones)
        await _settled(url)
        async with database.reading() as conn:
            return rows, int(await conn.scalar(text("SELECT pg_database_size(current_database())")) or 0)
    finally:
        await database.close()


async def _settled(url: str) -> None:
    """Have done what PostgreSQL does by itself soon after so many rows, and would do during the exchanges."""
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as conn:
            for statement in ("VACUUM", "CHECKPOINT"):
                await conn.exec_driver_sql(statement)
    finally:
        await engine.dispose()


def _in_turns(asked: Mapping[str, Asked], scopes: list[str]) -> dict[str, list[Turn]]:
    """What came of the rounds. Who was last in a round is first in the next: nobody always follows."""
    rounds: dict[str, list[Turn]] = {name: [] for name in asked}
    for number in range(_ROUNDS):
        for name, each in sorted(asked.items(), reverse=number % 2 == 1):
            load = replace(each.load, scopes=scopes, seconds=_SECONDS)
            rounds[name].append(replace(each, load=load).put())
    return rounds


def compared(sort: str, rounds: Mapping[str, Sequence[Turn]]) -> list[Ratio]:
    """How long an exchange takes, and how much of a core: medians of the ratios of the rounds."""
    pairs = list(zip(rounds["filled"], rounds["empty"], strict=True))
    crowded = were_crowded([turn for pair in pairs for turn in pair])
    longer = median(filled.outcome.p50_ms / bare.outcome.p50_ms for filled, bare in pairs)
    told = [Ratio(f"{sort} exchange, times as long as in an empty installation", longer, crowded)]
    if all(turn.busy_us for pair in pairs for turn in pair):
        busier = median(filled.busy_us / bare.busy_us for filled, bare in pairs)
        told.append(Ratio(f"{sort} exchange, times as much of a core", busier, crowded))
    return told


def _rows(sort: str, rounds: Mapping[str, Sequence[Turn]], empty: float) -> Iterator[Row]:
    for name, turns in rounds.items():
        p50, p99 = (median(getattr(each.outcome, of) for each in turns) for of in ("p50_ms", "p99_ms"))
        yield Row(
            f"exchange, {sort}, {name} installation, PostgreSQL + Redis",
            median(each.outcome.rate for each in turns),
            empty,
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {median(each.busy_us for each in turns):.0f} µs of a core",
        )


def _lists(server: Server, empty: float) -> Iterator[Row]:
    """Rows for lists and searches in the largest zone, asked one after the other."""
    zone = f"/zones/{server.zone('acme-product')['id']}"
    with server.management() as client:
        # A user and a resource that were filled in: the oldest of the zone.
        users = (
            client.get(f"{zone}/users", params={"limit": 2, "sort": "created_at"}).raise_for_status().json()
        )
        user = users["items"][0]
        asked: dict[str, tuple[str, dict[str, Any]]] = {
            "zones": ("/zones", {"limit": 100}),
            "users": (f"{zone}/users", {"limit": 100}),
            "users by e-mail": (f"{zone}/users", {"limit": 100, "sort": "email"}),
            "a user by e-mail": (f"{zone}/users", {"filter[email]": user["email"]}),
            "users with a text in their e-mail": (f"{zone}/users", {"query[email]": "9999"}),
            "sessions": (f"{zone}/sessions", {"limit": 100}),
            "grants": (f"{zone}/delegated-grants", {"limit": 100}),
            f"the {RESOURCES} grants of a user": (f"{zone}/delegated-grants", {"user_id": user["id"]}),
            "grants that are revoked": (f"{zone}/delegated-grants", {"limit": 100, "status": "revoked"}),
        }
        for what, (path, query) in asked.items():
            took = sorted(_timed(client, path, query) for _ in range(_ASKED))
            note = f"p50 {1000 * median(took):.1f} ms, slowest {1000 * took[-1]:.1f} ms"
            yield Row(f"list at scale: {what}", len(took) / sum(took), empty, note)


def _timed(client: httpx.Client, path: str, query: dict[str, Any]) -> float:
    started = time.perf_counter()
    client.get(path, params=query).raise_for_status()
    return time.perf_counter() - started


def _memory(bare: Server, filled: Server) -> tuple[dict[str, str], float]:
    """What memory the worker of each has, before and after serving every zone, and after another round.

    Returns: as it is told; and how many times as much it has after the second round as after the first.
    """
    held = {
        "memory of a worker, empty installation": _resident(bare),
        "memory of a worker, before it has served every zone": _resident(filled),
    }
    zones = _zones(filled)
    for place in ("after it has served every zone", "after it has served every zone again"):
        with httpx.Client(base_url=filled.url, timeout=60, trust_env=False) as client:
            for zone in zones:
                for path in ("openid-configuration", "jwks.json"):
                    client.get(f"/z/{zone}/.well-known/{path}").raise_for_status()
                client.post(
                    f"/z/{zone}/oauth/token", data={"grant_type": "refresh_token", "client_id": "none"}
                )
        held[f"memory of a worker, {place}"] = _resident(filled)
    once, twice = list(held.values())[-2:]
    return {name: f"{mib:.0f} MiB" for name, mib in held.items()}, twice / once


def _zones(server: Server) -> list[str]:
    ids, after = list[str](), ""
    with server.management() as client:
        while True:
            query = {"limit": 100, **({"after": after} if after else {})}
            page = client.get("/zones", params=query).raise_for_status().json()
            ids += [each["id"] for each in page["items"]]
            if not (after := page["pagination"]["after_cursor"] or ""):
                return ids


def _resident(server: Server) -> float:
    """How many MiB of the process are in memory; one process is the only worker."""
    if server.process is None:
        raise RuntimeError("the server does not run")
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return kib / 1024

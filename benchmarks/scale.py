"""Scale: 1,000 zones, 1,000,000 users and 10,000,000 grants on PostgreSQL, beside an empty installation.

Exchanges on both take turns in the same run, in a zone that has a tenth of everything: how long they take,
and for how long each keeps a core busy, which other programs change little. Then lists and searches, and what
memory a worker has once it has served every zone, and served it again.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import httpx
from acme import Server
from sqlalchemy import text

from benchmarks import servers
from benchmarks.exchange import SCOPES, empty_rate, exchange_form, prepare
from benchmarks.load import Load, Outcome
from benchmarks.peers import Asked
from benchmarks.results import Facts
from benchmarks.scale_data import RESOURCES, TABLES, FilledZone, fill
from benchmarks.table import Row
from runtime.storage.sql.database import Database

ZONES, USERS = 1_000, 1_000_000
BOUND = 1.1  # times as long an exchange may take as in an empty installation
_SHARE = 10  # a tenth of all users are in the zone of the exchanges
_ROUNDS = 3
_ASKED = 40  # times that each list is asked for


@dataclass(frozen=True)
class Size:
    """How much is made."""

    zones: int = ZONES
    users: int = USERS


def measure(directory: Path, size: Size | None = None) -> Iterator[Row | Facts]:
    """Rows for exchanges and lists; facts about size, time and memory."""
    size = size or Size()
    with contextlib.ExitStack() as cleanup:
        state = cleanup.enter_context(servers.redis(directory / "scale-redis"))
        made: dict[str, tuple[Server, Load]] = {}
        for number, name in enumerate(("empty", "filled")):
            database = cleanup.enter_context(servers.postgresql(directory / f"scale-pg-{name}"))
            settings = {"ZONED_DATABASE_URL": database, "ZONED_REDIS_URL": state.replace("/0", f"/{number}")}
            server = Server(directory / f"scale-{name}", settings)
            server.init()
            server.start()
            cleanup.callback(server.stop)
            stage = prepare(server, directory / f"scale-config-{name}")
            load = Load(f"{stage.agent.issuer}/oauth/token", urlencode(exchange_form(stage)))
            made[name] = server, load
        server, load = made["filled"]
        told = _fill(server, size)
        empty = empty_rate(load.body)
        asked = {name: Asked(load, each.process and each.process.pid) for name, (each, load) in made.items()}
        yield from _exchanges(asked, empty, told)
        yield from _lists(server, empty)
        told |= _memory(made["empty"][0], server)
    yield Facts("scale", told)


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
        async with database.reading() as conn:
            return rows, int(await conn.scalar(text("SELECT pg_database_size(current_database())")) or 0)
    finally:
        await database.close()


def _exchanges(asked: dict[str, Asked], empty: float, told: dict[str, str]) -> Iterator[Row]:
    """Rows for warm and cold exchanges; the rounds of both installations take turns."""
    for sort, scopes in (("warm", []), ("cold", SCOPES)):
        rounds: dict[str, list[tuple[Outcome, float]]] = {name: [] for name in asked}
        for _ in range(_ROUNDS):
            for name, each in asked.items():
                rounds[name].append(replace(each, load=replace(each.load, scopes=scopes)).put())
        pairs = list(zip(rounds["filled"], rounds["empty"], strict=True))
        longer = median(filled.p50_ms / bare.p50_ms for (filled, _), (bare, _) in pairs)
        work = {name: median(busy for _, busy in each) for name, each in rounds.items()}
        told |= {
            f"{sort} exchange, times as long as in an empty installation": _bounded(longer),
            f"{sort} exchange, times as much of a core": _bounded(work["filled"] / (work["empty"] or 1.0)),
        }
        for name, outcomes in rounds.items():
            p50, p99 = (median(getattr(each, of) for each, _ in outcomes) for of in ("p50_ms", "p99_ms"))
            yield Row(
                f"exchange, {sort}, {name} installation, PostgreSQL + Redis",
                median(each.rate for each, _ in outcomes),
                empty,
                f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, {work[name]:.0f} µs of a core",
            )


def _bounded(ratio: float) -> str:
    return f"{ratio:.2f} (at most {BOUND}){'' if ratio <= BOUND else ', ABOVE THE BOUND'}"


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


def _memory(bare: Server, filled: Server) -> dict[str, str]:
    """What memory the worker of each has, before and after serving every zone, and after another round."""
    told = {"memory of a worker, empty installation": _resident(bare)}
    told["memory of a worker, before it has served every zone"] = _resident(filled)
    zones = _zones(filled)
    for place in ("after it has served every zone", "after it has served every zone again"):
        with httpx.Client(base_url=filled.url, timeout=60, trust_env=False) as client:
            for zone in zones:
                for path in ("openid-configuration", "jwks.json"):
                    client.get(f"/z/{zone}/.well-known/{path}").raise_for_status()
                client.post(
                    f"/z/{zone}/oauth/token", data={"grant_type": "refresh_token", "client_id": "none"}
                )
        told[f"memory of a worker, {place}"] = _resident(filled)
    return told


def _zones(server: Server) -> list[str]:
    ids, after = list[str](), ""
    with server.management() as client:
        while True:
            query = {"limit": 100, **({"after": after} if after else {})}
            page = client.get("/zones", params=query).raise_for_status().json()
            ids += [each["id"] for each in page["items"]]
            if not (after := page["pagination"]["after_cursor"] or ""):
                return ids


def _resident(server: Server) -> str:
    """What of the process is in memory; one process is the only worker."""
    if server.process is None:
        raise RuntimeError("the server does not run")
    status = Path(f"/proc/{server.process.pid}/status").read_text("ascii")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return f"{kib / 1024:.0f} MiB"

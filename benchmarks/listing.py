"""Lists: a page of 100 applications where there are 100, and the first and the last of 100,000."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from acme import Server
from sqlalchemy import insert, text

from benchmarks import servers
from benchmarks.exchange import put
from benchmarks.load import Load
from benchmarks.servers import empty_sanic
from benchmarks.table import Row
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION
from runtime.domain.kinds.application import Application
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import TABLES

FEW, MANY = 100, 100_000
LIMIT = 100
# How many times as long a page of many may take as the page of few.
FLOOR = 3.0
_BATCH = 5_000


def measure(directory: Path) -> Iterator[Row]:
    """Rows for each storage. Raises RuntimeError when a page of many takes longer than the floor allows."""
    with empty_sanic() as url:
        empty = put(Load(f"{url}/empty", "a=b", seconds=3)).rate
    yield from _on("SQLite", Server(directory / "lists-sqlite"), empty)
    with servers.postgresql(directory / "lists-pg") as url, servers.redis(directory / "lists-redis") as state:
        settings = {"ZONED_DATABASE_URL": url, "ZONED_REDIS_URL": state}
        yield from _on("PostgreSQL + Redis", Server(directory / "lists-postgresql", settings), empty)


def _on(storage: str, server: Server, empty: float) -> Iterator[Row]:
    server.init()
    server.start()
    try:
        few, many = (_zone(server, name) for name in ("few", "many"))
        asyncio.run(_fill(_database(server), {few["id"]: FEW, many["id"]: MANY}, few["organization_id"]))
        usual = 0.0
        for what, path in (
            (f"list {FEW} of {FEW}", _path(few)),
            (f"first {LIMIT} of {MANY:,}", _path(many)),
            (f"last {LIMIT} of {MANY:,}", f"{_path(many)}&after={_last_cursor(server, many)}"),
        ):
            outcome = put(Load(f"{server.url}{path}", bearer=server.api_key, connections=8))
            usual = usual or outcome.rate
            factor = usual / outcome.rate
            note = f"p50 {outcome.p50_ms:.1f} ms, {factor:.2f} times (at most {FLOOR:.0f})"
            yield Row(f"{what}, {storage}", outcome.rate, empty, note)
            if factor > FLOOR:
                raise RuntimeError(f"{what} on {storage} takes {factor:.1f} times as long as {FEW} of {FEW}")
    finally:
        server.stop()


def many(server: Server, count: int) -> str:
    """The path of a list of so many applications, in a zone that is made for it."""
    zone = _zone(server, "listed")
    asyncio.run(_fill(_database(server), {zone["id"]: count}, zone["organization_id"]))
    return _path(zone)


def _database(server: Server) -> str:
    embedded = f"sqlite+aiosqlite:///{server.directory / 'zonewright.db'}"
    return server.settings.get("ZONED_DATABASE_URL", embedded)


def _path(zone: dict[str, Any]) -> str:
    return f"/zones/{zone['id']}/applications?limit={LIMIT}"


def _client(server: Server) -> httpx.Client:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False)


def _zone(server: Server, name: str) -> dict[str, Any]:
    with _client(server) as client:
        made: dict[str, Any] = client.post("/zones", json={"name": name}).raise_for_status().json()
    return made


async def _fill(database: str, wanted: dict[str, int], organization_id: str) -> None:
    """Put applications into zones behind the service's back: a minute of requests in a few seconds."""
    opened, rows = Database.open(database), converter(APPLICATION).row
    start = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        for zone_id, count in wanted.items():
            for first in range(0, count, _BATCH):
                made = [
                    _application(number, start, organization_id, zone_id)
                    for number in range(first, min(first + _BATCH, count))
                ]
                async with opened.transaction() as conn:
                    await conn.execute(insert(TABLES[APPLICATION.name]), [rows(each) for each in made])
        async with opened.transaction() as conn:
            await conn.execute(text("ANALYZE"))
    finally:
        await opened.close()


def _application(number: int, start: datetime, organization_id: str, zone_id: str) -> Application:
    at = start + timedelta(seconds=number)
    return Application(
        id=new_id(),
        created_at=at,
        updated_at=at,
        organization_id=organization_id,
        zone_id=zone_id,
        identifier=f"https://application-{number}.acme.example",
        name=f"Application {number}",
        slug=f"application-{number}",
        description="One of many",
    )


def _last_cursor(server: Server, zone: dict[str, Any]) -> str:
    """The cursor that the last page starts after, found by walking there."""
    cursor, before, items = "", "", 0
    with _client(server) as client:
        while True:
            page = (
                client.get(f"{_path(zone)}{f'&after={cursor}' if cursor else ''}").raise_for_status().json()
            )
            items += len(page["items"])
            following = page["pagination"]["after_cursor"]
            if following is None:
                break
            before, cursor = cursor, following
    if items < MANY:
        raise RuntimeError(f"walking the pages showed {items} of {MANY} applications")
    return cursor or before

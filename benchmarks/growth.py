"""Growth: a cold token exchange in a zone of 100 users, and in the same zone once it has 100,000.

Each user has a delegated grant for the resource of the exchange and a consent to its client, so those tables
grow with the users.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from acme import ACCESS_TOKEN, TOKEN_EXCHANGE, Server
from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from benchmarks import servers
from benchmarks.exchange import SCOPES, TOOLS, empty_rate, prepare, put
from benchmarks.load import Load
from benchmarks.table import Row
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import USER
from runtime.domain.kinds.role import User
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.database import Database
from runtime.storage.sql.tables import METADATA, TABLES

FEW, MANY = 100, 100_000
# How many times as long an exchange may take among many as among few.
FLOOR = 1.5
_BATCH = 2_000


def measure(directory: Path) -> Iterator[Row]:
    """Rows for each storage. Raises RuntimeError when it takes longer among many than the floor allows."""
    sqlite = Server(directory / "growth-sqlite")
    url = f"sqlite+aiosqlite:///{sqlite.directory / 'zonewright.db'}"
    yield from _on("SQLite", sqlite, url, directory)
    with servers.postgresql(directory / "grown-pg") as url, servers.redis(directory / "grown-redis") as state:
        server = Server(directory / "grown", {"ZONED_DATABASE_URL": url, "ZONED_REDIS_URL": state})
        yield from _on("PostgreSQL + Redis", server, url, directory)


def _on(storage: str, server: Server, database: str, directory: Path) -> Iterator[Row]:
    server.init()
    server.start()
    try:
        stage = prepare(server, directory / f"growth-config-{server.port}")
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": stage.subject,
            "subject_token_type": ACCESS_TOKEN,
            "resource": TOOLS,
            "client_id": stage.agent.client_id,
            "client_secret": stage.agent.secret or "",
        }
        load = Load(f"{stage.agent.issuer}/oauth/token", urlencode(form), scopes=SCOPES)
        empty, usual, there = empty_rate(load.body), 0.0, 0
        for users in (FEW, MANY):
            asyncio.run(_fill(database, server.zone("acme-product")["id"], range(there, users)))
            there, outcome = users, put(load)
            usual = usual or outcome.p50_ms
            factor = outcome.p50_ms / usual
            note = f"p50 {outcome.p50_ms:.1f} ms, {factor:.2f} times (at most {FLOOR})"
            yield Row(f"exchange, cold, of {users:,} users, {storage}", outcome.rate, empty, note)
            if factor > FLOOR:
                raise RuntimeError(
                    f"among {users:,} users an exchange on {storage} takes {factor:.1f} times as long"
                )
    finally:
        server.stop()


async def _fill(database: str, zone_id: str, numbers: range) -> None:
    """Put users with a grant and a consent each into a zone, behind the service's back."""
    opened = Database.open(database)
    try:
        async with opened.transaction() as conn:
            like = await _samples(conn, zone_id)
        for first in range(numbers.start, numbers.stop, _BATCH):
            batch = range(first, min(first + _BATCH, numbers.stop))
            async with opened.transaction() as conn:
                users = [_user(like["users"], number) for number in batch]
                await conn.execute(insert(TABLES[USER.name]), [converter(USER).row(each) for each in users])
                for name in ("delegated_grants", "consents"):
                    rows = [{**like[name], "id": new_id(), "user_id": each.id} for each in users]
                    await conn.execute(insert(METADATA.tables[name]), rows)
        async with opened.transaction() as conn:
            await conn.execute(text("ANALYZE"))
    finally:
        await opened.close()


async def _samples(conn: AsyncConnection, zone_id: str) -> dict[str, dict[str, Any]]:
    """A row of each table that the sign-in has made."""
    found = {}
    for name in ("users", "delegated_grants", "consents"):
        table = METADATA.tables[name]
        rows = await conn.execute(select(table).where(table.c.zone_id == zone_id).limit(1))
        found[name] = dict(rows.mappings().one())
    return found


def _user(like: dict[str, Any], number: int) -> User:
    address, now = f"grown-{number}@acme.example", datetime.now(UTC)
    return User(
        id=new_id(),
        organization_id=like["organization_id"],
        zone_id=like["zone_id"],
        identifier=address,
        email=address,
        email_verified=True,
        created_at=now,
        updated_at=now,
    )

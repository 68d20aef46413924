"""Token events (the record of token requests): a batch is sent as one JSON value in one statement.

A driver that gets rows one by one fights the event loop for the interpreter at each of them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import delete, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.storage.sql.organization_tables import token_events as _events

COLUMNS = (
    "id",
    "organization_id",
    "zone_id",
    "at",
    "event",
    "outcome",
    "reason",
    "step",
    "user_id",
    "application_id",
    "user_agent_id",
    "resource_id",
    "actors",
    "determining",
    "request_id",
    "requests",
    "credential_id",
)
# A row that is no token request: an application has proved itself, once a day for each credential.
USE, PROVED = "authentication", "proved"
_TYPES = {
    "at": "timestamptz",
    "step": "bigint",
    "requests": "bigint",
    "actors": "json",
    "determining": "json",
}
# Rows whose organization has gone meanwhile have nobody left to read them.
_INTO = f"INSERT INTO token_events ({', '.join(COLUMNS)})"
_FROM_JSON_ARRAYS = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(COLUMNS)))
_FROM_JSONB_ARRAYS = ", ".join(
    f"CAST(value ->> {place} AS {_TYPES.get(name, 'text')})" for place, name in enumerate(COLUMNS)
)
# Constants alone go into the text of these.
_SQLITE = text(
    f"{_INTO} SELECT {_FROM_JSON_ARRAYS} FROM json_each(:rows)"  # noqa: S608
    " WHERE json_extract(value, '$[1]') IN (SELECT id FROM organizations)"
)
_POSTGRESQL = text(
    f"{_INTO} SELECT {_FROM_JSONB_ARRAYS}"  # noqa: S608
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS batch(value)"
    " WHERE value ->> 1 IN (SELECT id FROM organizations)"
)


async def add(conn: AsyncConnection, rows: Sequence[Sequence[Any]]) -> None:
    """Add events: each row holds the columns in the order of the table, `at` as an aware UTC datetime."""
    packed = orjson.dumps(rows, default=_packed, option=orjson.OPT_PASSTHROUGH_DATETIME).decode()
    statement = _SQLITE if conn.dialect.name == "sqlite" else _POSTGRESQL
    await conn.execute(statement, {"rows": packed})


async def forget(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget the oldest events from before that instant; how many, *limit* at most."""
    oldest = select(_events.c.organization_id, _events.c.id).where(_events.c.at < before)
    key = tuple_(_events.c.organization_id, _events.c.id)
    gone = await conn.execute(
        delete(_events).where(key.in_(oldest.order_by(_events.c.at).limit(limit).subquery().select()))
    )
    return gone.rowcount


def _packed(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    raise TypeError(f"{type(value).__name__} is not for the record")

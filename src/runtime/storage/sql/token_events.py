"""Token events (the record of token requests): a batch is sent as one JSON value in one statement.

A driver that gets rows one by one fights the event loop for the interpreter at each of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson
from sqlalchemy import ColumnElement, Row, bindparam, delete, select, text, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.storage.sql import token_event_partitions
from runtime.storage.sql.availability import is_about_data
from runtime.storage.sql.organization_tables import token_events as _events
from runtime.storage.sql.paging import KeyColumn, Keyset, Page, fetch


class TokenEvent(NamedTuple):
    """A row of `token_events`; each member is a column.

    Attributes:
        id: unique in the organization; later events have greater ones, nearly.
        at: an aware UTC datetime.
        event: the grant type, in short; `USE` for no token request.
        step: the numbered step of an exchange that refused.
        actors, determining: of the chain, and the names of the policy rules that decided.
        requests: how many requests the row stands for; None for one.
    """

    id: str
    organization_id: str
    zone_id: str
    at: datetime
    event: str
    outcome: str
    reason: str | None = None
    step: int | None = None
    user_id: str | None = None
    application_id: str | None = None
    user_agent_id: str | None = None
    resource_id: str | None = None
    actors: Sequence[str] = ()
    determining: Sequence[str] = ()
    request_id: str | None = None
    requests: int | None = None
    credential_id: str | None = None


class UnstorableEvents(Exception):
    """One of the events has a value that no database takes, however often it is asked."""


@dataclass(frozen=True, slots=True)
class TokenEventFilter:
    """Which events are asked for.

    Attributes:
        filters: column of `FILTERS` -> values, of which one must match.
        since: the first instant that counts.
        until: the first instant that no longer counts.
    """

    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None


# What events can be selected by; each is a column.
FILTERS = ("request_id", "user_id", "application_id", "resource_id", "event", "outcome")
_NEWEST_FIRST = Keyset((KeyColumn(_events.c.at, descending=True), KeyColumn(_events.c.id, descending=True)))
_DAY = timedelta(days=1)
_LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)  # after which there is none
_COLUMNS = TokenEvent._fields
_ORGANIZATION, _AT = _COLUMNS.index("organization_id"), _COLUMNS.index("at")
# A row that is no token request: an application has proved itself, once a day for each credential.
USE, PROVED = DecisionEvent.AUTHENTICATION, DecisionOutcome.PROVED
_TYPES = {
    "at": "timestamptz",
    "step": "bigint",
    "requests": "bigint",
    "actors": "json",
    "determining": "json",
}
# Rows whose organization has gone meanwhile have nobody left to read them.
_INTO = f"INSERT INTO token_events ({', '.join(_COLUMNS)})"
_FROM_JSON_ARRAYS = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(_COLUMNS)))
_FROM_JSONB_ARRAYS = ", ".join(
    f"CAST(value ->> {place} AS {_TYPES.get(name, 'text')})" for place, name in enumerate(_COLUMNS)
)
# Constants alone go into the text of these.
_SQLITE = text(
    f"{_INTO} SELECT {_FROM_JSON_ARRAYS} FROM json_each(:rows)"  # noqa: S608
    f" WHERE json_extract(value, '$[{_ORGANIZATION}]') IN (SELECT id FROM organizations)"
)
_POSTGRESQL = text(
    f"{_INTO} SELECT {_FROM_JSONB_ARRAYS}"  # noqa: S608
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS batch(value)"
    f" WHERE value ->> {_ORGANIZATION} IN (SELECT id FROM organizations)"
)


async def add(conn: AsyncConnection, events: Sequence[TokenEvent]) -> None:
    """Add events in one statement. Raises UnstorableEvents."""
    rows = [(*event[:_AT], _instant(event.at), *event[_AT + 1 :]) for event in events]
    statement = _SQLITE if conn.dialect.name == "sqlite" else _POSTGRESQL
    try:
        packed = orjson.dumps(rows).decode()
        await conn.execute(statement, {"rows": packed})
    except TypeError as failure:  # half of a character
        raise UnstorableEvents(str(failure)) from None
    except DBAPIError as failure:
        if is_about_data(failure):
            raise UnstorableEvents(str(failure.orig)) from None
        raise


async def page(
    conn: AsyncConnection,
    organization_id: str,
    zone_id: str,
    selection: TokenEventFilter,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
    before: tuple[datetime, str] | None = None,
) -> Page[TokenEvent]:
    """One page of a zone's events, newest first.

    Args:
        after: the page starts behind the event of that instant and id: it has what is older.
        before: the page ends in front of it; not together with `after`.
    """
    columns = _events.c
    wanted = [columns.organization_id == organization_id, columns.zone_id == zone_id]
    wanted.extend(columns[name].in_(values) for name, values in selection.filters.items())
    if selection.since is not None:
        wanted += [columns.at >= selection.since, columns.at >= _written_out(_midnight(selection.since))]
    if selection.until is not None:
        wanted.append(columns.at < selection.until)
        if (last := _midnight(selection.until)) < _LAST_DAY:
            wanted.append(columns.at < _written_out(last + _DAY))
    query = select(*(columns[name] for name in _COLUMNS)).where(*wanted)
    return await fetch(conn, query, _NEWEST_FIRST, _read, limit=limit, after=after, before=before)


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _written_out(at: datetime) -> ColumnElement[datetime]:
    """An instant in the text of a statement.

    PostgreSQL plans a statement once for all values. Only what it knows then keeps partitions out of the
    plan, and reads the others one after the other. The text is the same all day long.
    """
    return bindparam(None, at, type_=_events.c.at.type, literal_execute=True)


def _read(row: Row[Any]) -> TokenEvent:
    return TokenEvent(**row._mapping)


async def forget(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    """Forget the oldest events from before that instant; how many, *limit* at most.

    On PostgreSQL only those that no partition takes along when it is dropped, which is once its last is past.
    """
    if conn.dialect.name == "postgresql":
        past = await token_event_partitions.past_until(conn) or before
        before = max(min(before, past), before - token_event_partitions.WIDEST)
    oldest = select(_events.c.organization_id, _events.c.id).where(_events.c.at < before)
    key = tuple_(_events.c.organization_id, _events.c.id)
    gone = await conn.execute(
        delete(_events).where(key.in_(oldest.order_by(_events.c.at).limit(limit).subquery().select()))
    )
    return gone.rowcount


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")

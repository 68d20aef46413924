"""Token events (the record of token requests): a batch is sent as one JSON value in one statement.

A driver that gets rows one by one fights the event loop for the interpreter at each of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Row, Select, delete, select, text, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.oauth.decision_events import DecisionEvent, DecisionOutcome
from runtime.storage.sql import token_event_partitions
from runtime.storage.sql.availability import is_about_data
from runtime.storage.sql.organization_tables import token_events as _events
from runtime.storage.sql.paging import KeyColumn, Keyset, Page, nearest


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

    def from_on(self, at: datetime) -> "TokenEventFilter":
        """Those of them that are of that instant or later."""
        return replace(self, since=at if self.since is None else max(self.since, at))

    def until_before(self, at: datetime) -> "TokenEventFilter":
        """Those of them that are of before that instant."""
        return replace(self, until=at if self.until is None else min(self.until, at))


# What events can be selected by; each is a column. One has an index: another would cost every event that is
# added, a fifth more on PostgreSQL and as much again on SQLite.
_INDEXED = "request_id"
FILTERS = (_INDEXED, "user_id", "application_id", "resource_id", "event", "outcome")
SEARCHED = 50_000  # events among which one page is looked for, where no index finds them
_NEWEST_FIRST = Keyset((KeyColumn(_events.c.at, descending=True), KeyColumn(_events.c.id, descending=True)))
_Place = tuple[datetime, str]  # the instant and the id of an event, which may be gone
_INSTANT = timedelta(microseconds=1)
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
# A batch is sent again where the answer to its commit was lost: what has come in has the same id and time.
_ONCE = " ON CONFLICT DO NOTHING"
# Constants alone go into the text of these.
_SQLITE = text(
    f"{_INTO} SELECT {_FROM_JSON_ARRAYS} FROM json_each(:rows)"  # noqa: S608
    f" WHERE json_extract(value, '$[{_ORGANIZATION}]') IN (SELECT id FROM organizations){_ONCE}"
)
_POSTGRESQL = text(
    f"{_INTO} SELECT {_FROM_JSONB_ARRAYS}"  # noqa: S608
    " FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS batch(value)"
    f" WHERE value ->> {_ORGANIZATION} IN (SELECT id FROM organizations){_ONCE}"
)


async def add(conn: AsyncConnection, events: Sequence[TokenEvent]) -> None:
    """Add events in one statement. Raises UnstorableEvents."""
    rows = [(*event[:_AT], _in_text(event.at), *event[_AT + 1 :]) for event in events]
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
    after: _Place | None = None,
    before: _Place | None = None,
) -> Page[TokenEvent]:
    """One page of a zone's events, newest first.

    Where no index finds what is asked for, it is looked for among so many events and no more. So a page may
    be short, or even empty, and not the last: then the next begins at its `seen_to`. Whoever comes from
    another page can go back to it.

    Args:
        after: the page starts behind the event of that instant and id: it has what is older.
        before: the page ends in front of it; not together with `after`.
    """
    at, start = _events.c.at, before or after
    if after is not None:  # no event has an empty id: behind that place is nothing of its instant
        selection = selection.until_before(after[0] + _INSTANT if after[1] else after[0])
    if before is not None:
        selection = selection.from_on(before[0])
    end: datetime | None = None
    if selection.filters and _INDEXED not in selection.filters:
        every = _query(organization_id, zone_id, replace(selection, filters={})).with_only_columns(at)
        in_order = every.order_by(at.desc() if before is None else at)
        end = await conn.scalar(in_order.offset(SEARCHED).limit(1))
    if end is not None:  # with all events of that instant
        selection = selection.from_on(end) if before is None else selection.until_before(end + _INSTANT)
    walked = _NEWEST_FIRST if before is None else _NEWEST_FIRST.reversed
    query = _query(organization_id, zone_id, selection)
    rows, has_more = await nearest(conn, query, walked, start, limit=limit)
    items, seen_to = [_read(row) for row in rows], None
    edge = start[0] if end is None and start is not None and not rows else end
    if edge is not None and not has_more:
        has_more, seen_to = end is not None, (edge if before is None else edge + _INSTANT, "")
    if before is not None:
        return Page(items[::-1], has_next=True, has_previous=has_more, seen_to=seen_to)
    return Page(items, has_next=has_more, has_previous=after is not None, seen_to=seen_to)


def _query(organization_id: str, zone_id: str, selection: TokenEventFilter) -> Select[Any]:
    columns = _events.c
    wanted = [columns.organization_id == organization_id, columns.zone_id == zone_id]
    wanted.extend(columns[name].in_(values) for name, values in selection.filters.items())
    if selection.since is not None:
        wanted.append(columns.at >= selection.since)
    if selection.until is not None:
        wanted.append(columns.at < selection.until)
    return select(*(columns[name] for name in _COLUMNS)).where(*wanted)


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


def _in_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")

"""Revocations: each names tokens by their claims, until all of these have expired.

The sessions, users and grants themselves say whether they stand. Entries are for those who cannot ask: the
servers that verify tokens by themselves, and, for single tokens, the zone endpoints.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Table, case, delete, func, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.oauth.revocable_names import Name, name_of
from runtime.storage.sql.handle_placeholders import own_handles
from runtime.storage.sql.tables import METADATA

_revocations = METADATA.tables["revocations"]
_withdrawn = METADATA.tables["withdrawn_names"]
_in_sessions = METADATA.tables["withdrawn_in_sessions"]
_internals = METADATA.tables["zone_internals"]
PERMANENT = frozenset({"sid", "jti"})  # what these alone name never comes back
# What `issued_until` adds to an instant covers a transaction that takes no longer.
_BRIEF = timedelta(seconds=1)
_WRITTEN = "revoked in this transaction"
_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


@dataclass(frozen=True, slots=True)
class Revocation:
    """Tokens that are worth nothing any more.

    Attributes:
        claims: a token is meant when it has all of these: `sid`, `jti`, `client_id`, `aud`, `sub`, or
            `actor`, which is anybody in its chain; and when it was issued no later than *at*. A session or a
            token that has ended never comes back; whatever else is named may.
        forget_at: when the last of them has expired anyway.
    """

    at: datetime
    forget_at: datetime
    claims: Mapping[str, str]


@dataclass(slots=True)
class _Written:
    """What a transaction revokes, as noted at its connection.

    Attributes:
        instants: by zone and instant, when what it has written then is forgotten.
        names: the names that it has withdrawn, by zone.
    """

    instants: dict[tuple[str, datetime], set[datetime]] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)


async def add(conn: AsyncConnection, zone_id: str, entries: Iterable[Revocation]) -> None:
    """Keep these, for the list and for the zone's own endpoints: each answers by the same entries.

    The caller changes an epoch in the same transaction: of the zone, or, where they name sessions, of the
    user. Names that claims were read as from tables may be placeholders: what tokens have are the names.
    """
    kept = list(entries)
    if own := own_handles(conn):
        kept = [
            replace(each, claims={claim: own.get(name, name) for claim, name in each.claims.items()})
            for each in kept
        ]
    rows = [
        {
            "zone_id": zone_id,
            "id": new_id(),
            "at": each.at,
            "forget_at": each.forget_at,
            "claims": dict(each.claims),
            "token_id": None,
        }
        for each in kept
    ]
    if rows:
        await conn.execute(insert(_revocations), rows)
    for each in kept:
        _note(conn, zone_id, each.at, each.forget_at if "sid" not in each.claims else None)
    await _withdraw(conn, zone_id, [each for each in kept if each.claims.keys() - PERMANENT])


def _note(conn: AsyncConnection, zone_id: str, at: datetime, forget_at: datetime | None) -> None:
    """Take note of what a transaction has written, for `postpone`."""
    instants = _written_by(conn).instants.setdefault((zone_id, at), set())
    instants.update([forget_at] if forget_at is not None else [])


def _written_by(conn: AsyncConnection) -> _Written:
    """The notes of the present transaction; those of an earlier one on the same connection are gone."""
    transaction = conn.get_transaction()
    noted: tuple[object, _Written] | None = conn.info.get(_WRITTEN)
    if noted is None or noted[0] is not (transaction and transaction.sync_transaction):
        noted = conn.info[_WRITTEN] = (transaction and transaction.sync_transaction, _Written())
    return noted[1]


def withdrawn(conn: AsyncConnection) -> dict[str, set[str]]:
    """The names that the present transaction has withdrawn, by zone; those of single sessions are not."""
    return _written_by(conn).names


async def postpone(conn: AsyncConnection, *, now: datetime) -> None:
    """Let what a transaction has revoked be revoked at its end, where that is a while after it was written.

    Until the commit nobody else knows of it: what is issued meanwhile has to be covered, and who reads the
    list from a cursor has to find it there. What no session ends is then kept for as much longer.
    """
    written = _written_by(conn).instants
    noted = list(written.items())
    written.clear()
    for (zone_id, at), ends in noted:
        late = now - at
        if late < _BRIEF:
            continue
        for forget_at in ends:
            for table in (_revocations, _withdrawn):
                await conn.execute(
                    update(table)
                    .where(table.c.zone_id == zone_id, table.c.at == at, table.c.forget_at == forget_at)
                    .values(at=now, forget_at=forget_at + late)
                )
            _note(conn, zone_id, now, forget_at + late)
        for table in (_revocations, _withdrawn, _in_sessions):
            await conn.execute(
                update(table).where(table.c.zone_id == zone_id, table.c.at == at).values(at=now)
            )
        _note(conn, zone_id, now, None)


async def add_token(
    conn: AsyncConnection, zone_id: str, token_id: str, *, now: datetime, expires_at: datetime
) -> int | None:
    """Keep that one token is revoked; the zone's new count of such tokens, None when it has been already.

    The count is what other processes notice, and is that of the entries that there ever were. Its row is
    locked until the commit, so a count that was seen covers every entry with a smaller one: call this last in
    a transaction.
    """
    _note(conn, zone_id, now, None)
    added = await conn.execute(
        _INSERT[conn.dialect.name](_revocations)
        .values(
            zone_id=zone_id,
            id=new_id(),
            at=now,
            forget_at=expires_at,
            claims={"jti": token_id},
            token_id=token_id,
        )
        .on_conflict_do_nothing()
    )
    if added.rowcount != 1:
        return None
    count: int = (
        await conn.execute(
            update(_internals)
            .where(_internals.c.zone_id == zone_id)
            .values(denials=_internals.c.denials + 1)
            .returning(_internals.c.denials)
        )
    ).scalar_one()
    return count


async def _withdraw(conn: AsyncConnection, zone_id: str, entries: Iterable[Revocation]) -> None:
    """Keep the names in entries for the zone's own endpoints; of each, the latest time it was given up."""
    in_zone, in_sessions = [], []
    for each in entries:
        claims = dict(each.claims)
        session_id = claims.pop("sid", None)
        claim, name = name_of(claims)
        row = {"zone_id": zone_id, "claim": claim, "name": name, "at": each.at, "forget_at": each.forget_at}
        if session_id is None:
            in_zone.append(row)
            _written_by(conn).names.setdefault(zone_id, set()).add(name)
        else:
            in_sessions.append(row | {"session_id": session_id})
    for table, rows in ((_withdrawn, in_zone), (_in_sessions, in_sessions)):
        if rows:
            await conn.execute(_latest_of(table, conn.dialect.name), rows)


def _latest_of(table: Table, dialect: str) -> Any:
    """An insert that leaves the later of two times, whichever node has come first."""
    made = _INSERT[dialect](table)
    later = {
        name: case((made.excluded[name] > table.c[name], made.excluded[name]), else_=table.c[name])
        for name in ("at", "forget_at")
    }
    return made.on_conflict_do_update(index_elements=[each.name for each in table.primary_key], set_=later)


async def withdrawn_at(conn: AsyncConnection, zone_id: str, claim: str, name: str) -> datetime | None:
    """When what had that name went for the last time; None when nothing ever did."""
    found: datetime | None = await conn.scalar(
        select(_withdrawn.c.at).where(
            _withdrawn.c.zone_id == zone_id, _withdrawn.c.claim == claim, _withdrawn.c.name == name
        )
    )
    return found


async def withdrawn_in_session(conn: AsyncConnection, zone_id: str, session_id: str) -> dict[Name, datetime]:
    """When the user took something back from what a session had led to, for the last time, by its name."""
    found = await conn.execute(
        select(_in_sessions.c.claim, _in_sessions.c.name, _in_sessions.c.at).where(
            _in_sessions.c.zone_id == zone_id, _in_sessions.c.session_id == session_id
        )
    )
    return {(row.claim, row.name): row.at for row in found}


async def denied(
    conn: AsyncConnection, zone_id: str, *, alive_at: datetime, after: datetime | None = None
) -> frozenset[str]:
    """The ids of the single tokens of a zone that were revoked and may have been alive at an instant.

    Args:
        after: only those that were revoked since.
    """
    asked = select(_revocations.c.token_id).where(
        _revocations.c.zone_id == zone_id,
        _revocations.c.token_id.is_not(None),
        _revocations.c.forget_at > alive_at,
    )
    if after is not None:
        asked = asked.where(_revocations.c.at > after)
    return frozenset((await conn.execute(asked)).scalars())


async def since(
    conn: AsyncConnection,
    zone_id: str,
    after: datetime,
    *,
    now: datetime,
    after_id: str | None = None,
    limit: int | None = None,
) -> list[tuple[str, Revocation]]:
    """The entries made after that instant that anybody needs, oldest first, each with its id.

    Args:
        after_id: the last entry of a page, made at that instant; the next page begins after it.
        limit: how many a page has.
    """
    made = tuple_(_revocations.c.at, _revocations.c.id)
    is_later = _revocations.c.at > after if after_id is None else made > (after, after_id)
    rows = await conn.execute(
        select(_revocations.c.id, _revocations.c.at, _revocations.c.forget_at, _revocations.c.claims)
        .where(_revocations.c.zone_id == zone_id, is_later, _revocations.c.forget_at > now)
        .order_by(_revocations.c.at, _revocations.c.id)
        .limit(limit)
    )
    return [(row.id, Revocation(row.at, row.forget_at, row.claims)) for row in rows]


async def counts_since(
    conn: AsyncConnection, zone_id: str, after: datetime, *, now: datetime
) -> dict[datetime, int]:
    """How many entries `since` would find, by the instant at which they were made."""
    rows = await conn.execute(
        select(_revocations.c.at, func.count())
        .where(_revocations.c.zone_id == zone_id, _revocations.c.at > after, _revocations.c.forget_at > now)
        .group_by(_revocations.c.at)
    )
    return dict(rows.all())


async def prune(conn: AsyncConnection, *, now: datetime) -> int:
    """Forget the entries that nobody needs any more; how many those were."""
    gone = await conn.execute(delete(_revocations).where(_revocations.c.forget_at <= now))
    names = await conn.execute(delete(_withdrawn).where(_withdrawn.c.forget_at <= now))
    others = await conn.execute(delete(_in_sessions).where(_in_sessions.c.forget_at <= now))
    return gone.rowcount + names.rowcount + others.rowcount

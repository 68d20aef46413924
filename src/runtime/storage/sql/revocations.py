"""Revocations: each names tokens by their claims, until all of these have expired.

The sessions, users and grants themselves say whether they stand. Entries are for those who cannot ask: the
servers that verify tokens by themselves, and, for single tokens, the zone endpoints.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.domain.oauth.revocable_names import Name, name_of
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.handle_placeholders import own_handles
from runtime.storage.sql.tables import METADATA, TABLES

_revocations = METADATA.tables["revocations"]
_withdrawn = METADATA.tables["withdrawn_names"]
_in_sessions = METADATA.tables["withdrawn_in_sessions"]
_internals = METADATA.tables["zone_internals"]
_sessions = METADATA.tables["sessions"]
_resources = TABLES["Resource"]
_applications = TABLES["Application"]
_credentials = TABLES[APPLICATION_CREDENTIAL.name]
_user_agents = TABLES["UserAgent"]
PERMANENT = frozenset({"sid", "jti"})  # what these alone name never comes back
# The most that the setting for tokens whose resource says nothing may be.
_LONGEST_DEFAULT_SECONDS = 86_400
# A request that began before its credential expired, or the lifetime was shortened, is answered by then.
_LAST_REQUEST = timedelta(minutes=1)
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


async def keep_former_lifetime(conn: AsyncConnection, zone_id: str, seconds: int, *, now: datetime) -> None:
    """Keep that until now tokens of a zone were issued that live so long: no entry is forgotten before them.

    Args:
        seconds: the lifetime that a resource had; it is shorter from now on, or the resource goes.
    """
    if seconds <= _LONGEST_DEFAULT_SECONDS:
        return
    end, column = now + _LAST_REQUEST + timedelta(seconds=seconds), _internals.c.former_tokens_end_at
    await conn.execute(
        update(_internals)
        .where(_internals.c.zone_id == zone_id, or_(column.is_(None), column < end))
        .values(former_tokens_end_at=end)
    )


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

    The count is what other processes notice. Its row is locked until the commit, so a count that was seen
    covers every entry with a smaller one: call this last in a transaction.
    """
    count: int | None = await conn.scalar(
        update(_internals)
        .where(_internals.c.zone_id == zone_id)
        .values(denials=_internals.c.denials + 1)
        .returning(_internals.c.denials)
    )
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
    return count if added.rowcount == 1 else None


async def add_grant(
    conn: AsyncConnection, *, zone_id: str, user_id: str, resource_id: str, now: datetime
) -> None:
    """Keep that a user's word for a resource has ended: for what any of their sessions led to there.

    What the application that provides it has made of that since rests on the same word. Tokens do not say by
    which of its resources they came to an application, so all go in whose chain it is.
    """
    found = await conn.execute(
        select(
            _sessions.c.id,
            _sessions.c.expires_at,
            _resources.c.identifier,
            _applications.c.identifier.label("provider"),
        )
        .select_from(
            _sessions.join(_resources, _resources.c.zone_id == _sessions.c.zone_id).outerjoin(
                _applications,
                and_(
                    _applications.c.zone_id == _resources.c.zone_id,
                    _applications.c.id == _resources.c.application_id,
                ),
            )
        )
        .where(
            _sessions.c.zone_id == zone_id,
            _sessions.c.user_id == user_id,
            _sessions.c.status == "active",
            _sessions.c.expires_at > now,
            _resources.c.id == resource_id,
        )
    )
    entries = []
    for row in found:
        entries.append(Revocation(now, row.expires_at, {"sid": row.id, "aud": row.identifier}))
        if row.provider is not None:
            entries.append(Revocation(now, row.expires_at, {"sid": row.id, "actor": row.provider}))
    await add(conn, zone_id, entries)


async def add_party(conn: AsyncConnection, zone_id: str, client_ref: ClientRef, *, now: datetime) -> None:
    """Keep that a client goes: for what was issued to it, where it acted in a chain, and its sessions."""
    entries = await _issued_and_acted(conn, zone_id, client_ref, now)
    found = await conn.execute(
        select(_sessions.c.id, _sessions.c.expires_at).where(
            _sessions.c.zone_id == zone_id, _sessions.c.status == "active", client_ref.owns(_sessions)
        )
    )
    ended = [Revocation(now, row.expires_at, {"sid": row.id}) for row in found]
    await add(conn, zone_id, [*entries, *ended])


async def add_ended(conn: AsyncConnection, zone_id: str, application_id: str, *, now: datetime) -> None:
    """Keep that an application is ended for now: for what was issued to it, and where it acted in a chain.

    Its sessions are not over: once it is active again, its users' refresh tokens lead to new tokens.
    """
    client_ref = ClientRef(application_id=application_id)
    await add(conn, zone_id, await _issued_and_acted(conn, zone_id, client_ref, now))


async def _issued_and_acted(
    conn: AsyncConnection, zone_id: str, client_ref: ClientRef, now: datetime
) -> list[Revocation]:
    """The entries of what a client was issued, and of the chains in which it acted."""
    forget_at = await _longest(conn, zone_id, now)
    claims = [
        *await _claims_of(conn, zone_id, client_ref),
        *await _acted(conn, zone_id, client_ref),
    ]
    return [Revocation(now, forget_at, each) for each in claims]


async def add_renamed(
    conn: AsyncConnection, zone_id: str, application_id: str, name: str, *, now: datetime
) -> None:
    """Keep that an application is not called so any more: tokens that name it mean nobody who is next.

    Args:
        name: what it was called, in chains and as the subject of tokens of its own.
    """
    forget_at = await _longest(conn, zone_id, now)
    own = await _claims_of(conn, zone_id, ClientRef(application_id=application_id))
    claims = [{"actor": name}, *({**each, "sub": name} for each in own)]
    await add(conn, zone_id, [Revocation(now, forget_at, each) for each in claims])


async def add_resource(conn: AsyncConnection, zone_id: str, identifier: str, *, now: datetime) -> None:
    """Keep that no resource is called so any more: tokens for it are for none that has the name next."""
    await add(conn, zone_id, [Revocation(now, await _longest(conn, zone_id, now), {"aud": identifier})])


async def add_between(
    conn: AsyncConnection,
    zone_id: str,
    client_ref: ClientRef,
    sessions: Mapping[str, datetime],
    *,
    now: datetime,
) -> None:
    """Keep that a client may not act for a user any more: for what it was issued in one of these sessions,
    and where it acted.

    Args:
        sessions: id -> when it ends.
    """
    claims = [
        *await _claims_of(conn, zone_id, client_ref),
        *await _acted(conn, zone_id, client_ref),
    ]
    entries = [
        Revocation(now, ends_at, {"sid": session_id, **each})
        for session_id, ends_at in sessions.items()
        for each in claims
    ]
    await add(conn, zone_id, entries)


async def add_issued(conn: AsyncConnection, zone_id: str, client_ref: ClientRef, *, now: datetime) -> None:
    """Keep that what was issued to a client is worth nothing any more, nor what it has led to."""
    await add(conn, zone_id, await _issued_and_acted(conn, zone_id, client_ref, now))


async def add_not_admitted(
    conn: AsyncConnection, zone_id: str, client_ids: Iterable[str], *, now: datetime
) -> None:
    """Keep that clients that registered themselves may not act any more: for what they were issued, and where
    they acted. Let in again, they begin anew.

    Args:
        client_ids: theirs, by which chains name them, too.
    """
    forget_at = await _longest(conn, zone_id, now)
    entries = [
        Revocation(now, forget_at, {claim: each}) for each in client_ids for claim in ("client_id", "actor")
    ]
    await add(conn, zone_id, entries)


async def add_credential(
    conn: AsyncConnection,
    zone_id: str,
    credential_id: str,
    *,
    now: datetime,
    former: str | None = None,
    expired_at: datetime | None = None,
) -> None:
    """Keep that one credential of an application goes: for what was issued to it, and where it acted.

    Chains name applications, not credentials: what another credential of the application has led to ends too,
    and is asked for again. So does what was issued with another secret of the same client id. Once everything
    has expired that was issued to a credential before it expired itself, nothing is revoked.

    Args:
        former: the client id that it had until now, if it does not go but is called otherwise.
        expired_at: when it expires, or has expired.
    """
    if expired_at is not None and await _longest(conn, zone_id, expired_at + _LAST_REQUEST) <= now:
        return
    forget_at = await _longest(conn, zone_id, now)
    claims = await _client_ids(conn, zone_id, _credentials.c.id == credential_id)
    claims += [{"client_id": former}] if former is not None else []
    acted = await conn.execute(
        select(_applications.c.identifier)
        .join(
            _credentials,
            and_(
                _credentials.c.zone_id == _applications.c.zone_id,
                _credentials.c.application_id == _applications.c.id,
            ),
        )
        .where(_credentials.c.zone_id == zone_id, _credentials.c.id == credential_id)
    )
    claims += [{"actor": row.identifier} for row in acted]
    await add(conn, zone_id, [Revocation(now, forget_at, each) for each in claims])


async def add_workloads(conn: AsyncConnection, zone_id: str, provider_id: str, *, now: datetime) -> None:
    """Keep that a provider's word counts no more as it did: for what its workloads were issued, and where."""
    found = await conn.execute(
        select(_credentials.c.id).where(
            _credentials.c.zone_id == zone_id, _credentials.c.provider_id == provider_id
        )
    )
    for row in found.all():
        await add_credential(conn, zone_id, row.id, now=now)


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


def _identifier(table: Table, zone_id: str, entity_id: str) -> Select[Any]:
    return select(table.c.identifier).where(table.c.zone_id == zone_id, table.c.id == entity_id)


async def _claims_of(conn: AsyncConnection, zone_id: str, client_ref: ClientRef) -> list[dict[str, str]]:
    """What a client goes by in its tokens."""
    if client_ref.application_id is not None:
        return await _client_ids(conn, zone_id, _credentials.c.application_id == client_ref.id)
    named = await conn.execute(_identifier(_user_agents, zone_id, client_ref.id))
    return [{"client_id": row.identifier} for row in named]


async def _acted(conn: AsyncConnection, zone_id: str, client_ref: ClientRef) -> list[dict[str, str]]:
    """What a client goes by in chains: a client that registered itself by its client id."""
    table = _applications if client_ref.application_id is not None else _user_agents
    named = await conn.execute(_identifier(table, zone_id, client_ref.id))
    return [{"actor": row.identifier} for row in named]


async def _client_ids(
    conn: AsyncConnection, zone_id: str, chosen: ColumnElement[bool]
) -> list[dict[str, str]]:
    """What these credentials are on the wire: a workload goes by its credential's id."""
    found = await conn.execute(
        select(_credentials.c.id, _credentials.c.type, _credentials.c.identifier).where(
            _credentials.c.zone_id == zone_id, chosen
        )
    )
    return [{"client_id": row.id if row.type == "token" else row.identifier} for row in found]


async def _longest(conn: AsyncConnection, zone_id: str, now: datetime) -> datetime:
    """When every token that was issued by then has expired, also under a lifetime that was longer."""
    of_zone = _resources.c.zone_id == zone_id
    present = select(func.max(_resources.c.credential_lifetime_seconds)).where(of_zone).scalar_subquery()
    found = await conn.execute(
        select(present, _internals.c.former_tokens_end_at).where(_internals.c.zone_id == zone_id)
    )
    longest, former = found.one()
    end = now + timedelta(seconds=max(_LONGEST_DEFAULT_SECONDS, longest or 0))
    return max(end, former) if former is not None else end


async def denied(conn: AsyncConnection, zone_id: str, *, now: datetime) -> tuple[int, frozenset[str]]:
    """How many single tokens of a zone were ever revoked, and the ids of those that may be alive."""
    # Counted first: what is read after can only be more than the count says.
    count = await conn.scalar(select(_internals.c.denials).where(_internals.c.zone_id == zone_id))
    rows = await conn.execute(
        select(_revocations.c.token_id).where(
            _revocations.c.zone_id == zone_id,
            _revocations.c.token_id.is_not(None),
            _revocations.c.forget_at > now,
        )
    )
    return int(count or 0), frozenset(rows.scalars())


async def since(
    conn: AsyncConnection, zone_id: str, after: datetime, *, now: datetime
) -> list[tuple[str, Revocation]]:
    """The entries made after that instant that anybody needs, oldest first, each with its id."""
    rows = await conn.execute(
        select(_revocations.c.id, _revocations.c.at, _revocations.c.forget_at, _revocations.c.claims)
        .where(_revocations.c.zone_id == zone_id, _revocations.c.at > after, _revocations.c.forget_at > now)
        .order_by(_revocations.c.at, _revocations.c.id)
    )
    return [(row.id, Revocation(row.at, row.forget_at, row.claims)) for row in rows]


async def prune(conn: AsyncConnection, *, now: datetime) -> int:
    """Forget the entries that nobody needs any more; how many those were."""
    gone = await conn.execute(delete(_revocations).where(_revocations.c.forget_at <= now))
    names = await conn.execute(delete(_withdrawn).where(_withdrawn.c.forget_at <= now))
    others = await conn.execute(delete(_in_sessions).where(_in_sessions.c.forget_at <= now))
    return gone.rowcount + names.rowcount + others.rowcount

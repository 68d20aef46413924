"""The revocations of what has ended: a client, a credential, a resource, or a user's word to one.

Each writes entries that name tokens by what its client, actor or resource goes by, and that are kept until
the last token has expired which may have that name.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.storage.sql import revocations
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.revocations import Revocation
from runtime.storage.sql.tables import METADATA, TABLES

_internals = METADATA.tables["zone_internals"]
_sessions = METADATA.tables["sessions"]
_resources = TABLES["Resource"]
_applications = TABLES["Application"]
_credentials = TABLES[APPLICATION_CREDENTIAL.name]
_user_agents = TABLES["UserAgent"]
# The most that the setting for tokens whose resource says nothing may be.
_LONGEST_DEFAULT_SECONDS = 86_400
# A request that began before its credential expired, or the lifetime was shortened, is answered by then.
_LAST_REQUEST = timedelta(minutes=1)


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
    await revocations.add(conn, zone_id, entries)


async def add_party(conn: AsyncConnection, zone_id: str, client_ref: ClientRef, *, now: datetime) -> None:
    """Keep that a client goes: for what was issued to it, where it acted in a chain, and its sessions."""
    entries = await _issued_and_acted(conn, zone_id, client_ref, now)
    found = await conn.execute(
        select(_sessions.c.id, _sessions.c.expires_at).where(
            _sessions.c.zone_id == zone_id, _sessions.c.status == "active", client_ref.owns(_sessions)
        )
    )
    ended = [Revocation(now, row.expires_at, {"sid": row.id}) for row in found]
    await revocations.add(conn, zone_id, [*entries, *ended])


async def add_ended(conn: AsyncConnection, zone_id: str, application_id: str, *, now: datetime) -> None:
    """Keep that an application is ended for now: for what was issued to it, and where it acted in a chain.

    Its sessions are not over: once it is active again, its users' refresh tokens lead to new tokens.
    """
    client_ref = ClientRef(application_id=application_id)
    await revocations.add(conn, zone_id, await _issued_and_acted(conn, zone_id, client_ref, now))


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
    await revocations.add(conn, zone_id, [Revocation(now, forget_at, each) for each in claims])


async def add_resource(conn: AsyncConnection, zone_id: str, identifier: str, *, now: datetime) -> None:
    """Keep that no resource is called so any more: tokens for it are for none that has the name next."""
    forget_at = await _longest(conn, zone_id, now)
    await revocations.add(conn, zone_id, [Revocation(now, forget_at, {"aud": identifier})])


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
    await revocations.add(conn, zone_id, entries)


async def add_issued(conn: AsyncConnection, zone_id: str, client_ref: ClientRef, *, now: datetime) -> None:
    """Keep that what was issued to a client is worth nothing any more, nor what it has led to."""
    await revocations.add(conn, zone_id, await _issued_and_acted(conn, zone_id, client_ref, now))


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
    await revocations.add(conn, zone_id, entries)


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
    await revocations.add(conn, zone_id, [Revocation(now, forget_at, each) for each in claims])


async def add_workloads(conn: AsyncConnection, zone_id: str, provider_id: str, *, now: datetime) -> None:
    """Keep that a provider's word counts no more as it did: for what its workloads were issued, and where."""
    found = await conn.execute(
        select(_credentials.c.id).where(
            _credentials.c.zone_id == zone_id, _credentials.c.provider_id == provider_id
        )
    )
    for row in found.all():
        await add_credential(conn, zone_id, row.id, now=now)


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

"""Users with many sessions: whatever ends one ends all that it means, in as many statements as for few.

Each silent sign-in makes a session, so a user has as many as they like. A write holds SQLite's only writer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ColumnElement, String, Table, cast, event, func, insert, literal, select, text, true
from tests.support.factories import App, Company, found_company

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import SESSION, USER
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.logout import LogoutToken
from runtime.services.account import withdrawal
from runtime.services.authority import password_changes, session_revocation
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.logout import backchannel_receiver
from runtime.services.zones import CachedZone
from runtime.storage.sql import refresh_families, sessions, users
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.tables import METADATA

MANY = 33_000  # PostgreSQL's driver refuses a statement with more than 32,767 values
PROVIDER = "https://provider.example"
_sessions, _families, _outbox = (METADATA.tables[name] for name in ("sessions", "refresh_families", "outbox"))


@dataclass
class Holder:
    """A user of a zone, with a browser session and one of an application below it, which has a refresh token.

    The application wants to hear of sessions that end.
    """

    company: Company
    zone: Zone
    view: CachedZone
    app: App
    user: User
    browser: SessionRecord
    below: SessionRecord

    @property
    def services(self) -> Services:
        return self.company.services

    async def multiply(self, session: SessionRecord, number: int) -> None:
        """So many more sessions like that one."""
        numbers = select(literal(1).label("n")).cte(recursive=True)
        numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < number))
        copied = [column for column in _sessions.c if column.name != "id"]
        new = _sessions.c.id.concat("-").concat(cast(numbers.c.n, String))
        rows = select(new, *copied).select_from(_sessions.join(numbers, true()))
        async with self.services.database.transaction() as conn:
            await conn.execute(
                insert(_sessions).from_select(
                    ["id", *(column.name for column in copied)], rows.where(_sessions.c.id == session.id)
                )
            )

    async def count(self, table: Table, *where: ColumnElement[bool]) -> int:
        """How many rows of the zone there are."""
        query = select(func.count()).select_from(table).where(table.c.zone_id == self.zone.id, *where)
        async with self.services.database.reading() as conn:
            return int(await conn.scalar(query) or 0)

    async def standing(self) -> tuple[int, int]:
        """How many sessions, and how many refresh tokens, are worth something."""
        tables = (_sessions, _families)
        found = [await self.count(table, table.c.status == "active") for table in tables]
        return found[0], found[1]


async def signed_in(company: Company) -> Holder:
    """Somebody in a zone of their own."""
    zone = await company.zone(new_id())
    told = {"oauth2": {"backchannel_logout_uri": "https://app.example/logout"}}
    app = await company.app(zone, "app", protocols=told)
    user, now = await company.user(zone, "ada@acme.example"), company.services.clock()
    same: dict[str, Any] = {
        "organization_id": zone.organization_id,
        "zone_id": zone.id,
        "user_id": user.id,
        "authenticated_at": now,
        "expires_at": now + timedelta(hours=8),
        "created_at": now,
        "updated_at": now,
        "issuer": PROVIDER,
        "provider_subject": user.id,
    }
    browser = SessionRecord(id=new_id(), session_type="browser", application_id=None, **same)
    theirs: dict[str, Any] = {"application_id": app.id, "client_id": app.client_id}
    below = SessionRecord(id=new_id(), session_type="application", parent_id=browser.id, **theirs, **same)
    family = RefreshFamily(
        id=new_id(),
        zone_id=zone.id,
        session_id=below.id,
        user_id=user.id,
        scopes=[],
        resources={},
        current_hash=new_id().encode(),
        expires_at=below.expires_at,
        created_at=now,
        **theirs,
    )
    async with company.services.database.transaction() as conn:
        await users.add_password(conn, user, password_hash="hash", now=now)
        await sessions.add(conn, browser)
        await sessions.add(conn, below)
        await refresh_families.add(conn, family)
    view = await company.services.zones.get(zone.id)
    return Holder(company, zone, view, app, user, browser, below)


async def disable(who: Holder) -> None:
    await who.company.update(USER, who.zone.id, who.user.id, status="disabled")


async def delete(who: Holder) -> None:
    await who.company.delete(USER, who.zone.id, who.user.id)


async def change_password(who: Holder) -> None:
    async with who.services.database.reading() as conn:
        found = await users.with_password(conn, who.user.id, zone_id=who.zone.id)
    assert found is not None
    await password_changes.replace(who.services, who.zone, found, "correct horse battery staple")


async def sign_out(who: Holder) -> None:
    await session_revocation.end(who.services, who.zone, session_id=who.browser.id)


async def revoke(who: Holder) -> None:
    await who.company.update(SESSION, who.zone.id, who.browser.id, status="revoked")


async def hear_of_logout(who: Holder) -> None:
    token = LogoutToken(who.user.id, None, new_id(), who.browser.expires_at)
    await backchannel_receiver._end(who.services, who.view, PROVIDER, token)


async def remove_application(who: Holder) -> None:
    signed_in = SignedInUser(who.browser, who.user)
    await withdrawal.application(who.services, who.view, signed_in, who.app.id)


WAYS: Mapping[str, Callable[[Holder], Awaitable[None]]] = {
    each.__name__: each
    for each in (disable, delete, change_password, sign_out, revoke, hear_of_logout, remove_application)
}


@pytest.fixture(scope="module")
async def company(storage: Services) -> Company:
    """An organization in a new database of each kind in turn."""
    return await found_company(storage)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_ends_more_sessions_than_a_statement_has_values(company: Company, way: str) -> None:
    """With their refresh tokens, and each application is told of each.

    PostgreSQL has counted what there was before, as it does now and then: a zone of it has none of these.
    """
    if company.services.database.dialect == "postgresql":
        async with company.services.database.transaction() as conn:
            await conn.execute(text("ANALYZE"))
    who = await signed_in(company)
    # A provider means sessions of browsers; anything else ends those below one, too.
    await who.multiply(who.browser if way == "hear_of_logout" else who.below, MANY)

    await WAYS[way](who)

    left = 1 if way == "remove_application" else 0  # the browser's own
    assert await who.standing() == (left, 0)
    told = 1 if way == "hear_of_logout" else MANY + 1
    assert await who.count(_outbox) == told


@pytest.mark.parametrize("way", WAYS)
async def test_ends_many_sessions_in_as_many_statements_as_few(company: Company, way: str) -> None:
    """Nothing is asked of the database for each."""
    assert await statements(await signed_in(company), way, 2) == await statements(
        await signed_in(company), way, 200
    )


async def statements(who: Holder, way: str, number: int) -> int:
    """The statements in which that many more sessions end: this task's alone, not those of the service.

    No time passes meanwhile: what a transaction revokes that takes long is written again, for its end.
    """
    await who.multiply(who.browser, number)
    await who.multiply(who.below, number)
    counted: list[str] = []
    mine = asyncio.current_task()

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if asyncio.current_task() is mine:
            counted.append(statement)

    engine, clock = who.services.database.engine.sync_engine, who.services.clock
    event.listen(engine, "before_cursor_execute", note)
    began_at, going = clock.system(), clock.system
    clock.system = lambda: began_at
    try:
        await WAYS[way](who)
    finally:
        clock.system = going
        event.remove(engine, "before_cursor_execute", note)
    return len(counted)

"""Redeeming while something ends: one waits for the other, and nothing is left of what has ended."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from sqlalchemy import func, select, text
from tests.support.oauth_site import Answer, Browser, Client, Site, claims
from tests.support.waiting import until

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import PROVIDER, USER, Verb
from runtime.domain.kinds.values import ProviderType
from runtime.services import epochs
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.grants import refresh_token_rotation
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.storage.sql import code_redemption, directory, entities, session_users, sessions
from runtime.storage.sql.code_redemption import BrowserLogin
from runtime.storage.sql.tables import METADATA

STORAGE = ("servers",)  # SQLite has one writer, which others wait for

_sessions = METADATA.tables["sessions"]
_families = METADATA.tables["refresh_families"]

Work = Callable[[], Coroutine[Any, Any, None]]


async def put_at_provider(site: Site, client: Client, session_id: str) -> str:
    """Let the browser's session be one that a provider has begun; the provider's id."""
    async with site.services.database.transaction() as conn:
        found = await entities.find_by(
            conn, PROVIDER, "type", ProviderType.SERVICE_STS.value, within={"zone_id": client.zone.id}
        )
        assert found is not None
        of_it = (_sessions.c.zone_id == client.zone.id, _sessions.c.id == session_id)
        await conn.execute(
            _sessions.update().where(*of_it).values(provider_id=found.id, provider_id_token=b"sealed")
        )
        return str(found.id)


def endings(site: Site, client: Client, under: BrowserLogin, provider_id: str) -> Mapping[str, Work]:
    """Ways in which what a code is redeemed for can end."""
    zone_id, services = client.zone.id, site.services

    async def disable() -> None:
        patch = {"status": "disabled"}
        await site.company.run(USER, Verb.UPDATE, {"zone_id": zone_id}, under.user.id, patch)

    async def leave_provider() -> None:
        async with services.epochs.transaction() as (conn, bumped):
            ended = await directory.end_provider_sessions(
                conn, provider_id, zone_id=zone_id, now=services.clock()
            )
            bumped.update({epochs.session_key(each): epoch for each, epoch in ended.items()})

    async def take_back() -> None:
        zone = await services.zones.get(zone_id)
        found = await zone.clients.get(client.app.client_id)
        assert found is not None
        await withdrawal.application(
            services, zone, SignedInUser(under.session, under.user), found.client_ref.id
        )

    return {"disabled": disable, "provider gone": leave_provider, "taken back": take_back}


async def standing(site: Site, client: Client, session_id: str) -> BrowserLogin:
    """The sign-in as it is now."""
    async with site.services.database.querying() as conn:
        found = await session_users.by_session(conn, session_id, zone_id=client.zone.id)
    assert found is not None
    return BrowserLogin(*found)


async def redeem(site: Site, client: Client, under: BrowserLogin, conn: Any) -> bool:
    """Keep what a code is redeemed for, if the sign-in is still that."""
    services = site.services
    zone = await services.zones.get(client.zone.id)
    found = await zone.clients.get(client.app.client_id)
    assert found is not None
    values = {name: getattr(under.session, name) for name in sessions.SessionRecord.__slots__}
    below = values | {
        "id": new_id(),
        "parent_id": under.session.id,
        "session_type": "application",
        "application_id": found.client_ref.application_id,
        "client_id": found.client_id,
        "cookie_hash": None,
        "provider_id_token": None,
    }
    session = sessions.SessionRecord(**below)
    authority = UserAuthorization(session, under.user, found, frozenset({"openid"}), ())
    _, family = refresh_token_rotation.new_family(services, zone, authority, new_id(), services.clock())
    return await code_redemption.insert_session(conn, session, family, under=under)


async def alive(site: Site, client: Client) -> int:
    """How many of the zone's sessions of applications, and refresh families, stand."""
    counts = [
        select(func.count())
        .select_from(table)
        .where(table.c.zone_id == client.zone.id, table.c.status == "active", *more)
        for table, more in ((_sessions, (_sessions.c.session_type != "browser",)), (_families, ()))
    ]
    async with site.services.database.reading() as conn:
        return sum([int(await conn.scalar(count) or 0) for count in counts])


async def secrets_left(site: Site, client: Client) -> int:
    """How many of the zone's ended sessions still have their provider's ID token."""
    count = (
        select(func.count())
        .select_from(_sessions)
        .where(_sessions.c.zone_id == client.zone.id, _sessions.c.status == "revoked")
        .where(_sessions.c.provider_id_token.is_not(None))
    )
    async with site.services.database.reading() as conn:
        return int(await conn.scalar(count) or 0)


async def somebody_waits(services: Services, *works: asyncio.Task[Any]) -> None:
    """Return when a statement waits for a lock, or one of these is done without."""
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")

    async def is_waited_for() -> bool:
        async with services.database.watching() as conn:
            return any(work.done() for work in works) or bool(await conn.scalar(waits))

    await until(is_waited_for)


@pytest.mark.threat("18m")
@pytest.mark.parametrize("which", ["disabled", "provider gone", "taken back"])
@pytest.mark.parametrize("first", ["ending", "redeeming"])
def test_redeeming_while_it_ends(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch, which: str, first: str
) -> None:
    """Codes are redeemed before; of one that is while it ends, nothing stands, whichever of them begins."""
    zone = site.zone()
    site.user(zone)
    client = site.app(zone)
    answer = browser.open(client.url())
    code = answer.code if isinstance(answer, Answer) else browser.sign_in(answer).code
    token = client.redeem(code).json()["access_token"]
    services = site.services

    async def ending_first(end: Work, under: BrowserLogin) -> bool:
        written, go = asyncio.Event(), asyncio.Event()

        async def held(*_: Any) -> None:
            written.set()
            await go.wait()

        monkeypatch.setattr(services.epochs, "record_changes", held)
        ending = asyncio.create_task(end())
        await written.wait()
        async with services.database.writing_once() as conn:
            redeeming = asyncio.create_task(redeem(site, client, under, conn))
            await somebody_waits(services, redeeming)
            go.set()
            kept = await redeeming
        await ending
        return kept

    async def redeeming_first(end: Work, under: BrowserLogin) -> bool:
        async with services.database.transaction() as conn:
            kept = await redeem(site, client, under, conn)
            ending = asyncio.create_task(end())
            await somebody_waits(services, ending)
        await ending
        return kept

    async def race() -> bool:
        async with services.database.querying() as conn:
            own = await sessions.find(conn, claims(token)["sid"], zone_id=zone.id)
        assert own is not None
        assert own.parent_id is not None
        provider_id = await put_at_provider(site, client, own.parent_id)
        under = await standing(site, client, own.parent_id)
        async with services.database.writing_once() as conn:
            assert await redeem(site, client, under, conn)
        assert await alive(site, client) == 4  # of two codes
        end = endings(site, client, under, provider_id)[which]
        return await (ending_first if first == "ending" else redeeming_first)(end, under)

    kept = site.run(race())

    assert kept is (first == "redeeming")
    assert site.run(alive(site, client)) == 0
    assert site.run(secrets_left(site, client)) == 0

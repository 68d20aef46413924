"""Browser sessions: whom a cookie stands for, and which session the next one takes the place of."""

import asyncio

from tests.support.factories import Company
from tests.support.scene import Scene

from runtime.domain.kinds.role import User
from runtime.services.authority import browser_sessions, session_revocation
from runtime.services.authority.browser_sessions import Authentication, SignedInUser
from runtime.storage.sql import sessions as storage


async def opened(scene: Scene, user: User, cookie: str | None = None) -> tuple[SignedInUser, str]:
    """A new session in a browser that comes with that cookie, and its own cookie."""
    services, view = scene.services, await scene.services.zones.get(scene.zone.id)
    how = Authentication(at=services.clock(), amr=("pwd",))
    async with services.database.transaction() as conn:
        return await browser_sessions.open_session(
            conn, services, view, user, how, started_by="notes", previous_cookie=cookie
        )


async def place_of(scene: Scene, before: SignedInUser) -> str | None:
    """The id of the session that has taken the place of that one."""
    async with scene.services.database.reading() as conn:
        found = await storage.find(conn, before.session.id, zone_id=scene.zone.id)
    assert found is not None
    return found.parent_id


async def test_the_next_session_of_the_same_user_takes_its_place(company: Company, own_scene: Scene) -> None:
    """What the session before let in goes on below the new one, and ends with it."""
    ada = await company.user(own_scene.zone, "ada@acme.example")
    before, cookie = await opened(own_scene, ada)

    after, _ = await opened(own_scene, ada, cookie)

    assert await place_of(own_scene, before) == after.session.id


async def test_another_users_session_stays_their_own(company: Company, own_scene: Scene) -> None:
    """Whoever signs in next at the same browser does not end, by signing out, what was somebody else's."""
    ada = await company.user(own_scene.zone, "ada@acme.example")
    bob = await company.user(own_scene.zone, "bob@acme.example")
    before, cookie = await opened(own_scene, ada)

    await opened(own_scene, bob, cookie)

    assert await place_of(own_scene, before) is None


async def test_an_ended_session_is_not_taken_up_again(company: Company, own_scene: Scene) -> None:
    """A session that was revoked stays apart: nothing of it goes on below the new one."""
    ada = await company.user(own_scene.zone, "ada@acme.example")
    before, cookie = await opened(own_scene, ada)
    await session_revocation.end(own_scene.services, own_scene.zone, session_id=before.session.id)

    await opened(own_scene, ada, cookie)

    assert await place_of(own_scene, before) is None


async def test_each_who_asks_at_once_hears_of_their_own_cookie(company: Company, own_scene: Scene) -> None:
    """They are looked up together; in another zone, a cookie stands for nobody."""
    services, zones = own_scene.services, (own_scene.zone, await company.zone("Elsewhere"))
    views = [await services.zones.get(zone.id) for zone in zones]
    cookies: list[str] = []
    for view in views:
        user = await company.user(view.entity, "ada@acme.example")
        how = Authentication(at=services.clock(), amr=("pwd",))
        async with services.database.transaction() as conn:
            _, cookie = await browser_sessions.open_session(
                conn, services, view, user, how, started_by="notes", previous_cookie=None
            )
        cookies.append(cookie)

    asked = [(view, cookie) for view in views for cookie in (*cookies, "nobody's", cookies[0])]
    heard = await asyncio.gather(*(browser_sessions.current(services, *each) for each in asked))

    here, elsewhere = [[each and each.session.zone_id for each in part] for part in (heard[:4], heard[4:])]
    assert here == [zones[0].id, None, None, zones[0].id]
    assert elsewhere == [None, zones[1].id, None, None]

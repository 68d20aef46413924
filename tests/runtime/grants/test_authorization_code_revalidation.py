"""Redeeming under a sign-in that changes: what is known of it counts only as long as it is so."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.oauth_site import Answer, Browser, Client, Site, claims

from runtime.domain.errors import NotFound
from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, USER, Verb
from runtime.domain.kinds.role import User
from runtime.services.grants import authorization_code
from runtime.storage.sql import code_redemption, sessions
from runtime.storage.sql.tables import METADATA

STORAGE = ("embedded", "servers")
FILES = "https://files.example"
ASKED: dict[str, Any] = {"resources": [FILES], "scope": "openid email read"}

_sessions = METADATA.tables["sessions"]
_families = METADATA.tables["refresh_families"]
_grants = METADATA.tables["delegated_grants"]


@pytest.fixture
def client(site: Site, browser: Browser) -> Client:
    """An application that has to ask, and whose user has signed in and agreed to FILES."""
    zone = site.zone()
    site.user(zone)
    files = site.run(site.company.resource(zone, FILES, scopes=["read"]))
    client = site.app(zone, consent="required", dependencies=[files])
    client.sign_in(browser, **ASKED)
    return client


def code_for(client: Client, browser: Browser) -> str:
    """A code of somebody who is asked nothing any more."""
    answer = browser.open(client.url(**ASKED))
    assert isinstance(answer, Answer), answer
    return answer.code


def ids(site: Site, table: Any, zone_id: str) -> set[str]:
    """Ids of a zone's rows."""

    async def read() -> set[str]:
        async with site.services.database.reading() as conn:
            return set((await conn.execute(select(table.c.id).where(table.c.zone_id == zone_id))).scalars())

    return site.run(read())


def rename(site: Site, client: Client, email: str) -> None:
    """Give the only user of the zone another address."""
    (user_id,) = ids(site, METADATA.tables["users"], client.zone.id)
    site.run(site.company.run(USER, Verb.UPDATE, {"zone_id": client.zone.id}, user_id, {"email": email}))


def withdraw(site: Site, client: Client) -> None:
    """Take back what the user granted for FILES."""
    (grant_id,) = ids(site, _grants, client.zone.id)
    site.run(site.company.update(DELEGATED_GRANT, client.zone.id, grant_id, status="revoked"))


def shorten(site: Site, client: Client, browser: Browser) -> None:
    """Let the browser session end in a minute."""
    cookie = next(each.value for each in browser.http.cookies.jar if "session" in each.name)

    async def do() -> None:
        async with site.services.database.transaction() as conn:
            hashed = site.services.hasher.hash(cookie or "")
            found = await sessions.find_by_cookie(conn, hashed, zone_id=client.zone.id)
            assert found is not None
            until = site.services.clock() + timedelta(seconds=60)
            await sessions.extend(conn, found.id, zone_id=client.zone.id, until=until)

    site.run(do())


def test_what_changes_after_the_code_counts(site: Site, browser: Browser, client: Client) -> None:
    """The process that redeems has seen the user before; the tokens say what is so now."""
    before = client.redeem(code_for(client, browser)).json()
    assert claims(before["id_token"])["email"] == "ada@acme.example"
    assert before["expires_in"] > 60

    code = code_for(client, browser)
    rename(site, client, "countess@acme.example")
    shorten(site, client, browser)
    after = client.redeem(code)

    assert after.status_code == 200, after.text
    assert claims(after.json()["id_token"])["email"] == "countess@acme.example"
    assert after.json()["expires_in"] <= 60


@pytest.mark.threat("18m")
def test_what_is_withdrawn_after_the_code_is_gone(site: Site, browser: Browser, client: Client) -> None:
    """A code is no way around it, and nothing is kept of the attempt."""
    assert client.redeem(code_for(client, browser)).status_code == 200
    code, before = code_for(client, browser), ids(site, _sessions, client.zone.id)

    withdraw(site, client)
    refused = client.redeem(code).json()

    assert (refused["error"], refused["reason"]) == ("access_denied", "user_authorization_required")
    assert ids(site, _sessions, client.zone.id) == before


@pytest.mark.parametrize(("changes", "status"), [(1, 200), (99, 400)])
def test_a_change_between_look_and_write(
    site: Site,
    browser: Browser,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    changes: int,
    status: int,
) -> None:
    """The look is taken again; where the session keeps changing, nothing is kept or given."""
    assert client.redeem(code_for(client, browser)).status_code == 200
    code = code_for(client, browser)
    before = {table: ids(site, table, client.zone.id) for table in (_sessions, _families)}
    add: Callable[..., Any] = code_redemption.insert_session
    seen: list[str] = []

    async def changing(conn: Any, *args: Any, under: code_redemption.BrowserLogin, **kw: Any) -> bool:
        """As if somebody else had changed the user just before the statement ran."""
        seen.append(under.user.email or "")
        if len(seen) <= changes:
            stale: User = under.user.model_copy(update={"epoch": under.user.epoch - 1})
            under = code_redemption.BrowserLogin(under.session, stale)
        kept: bool = await add(conn, *args, under=under, **kw)
        return kept

    monkeypatch.setattr(authorization_code.code_redemption, "insert_session", changing)
    answer = client.redeem(code)

    assert answer.status_code == status, answer.text
    added = {table.name: len(ids(site, table, client.zone.id) - before[table]) for table in before}
    assert added == {"sessions": int(status == 200), "refresh_families": int(status == 200)}
    assert len(seen) == min(changes + 1, 4)


def test_an_application_that_goes_meanwhile(
    site: Site, browser: Browser, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted between the look and the write: a refusal like any other, and no failure."""
    assert client.redeem(code_for(client, browser)).status_code == 200
    code = code_for(client, browser)
    answer: Callable[..., Any] = authorization_code.token_responses.answer
    of_zone = {"zone_id": client.zone.id}

    async def and_gone(*args: Any, **kw: Any) -> Any:
        made = await answer(*args, **kw)
        with suppress(NotFound):
            await site.company.run(APPLICATION, Verb.DELETE, of_zone, client.app.id)
        return made

    monkeypatch.setattr(authorization_code.token_responses, "answer", and_gone)
    refused = client.redeem(code)

    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

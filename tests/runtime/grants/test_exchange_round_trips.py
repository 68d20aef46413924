"""Round trips of a token exchange, and its answers when the state or the database is unavailable."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import event
from tests.support.factories import App, Person
from tests.support.logs import logged_lines
from tests.support.scene import Scene
from tests.support.state_doubles import Away, Counting, with_state
from tests.support.waiting import let_elapse, repeat, until

from runtime.api.oauth.errors import as_oauth_error
from runtime.domain.errors import InvalidGrant, TemporarilyUnavailable, Unavailable
from runtime.domain.kinds.resource import Resource
from runtime.logs import throttled_warnings
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.management.zones import key_rotation
from runtime.services.zones.registry import RECENT_SECONDS
from runtime.storage.state import StateStore


async def test_warm_exchange_is_one_trip_and_no_statement(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """Everything but the epochs and the token is known; the record is written behind the answer.

    Which epochs have moved is read twice a second, whatever the number of requests.
    """
    subject = await scene.company.token(scene.zone, agent, ann)
    state = Counting(scene.services.state)
    services = with_state(scene.services, state)
    for _ in range(2):
        await scene.exchange(agent, subject, api, "read", services=services)
    await scene.services.decisions.flush()
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "token_events" not in statement and "epoch_changes" not in statement:
            statements.append(statement)

    state.calls.clear()
    engine = scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        for _ in range(5):
            await scene.exchange(agent, subject, api, "read", services=services)
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert state.calls == ["fetch"] * 5
    assert [each for each in statements if each.startswith(("SELECT", "UPDATE"))] == []


async def test_what_is_public_costs_no_trip(scene: Scene) -> None:
    """Metadata and keys come from the view at hand; a change made elsewhere is in it about a second later."""
    state = Counting(scene.services.state)
    services = with_state(scene.services, state)
    first = await services.zones.get(scene.zone.id)
    state.calls.clear()

    assert await services.zones.recent(scene.zone.id) is first
    assert state.calls == []

    kid = await key_rotation.rotate(scene.services, scene.zone.id, "ES256")
    await let_elapse(RECENT_SECONDS)
    assert kid in {jwk["kid"] for jwk in (await services.zones.recent(scene.zone.id)).jwks}


@pytest.mark.threat("35a", "35f")
async def test_without_short_lived_state(scene: Scene, agent: App, api: Resource) -> None:
    """A state that is away costs speed: exchanges go on, and a revocation is seen at the very next one."""
    bob = await scene.company.person(scene.zone, "bob@acme.test")
    subject = await scene.company.token(scene.zone, agent, bob)
    services = with_state(scene.services, Away())
    assert all([await scene.exchange(agent, subject, api, "read", services=services) for _ in range(2)])

    async with scene.services.database.transaction() as conn:
        await session_revocation.revoke(conn, scene.services, scene.zone.id, bob.session_id)

    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=services)


async def test_a_state_that_is_away_is_logged_once(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """No request fails for it, so the log is where an operator finds out."""
    subject = await scene.company.token(scene.zone, agent, ann)
    with logged_lines() as lines:
        for state in (Counting(scene.services.state), Away(), Away()):
            services = with_state(scene.services, state)
            assert await scene.exchange(agent, subject, api, "read", services=services)
            lines.append({"event": "exchanged"})

    events = [line["event"] for line in lines]
    away = "Redis is not available: requests are answered from the database, and nobody can sign in"
    assert events == ["exchanged", away, "exchanged", "exchanged"]


class Blinking(Away):
    """A state that is away now and then, and has lost nothing when it is back."""

    is_away = False

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        answering = super() if self.is_away else super(Away, self)
        return await answering.fetch(keys)

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        answering = super() if self.is_away else super(Away, self)
        await answering.raise_all(numbers, ttl_seconds=ttl_seconds)


async def test_that_the_state_answers_again_is_logged_once(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """With the time it was away, so that the log tells the whole outage."""
    subject, state = await scene.company.token(scene.zone, agent, ann), Blinking()
    services = with_state(scene.services, state)
    with logged_lines() as lines:
        answers = []
        for state.is_away in (False, True, True, False, False):
            answers.append(await scene.exchange(agent, subject, api, "read", services=services))

    assert all(answers)
    back = [line for line in lines if line["event"] == "Redis answers again"]
    assert [(line["log_level"], line["after_seconds"] >= 0) for line in back] == [("info", True)]


@pytest.mark.threat("18o", "35a")
async def test_revoked_while_the_state_was_away(scene: Scene, agent: App, api: Resource) -> None:
    """The state comes back with the epochs of before, and vouches for nothing that was ended meanwhile."""
    bob = await scene.company.person(scene.zone, "rob@acme.test")
    subject = await scene.company.token(scene.zone, agent, bob)
    state = Blinking()
    revoking, other = (with_state(scene.services, state) for _ in range(2))
    assert not [
        services
        for services in (revoking, other)
        if not await scene.exchange(agent, subject, api, "read", services=services)
    ]

    state.is_away = True
    await session_revocation.end(revoking, scene.zone, session_id=bob.session_id)
    state.is_away = False

    with pytest.raises(InvalidGrant):
        await repeat(
            lambda: scene.exchange(agent, subject, api, "read", services=other), seconds=epochs.RECENT_SECONDS
        )


@pytest.mark.threat("35h")
async def test_published_epoch_ahead_of_the_database(
    scene: Scene, agent: App, api: Resource, ann: Person, state: StateStore
) -> None:
    """When state and database contradict each other nothing is issued; the caller may come back.

    The database may have been set back: however often one asks, what the state says ends with its lifetime.
    """
    subject = await scene.company.token(scene.zone, agent, ann)
    services = with_state(scene.services, state)
    assert await scene.exchange(agent, subject, api, "read", services=services)

    await state.raise_all({epochs.zone_key(scene.zone.id): 10**9}, ttl_seconds=3)

    throttled_warnings._logged.clear()
    with logged_lines() as logged, pytest.raises(TemporarilyUnavailable):
        await scene.exchange(agent, subject, api, "read", services=services)
    assert any("ahead of the database" in line.get("reason", "") for line in logged)

    async def is_back() -> bool:
        with suppress(TemporarilyUnavailable):
            return bool(await scene.exchange(agent, subject, api, "read", services=services))
        return False

    await until(is_back)
    await services.epochs.close()


def test_a_part_that_is_away_is_told_in_oauths_words() -> None:
    """A database that does not answer is a 503 at the token endpoint, a bug a 500 without a word about it."""
    away = as_oauth_error(Unavailable("the database does not answer"), "r1")
    bug = as_oauth_error(KeyError("secret detail"), "r1")

    assert (away.code, away.status) == ("temporarily_unavailable", 503)
    assert (bug.code, bug.status) == ("server_error", 500)
    assert "secret detail" not in bug.detail
    assert "r1" in bug.detail

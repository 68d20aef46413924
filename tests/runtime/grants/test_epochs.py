"""Epochs: a process follows revocations by readings of the database, beside what the state says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.factories import App, Person
from tests.support.scene import Scene
from tests.support.state_doubles import Counting, with_state
from tests.support.waiting import let_elapse, until

from runtime.domain.errors import InvalidGrant, Unavailable
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.container import Services
from runtime.storage.sql import zone_data
from runtime.storage.sql.tables import METADATA, epoch_changes
from runtime.storage.state.memory import InProcessState


@pytest.fixture
async def bob(scene: Scene) -> Person:
    return await scene.company.person(scene.zone, f"bob{monotonic()}@acme.test")


@pytest.fixture
async def process(scene: Scene) -> AsyncIterator[Services]:
    """A process of its own, whose state nobody else writes to: as good as one that keeps what is old."""
    made = with_state(scene.services, InProcessState())
    yield made
    await made.epochs.close()


async def test_what_others_end_counts_within_a_second(
    scene: Scene, agent: App, api: Resource, bob: Person, process: Services
) -> None:
    """The state goes on saying that all stands as it was."""
    subject = await scene.company.token(scene.zone, agent, bob)
    assert all([await scene.exchange(agent, subject, api, "read", services=process) for _ in range(2)])
    names = [epochs.session_key(bob.session_id), epochs.zone_key(scene.zone.id)]
    before = await process.state.fetch(names)

    await session_revocation.end(scene.services, scene.zone, session_id=bob.session_id)
    await let_elapse(epochs.RECENT_SECONDS)

    assert await process.state.fetch(names) == before
    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=process)


async def test_commits_of_others_are_read_at_once_where_the_database_tells_of_them(
    scene: Scene, agent: App, api: Resource, bob: Person, process: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite nobody waits for the next reading: the file says that there is something to read."""
    if process.database.version() is None:
        pytest.skip("PostgreSQL does not tell: its notes are read at intervals, whoever writes them")
    monkeypatch.setattr(epochs, "READ_EVERY_SECONDS", 3600.0)
    monkeypatch.setattr(epochs, "RECENT_SECONDS", 3600.0)
    subject = await scene.company.token(scene.zone, agent, bob)
    assert await scene.exchange(agent, subject, api, "read", services=process)
    read_at = process.epochs.read_at

    async with scene.services.epochs.transaction() as (conn, bumped):  # as a command does, elsewhere
        bumped.update(await epochs.bump_user(conn, scene.zone.id, bob.user.id))

    async def is_read() -> bool:
        return process.epochs.read_at > read_at

    await until(is_read)

    (epoch,) = bumped.values()
    names = (epochs.user_key(bob.user.id),)
    await process.state.raise_all({names[0]: 1}, ttl_seconds=60)
    assert await process.epochs.latest(names) == ([epoch], None)


async def test_who_asks_after_a_silence_waits_for_what_is_new(
    scene: Scene, agent: App, api: Resource, bob: Person, process: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that nobody asks reads nothing; the first who asks again waits for it to catch up."""
    monkeypatch.setattr(epochs, "LINGER_SECONDS", 0.0)
    subject = await scene.company.token(scene.zone, agent, bob)
    assert all([await scene.exchange(agent, subject, api, "read", services=process) for _ in range(2)])
    await let_elapse(2 * epochs.READ_EVERY_SECONDS)
    read_at = process.epochs._read_at
    await session_revocation.end(scene.services, scene.zone, session_id=bob.session_id)
    await let_elapse(epochs.RECENT_SECONDS)
    assert process.epochs._read_at == read_at

    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=process)


@pytest.mark.parametrize("why", ["silence", "set back", "restored", "too much"])
async def test_what_cannot_be_followed_any_more_is_read_again(
    scene: Scene,
    agent: App,
    api: Resource,
    bob: Person,
    process: Services,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """The notes of what has moved are gone: whatever is held from before may be out of date."""
    subject = await scene.company.token(scene.zone, agent, bob)
    assert all([await scene.exchange(agent, subject, api, "read", services=process) for _ in range(2)])
    held, generation = process.zones.cached(scene.zone.id), process.epochs.generation
    assert held is not None
    await let_elapse(epochs.RECENT_SECONDS)
    assert process.zones.cached(scene.zone.id) is held, "readings alone change nothing"
    await process.epochs.close()

    sessions = METADATA.tables["sessions"]
    async with scene.services.database.transaction() as conn:  # as it is after the note has gone, too
        of_bob = sessions.c.id == bob.session_id
        await conn.execute(
            update(sessions).where(of_bob).values(status="revoked", epoch=sessions.c.epoch + 1)
        )
    if why == "silence":
        process.epochs._seen_at -= epochs.KEPT_SECONDS
    elif why == "restored":
        assert process.epochs._known is not None
        async with scene.services.database.transaction() as conn:
            await conn.execute(delete(epoch_changes))
    elif why == "set back":
        seen = process.epochs._seen or ""
        process.epochs._seen = "99999999:99999999:" if ":" in seen else "99999999"
    else:
        monkeypatch.setattr(epochs, "MOST_MOVED", -1)
    process.epochs._read_at -= epochs.RECENT_SECONDS

    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=process)
    assert process.epochs.generation > generation


async def test_a_database_that_lost_what_this_process_wrote(
    scene: Scene, agent: App, api: Resource, bob: Person, process: Services
) -> None:
    """It was set back before anybody had read the note: whoever wrote it knows of it all the same."""
    subject = await scene.company.token(scene.zone, agent, bob)
    assert await scene.exchange(agent, subject, api, "read", services=process)
    await process.epochs.close()
    await session_revocation.end(process, scene.zone, session_id=bob.session_id)
    generation = process.epochs.generation

    newest = select(func.max(epoch_changes.c.position)).scalar_subquery()
    async with scene.services.database.transaction() as conn:
        await conn.execute(delete(epoch_changes).where(epoch_changes.c.position == newest))
    process.epochs._read_at -= epochs.RECENT_SECONDS
    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=process)
    assert process.epochs.generation > generation


async def test_a_view_is_made_anew_in_time(
    scene: Scene, agent: App, api: Resource, process: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody holds anything for longer than it is remembered what has moved."""
    await process.zones.get(scene.zone.id)
    held = process.zones.cached(scene.zone.id)
    assert held is not None
    monkeypatch.setattr(epochs, "HELD_SECONDS", 0.0)
    assert process.zones.cached(scene.zone.id) is None
    assert not held.is_as_new_as(held.epoch, held.denied.count)


async def test_who_cannot_read_vouches_for_nothing(
    scene: Scene, agent: App, api: Resource, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hangs is as good as one that is away: it is told in time, and not for each request."""
    state = Counting(scene.services.state)
    process = with_state(scene.services, state)
    subject = await scene.company.token(scene.zone, agent, bob)
    assert all([await scene.exchange(agent, subject, api, "read", services=process) for _ in range(2)])

    waiting: list[None] = []

    @asynccontextmanager
    async def hanging() -> AsyncIterator[Any]:
        waiting.append(None)
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(epochs, "READ_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(scene.services.database, "watching", hanging)
    await let_elapse(epochs.RECENT_SECONDS + epochs.READ_EVERY_SECONDS)
    waiting.clear()
    answers = await asyncio.gather(
        *(scene.exchange(agent, subject, api, "read", services=process) for _ in range(20)),
        return_exceptions=True,
    )
    assert {type(each) for each in answers} == {Unavailable}
    assert len(waiting) <= 2, "one at a time asks the database for all of them"
    monkeypatch.undo()

    assert await scene.exchange(agent, subject, api, "read", services=process)
    await process.epochs.close()


def test_notes_outlive_whoever_may_need_them() -> None:
    """A process that misses half the time they are kept begins anew, before it could miss one."""
    assert epochs.HELD_SECONDS + 300 <= epochs.HELD_SECONDS * 1.5  # a request takes five minutes at most
    assert epochs.READ_EVERY_SECONDS < epochs.RECENT_SECONDS / 2
    assert epochs.LINGER_SECONDS < epochs.KEPT_SECONDS / 2
    assert "position" in epoch_changes.c


async def test_a_zone_that_others_write_to_is_looked_for_once_for_each_write(
    own_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not again and again for as long as nobody asks for it; and one that is deleted is not kept."""
    company, zone = own_scene.company, own_scene.zone
    process = with_state(own_scene.services, InProcessState())
    await process.zones.get(zone.id)
    looked, look = list[str](), zone_data.zone_epochs

    async def noted(conn: AsyncConnection, zone_id: str) -> tuple[int, int] | None:
        looked.append(zone_id)
        return await look(conn, zone_id)

    async def observe() -> None:
        await let_elapse(epochs.RECENT_SECONDS)
        await process.epochs.observe()
        monkeypatch.setattr(zone_data, "zone_epochs", noted)
        await process.zones.drop_deleted()
        await process.zones.drop_deleted()
        monkeypatch.setattr(zone_data, "zone_epochs", look)

    for times in (1, 2):
        await company.resource(zone, f"https://{times}.test")
        await observe()
        assert looked == [zone.id] * times
    held = process.zones._zones[zone.id]
    async with own_scene.services.epochs.transaction() as (conn, bumped):  # as another node deletes it
        zones = METADATA.tables["zones"]
        await conn.execute(delete(zones).where(zones.c.id == zone.id))
        bumped[epochs.zone_key(zone.id)] = held.confirmed_epoch + 1
    await observe()
    assert looked == [zone.id] * 3
    assert zone.id not in process.zones._zones
    await process.epochs.close()

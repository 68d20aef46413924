"""The revocation list in memory: the same as one that is read anew, and only what is new in it is work."""

import asyncio
import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import jwt
import orjson
import pytest
from tests.support.scene import Scene

from runtime.domain.identifiers import new_id
from runtime.services import revocation_list
from runtime.services.revocation_list import Revocations
from runtime.services.zones import CachedZone
from runtime.storage.sql import revocations as storage
from runtime.storage.sql.revocations import Revocation

_HOUR = timedelta(hours=1)


class World:
    """A zone whose tokens are revoked, and a process that serves its list, at a time that passes as told."""

    def __init__(self, scene: Scene, zone: CachedZone) -> None:
        self.scene, self.zone = scene, zone
        self.now = scene.services.clock().replace(second=30, microsecond=0)
        self.lists = self.anew()

    def anew(self) -> Revocations:
        """A process that has read nothing yet."""
        return Revocations(self.scene.services.database, lambda: self.now)

    async def revoke(
        self, count: int = 1, *, late: timedelta = timedelta(0), lifetime: timedelta = _HOUR
    ) -> list[str]:
        """Revoke so many tokens at once, at a node that stamps them so much earlier than it commits."""
        ids = [new_id() for _ in range(count)]
        at = self.now - late
        entries = [Revocation(at, at + lifetime, {"jti": each}) for each in ids]
        async with self.scene.services.database.transaction() as conn:
            await storage.add(conn, self.zone.id, entries)
        return ids

    def pass_by(self, seconds: float = 1) -> None:
        """Let the time pass after which a process looks again."""
        self.now += timedelta(seconds=seconds)

    async def listed(self, cursor: str | None = None) -> list[str]:
        """The tokens in the list, in its order."""
        found = await self.lists.since(self.zone, cursor)
        return [each["jti"] for each in orjson.loads(found.revocations)]

    async def signed(self, cursor: str | None = None) -> bytes:
        return await self.lists.signed_since(self.zone, cursor)

    def claims(self, jws: bytes) -> dict[str, Any]:
        """What it says; it is signed by one of the zone's keys."""
        keys = jwt.PyJWKSet.from_dict({"keys": list(self.zone.jwks)})
        key = keys[jwt.get_unverified_header(jws)["kid"]]
        options: Any = {"verify_exp": False, "verify_iat": False}
        return jwt.decode(jws, key, ["ES256"], issuer=self.zone.issuer, options=options)


@pytest.fixture
async def world(own_scene: Scene) -> World:
    return World(own_scene, await own_scene.services.zones.get(own_scene.zone.id))


class Work:
    """How much is read, written and signed: the number of rows or entries each time."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.written: list[int] = []
        self.signed: list[int] = []

    def forget(self) -> None:
        """Count from here on."""
        for each in (self.read, self.written, self.signed):
            each.clear()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    counted = Work()
    since, joined, sign = storage.since, revocation_list._joined, revocation_list._sign

    async def read(*args: Any, **more: Any) -> list[tuple[str, Revocation]]:
        found = await since(*args, **more)
        counted.read.append(len(found))
        return found

    def write(entries: list[Any]) -> bytes:
        counted.written += [len(entries)] if entries else []
        return joined(entries)

    def signing(*args: Any) -> bytes:
        counted.signed.append(1)
        return sign(*args)

    monkeypatch.setattr(storage, "since", read)
    monkeypatch.setattr(revocation_list, "_joined", write)
    monkeypatch.setattr(revocation_list, "_sign", signing)
    return counted


async def test_nothing_new_is_no_work(world: World, work: Work) -> None:
    """However often a process looks, and whoever asks: it answers with the bytes that there are."""
    await world.revoke(5)
    first, jws = await world.lists.since(world.zone, None), await world.signed()
    work.forget()
    world.pass_by()
    again = await world.lists.since(world.zone, None)
    assert again.revocations is first.revocations
    assert again.tag == first.tag
    assert await world.signed() is jws
    assert (work.read, work.written, work.signed) == ([], [], [])


async def test_an_answer_is_made_once_for_all_who_ask(world: World, work: Work) -> None:
    """Until the cursor in it is another."""
    await world.revoke(5)
    answers = [await world.lists.since(world.zone, None) for _ in range(20)]
    assert len({id(each.body) for each in answers}) == 1
    assert work.written == [5]
    world.pass_by()
    later = orjson.loads((await world.lists.since(world.zone, None)).body)
    assert later == orjson.loads(answers[0].body) | {"next": later["next"]}
    assert int(later["next"]) == int(answers[0].next) + 1


async def test_one_more_is_the_work_for_one(world: World, work: Work) -> None:
    """However long the list is, as JSON and signed."""
    many = await world.revoke(40)
    world.pass_by(20)
    assert sorted(await world.listed()) == sorted(many)
    await world.signed()
    work.forget()
    (last,) = await world.revoke()
    world.pass_by()
    assert (await world.listed())[-1] == last
    assert {"jti": last} in world.claims(await world.signed())["revocations"]
    assert (work.read, work.written, work.signed) == ([1], [1, 1], [1])


async def test_from_a_cursor_only_what_is_new_is_written(world: World, work: Work) -> None:
    """The rest of a long list is not even looked at, also when it has changed."""
    await world.revoke(40)
    world.pass_by(100)
    first = await world.lists.since(world.zone, None)
    before = world.claims(await world.signed(first.next))
    work.forget()
    (last,) = await world.revoke()
    world.pass_by()
    assert await world.listed(first.next) == [last]
    assert world.claims(await world.signed(before["next"]))["revocations"] == [{"jti": last}]
    assert (work.read, work.written, work.signed) == ([1], [1, 1], [1])


async def test_many_that_come_at_once_are_read_once(
    world: World, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process looks for late ones for some seconds: it counts those that it knows."""
    monkeypatch.setattr(revocation_list, "_PAGE", 20)
    await world.listed()
    work.forget()
    many = await world.revoke(50)
    world.pass_by()
    assert sorted(await world.listed()) == sorted(many)
    assert work.read == [20, 20, 10]
    for _ in range(10):
        await world.revoke()
        world.pass_by()
        await world.listed()
    assert work.read[3:] == [1] * 10


async def ask_and_go(world: World, monkeypatch: pytest.MonkeyPatch, *, pages: int) -> None:
    """Ask for the list, and be gone when that many pages were read, before the last of them is taken."""
    read, asked = storage.since, list[int]()

    async def interrupted(*args: Any, **more: Any) -> list[tuple[str, Revocation]]:
        found = await read(*args, **more)
        asked.append(len(found))
        if len(asked) == pages:
            asking.cancel()
            await asyncio.sleep(0)
        return found

    with monkeypatch.context() as context:
        context.setattr(storage, "since", interrupted)
        asking = asyncio.ensure_future(world.listed())
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_whoever_goes_leaves_the_rest_of_the_reading(
    world: World, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers who ask and go at once do not have a long list read from its beginning again and again."""
    monkeypatch.setattr(revocation_list, "_PAGE", 20)
    many = await world.revoke(90)
    await ask_and_go(world, monkeypatch, pages=3)
    await ask_and_go(world, monkeypatch, pages=2)
    work.forget()
    assert sorted(await world.listed()) == sorted(many)
    assert work.read == [20, 10]


async def test_a_reading_that_was_left_does_not_hide_what_came_since(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes on with it looks once more, if it is old."""
    monkeypatch.setattr(revocation_list, "_PAGE", 20)
    many = await world.revoke(45)
    await ask_and_go(world, monkeypatch, pages=3)
    (late,) = await world.revoke(late=timedelta(seconds=5))
    world.pass_by(300)
    (last,) = await world.revoke()
    assert sorted(await world.listed()) == sorted([*many, late, last])


@pytest.mark.parametrize("late", [timedelta(seconds=0.5), timedelta(seconds=14)])
async def test_one_that_comes_late_stands_where_it_belongs(world: World, work: Work, late: timedelta) -> None:
    """Signed or not, `at` decides; only what is as young as a late one may be is written again."""
    (first,) = await world.revoke()
    world.pass_by(20)
    (second,) = await world.revoke()
    assert await world.listed() == [first, second]
    await world.signed()
    (between,) = await world.revoke(late=late)
    work.forget()
    world.pass_by()
    assert await world.listed() == [first, between, second]
    told = world.claims(await world.signed())["revocations"]
    assert told == [{"jti": each} for each in (first, between, second)]
    assert sum(work.written) == 2 * 2


async def test_a_late_one_is_in_no_list_that_begins_after_it(world: World) -> None:
    """A signed list of this minute has those of this minute, whatever comes of the one before."""
    world.pass_by(35)
    await world.revoke(late=timedelta(seconds=8))
    (own,) = await world.revoke()
    cursor = str(int(world.now.timestamp()))
    assert world.claims(await world.signed(cursor))["revocations"] == [{"jti": own}]
    await world.revoke(late=timedelta(seconds=7))
    world.pass_by()
    assert world.claims(await world.signed(cursor))["revocations"] == [{"jti": own}]


async def test_what_a_clock_ahead_has_settled_is_written_anew(world: World) -> None:
    """Where the clock is set back, entries come before others that seemed to be of long ago."""
    (ahead,) = await world.revoke(late=-timedelta(minutes=20))
    world.pass_by(30 * 60)
    assert await world.listed() == [ahead]
    await world.signed()
    world.pass_by(-30 * 60)
    await world.listed()
    (behind,) = await world.revoke()
    world.pass_by()
    assert await world.listed() == [behind, ahead]
    assert world.claims(await world.signed())["revocations"] == [{"jti": behind}, {"jti": ahead}]


async def test_what_has_expired_goes_at_the_next_full_minute(world: World) -> None:
    """In every process at the same, so that their tags agree; what has not expired stays."""
    (brief,) = await world.revoke(lifetime=timedelta(seconds=10))
    (lasting,) = await world.revoke()
    other = world.anew()
    assert set(await world.listed()) == {brief, lasting}
    world.pass_by(20)
    told, others = await world.lists.since(world.zone, None), await other.since(world.zone, None)
    assert told.tag == others.tag
    assert {"jti": brief} in orjson.loads(told.revocations)
    world.pass_by(10)
    assert await world.listed() == [lasting]
    assert world.claims(await world.signed())["revocations"] == [{"jti": lasting}]


async def test_a_signed_list_is_signed_anew_before_it_is_old(world: World, work: Work) -> None:
    """Readers refuse one whose cursor is seconds before that of another node."""
    await world.revoke()
    first = await world.signed()
    world.pass_by(revocation_list.SIGNED_ANEW.total_seconds())
    again = world.claims(await world.signed())
    before = world.claims(first)
    assert (again["iat"] - before["iat"], int(again["next"]) - int(before["next"])) == (2, 2)
    assert again["revocations"] == before["revocations"]
    assert len(work.signed) == 2


async def test_lists_that_nobody_asks_for_are_not_kept(world: World) -> None:
    """Those of minutes that are over: of each there is one in memory."""
    for _ in range(30):
        await world.revoke()
        cursor = (await world.lists.since(world.zone, None)).next
        await world.signed(cursor)
        world.pass_by(60)
    assert len(world.lists._logs[world.zone.id].signed) <= 2


def test_an_entry_takes_as_much_memory_as_is_counted() -> None:
    """A process may have hundreds of thousands."""
    at = datetime(2026, 11, 28, tzinfo=UTC)
    entries = [
        (new_id(), Revocation(at + timedelta(milliseconds=n), at, {"jti": new_id()})) for n in range(2_000)
    ]
    log = revocation_list._Log()
    tracemalloc.start()
    try:
        log.add(entries)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert log.size / 3 < taken < log.size * 1.5


class Elsewhere(World):
    """Another zone, whose lists the same process serves at the same time."""

    def __init__(self, world: World, zone: CachedZone) -> None:
        self.scene, self.zone, self.lists, self._world = world.scene, zone, world.lists, world

    @property
    def now(self) -> datetime:  # type: ignore[override]
        return self._world.now

    @now.setter
    def now(self, value: datetime) -> None:
        self._world.now = value


@pytest.fixture
async def elsewhere(world: World) -> World:
    zone = await world.scene.company.zone("Elsewhere")
    return Elsewhere(world, await world.scene.services.zones.get(zone.id))


def limited(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a process have room for so many bytes."""
    monkeypatch.setattr(revocation_list, "MOST_BYTES", number)
    monkeypatch.setattr(revocation_list, "_NOTED_BYTES", 0)


def in_memory(world: World) -> int:
    return sum(each.size for each in world.lists._logs.values())


async def test_all_lists_have_a_limit_of_memory(
    world: World, elsewhere: World, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written of another zone goes first: it is written again, without the database."""
    limited(monkeypatch, 1_000_000)
    ids, others = await world.revoke(100), await elsewhere.revoke(100)
    for each, wanted in ((world, ids), (elsewhere, others)):
        each.pass_by(20)
        assert sorted(await each.listed()) == sorted(wanted)
        await each.signed()
    work.forget()
    whole = in_memory(world)
    assert sorted(await world.listed()) == sorted(ids)
    assert (in_memory(world), work.written) == (whole, [])

    limited(monkeypatch, whole - 1)
    await elsewhere.revoke()
    elsewhere.pass_by()
    assert len(await elsewhere.listed()) == 101
    assert in_memory(world) < whole
    work.forget()
    assert sorted(await world.listed()) == sorted(ids)
    assert (work.read, sum(work.written)) == ([], 100)


async def test_a_list_for_which_there_is_no_room_is_read_again(
    world: World, elsewhere: World, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the zone that is asked for stays."""
    ids = await world.revoke(300)
    assert sorted(await world.listed()) == sorted(ids)
    limited(monkeypatch, 1)
    await elsewhere.revoke(100)
    assert len(await elsewhere.listed()) == 100
    assert [*world.lists._logs] == [elsewhere.zone.id]
    work.forget()

    assert sorted(await world.listed()) == sorted(ids)
    assert work.read == [300]


async def test_a_long_list_costs_other_zones_little(
    world: World, elsewhere: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up its own signed copies, and what is written of others; not what they have read."""
    limited(monkeypatch, 1_000_000)
    await elsewhere.revoke(10)
    assert len(await elsewhere.listed()) == 10
    await world.revoke(300)
    world.pass_by(20)
    cursors = [str(int(world.now.timestamp()) - 60 * minutes) for minutes in range(6)]
    for each in cursors:
        await world.signed(each)
    log = world.lists._logs[world.zone.id]
    assert len(log.signed) == 6

    limited(monkeypatch, log.size - 1)
    await world.signed(cursors[0])
    assert 1 <= len(log.signed) < 6
    limited(monkeypatch, 1)
    await world.signed(cursors[0])
    assert len(log.signed) == 1
    assert len(world.lists._logs[elsewhere.zone.id].entries) == 10


async def test_what_is_read_for_somebody_who_has_gone_takes_room_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever hangs up each time could fill the memory."""
    limited(monkeypatch, 1_000_000)
    await world.revoke(100)
    with suppress(asyncio.CancelledError):
        async with world.lists._read(world.zone.id):
            raise asyncio.CancelledError
    log = world.lists._logs[world.zone.id]
    assert log.noted == log.size > 100 * revocation_list._ENTRY_BYTES - 1


async def test_signed_lists_of_one_zone_have_a_limit_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks from many instants gets the same as if there were room for all of them."""
    await world.revoke(100)
    for _ in range(8):
        world.pass_by(60)
        await world.revoke(10)
    world.pass_by(20)
    cursors = [str(int(world.now.timestamp()) - 60 * minutes) for minutes in range(8)]
    signed = [world.claims(await world.signed(each))["revocations"] for each in cursors]
    assert len(world.lists._logs[world.zone.id].signed) == 8
    assert [len(each) for each in signed] == [10 * (1 + minutes) for minutes in range(8)]

    limited(monkeypatch, 1)
    assert [world.claims(await world.signed(each))["revocations"] for each in cursors] == signed
    assert len(world.lists._logs[world.zone.id].signed) == 1


async def test_a_cursor_of_long_ago_gets_the_whole_list(world: World, work: Work) -> None:
    """Which is written already: nobody has many lists made by asking from many instants."""
    for _ in range(5):
        await world.revoke()
        world.pass_by(60)
    world.pass_by(600)
    whole = await world.lists.since(world.zone, None)
    work.forget()
    old = [str(int(whole.next) - seconds) for seconds in range(620, 900, 7)]
    assert {id(await world.lists.since(world.zone, each)) for each in old} == {id(whole)}
    assert work.written == []


@pytest.mark.parametrize("seed", range(8))
async def test_a_list_in_memory_is_that_of_a_process_that_has_just_begun(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has come, late or many at once, has expired or was deleted: byte by byte, from any cursor."""
    monkeypatch.setattr(revocation_list, "_PAGE", 3)
    monkeypatch.setattr(revocation_list, "_STEP", 2)
    monkeypatch.setattr(revocation_list, "SIGNED_ANEW", timedelta(0))
    chance, cursors = Random(seed), list[str | None]([None])
    for _ in range(25):
        for _ in range(chance.randrange(3)):
            late, lifetime = (
                timedelta(seconds=chance.uniform(0, 14)),
                timedelta(seconds=chance.randint(20, 400)),
            )
            await world.revoke(chance.choice([1, 1, 2, 7]), late=late, lifetime=lifetime)
        world.pass_by(chance.choice([1, 5, 17, 40, 130]))
        if chance.random() < 0.2:
            await world.lists.prune()
        cursor, fresh = chance.choice(cursors), world.anew()
        told, anew = [await each.since(world.zone, cursor) for each in (world.lists, fresh)]
        assert (told.tag, told.body) == (anew.tag, anew.body)
        signed, signed_anew = [
            world.claims(await each.signed_since(world.zone, cursor)) for each in (world.lists, fresh)
        ]
        assert signed == signed_anew
        if cursor is None:
            assert signed["revocations"] == orjson.loads(told.revocations)
        cursors = [*cursors[-6:], told.next, None]


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_have_every_entry_once(world: World, limit: int) -> None:
    """Also those of one instant, which a page may end within."""
    await world.revoke(8, late=timedelta(seconds=3))
    await world.revoke()
    await world.revoke(2, lifetime=timedelta(0))
    start: tuple[datetime, str] = (world.now - _HOUR, "")
    found, page = list[str](), list[tuple[str, Revocation]]()
    async with world.scene.services.database.reading() as conn:
        every = await storage.since(conn, world.zone.id, start[0], now=world.now)
        while not found or len(page) == limit:
            page = await storage.since(
                conn, world.zone.id, start[0], after_id=start[1], limit=limit, now=world.now
            )
            found += [id_ for id_, _ in page]
            start = (page[-1][1].at, page[-1][0]) if page else start
    assert len(found) == 9
    assert found == [id_ for id_, _ in every]


async def test_counts_are_those_of_the_entries(world: World) -> None:
    """By instant, without what is over, what another zone has, and what was made at the instant given."""
    elsewhere = await world.scene.company.zone()
    await world.revoke(3, late=timedelta(seconds=3))
    await world.revoke(2)
    await world.revoke(4, late=timedelta(seconds=9))
    await world.revoke(5, lifetime=timedelta(0))
    async with world.scene.services.database.reading() as conn:
        counts = [
            await storage.counts_since(conn, each, world.now - timedelta(seconds=9), now=world.now)
            for each in (world.zone.id, elsewhere.id)
        ]
    assert counts == [{world.now - timedelta(seconds=3): 3, world.now: 2}, {}]

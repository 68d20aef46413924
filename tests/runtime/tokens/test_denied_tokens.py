"""Tokens that were revoked by their ids: each process has all of them, and reads few when few are new."""

from datetime import datetime, timedelta
from random import Random

import pytest
from tests.support.scene import Scene

from runtime.domain.identifiers import new_id
from runtime.services.zones.denied_tokens import DeniedTokens
from runtime.storage.sql import revocations
from runtime.storage.sql.zone_data import zone_epochs

_HOUR = timedelta(hours=1)


class World:
    """A zone whose tokens are revoked, and what one process knows of them, at a time that passes as told."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.now = scene, scene.services.clock()
        self.latest = self.now
        self.denied = DeniedTokens()
        self.alive_until: dict[str, datetime] = {}

    async def revoke(
        self, token_id: str | None = None, *, late: timedelta = timedelta(0), lifetime: timedelta = _HOUR
    ) -> str:
        """Revoke a token at a node that stamps it so much earlier than it commits."""
        token_id, zone_id = token_id or new_id(), self.scene.zone.id
        expires_at = self.now + lifetime
        async with self.scene.services.database.transaction() as conn:
            await revocations.add_token(conn, zone_id, token_id, now=self.now - late, expires_at=expires_at)
        self.alive_until.setdefault(token_id, expires_at)
        return token_id

    async def forget(self) -> None:
        """Let the periodic job have its turn."""
        async with self.scene.services.database.transaction() as conn:
            await revocations.prune(conn, now=self.now)

    async def read(self) -> None:
        """Read what is new, as a process does that was told of a larger count."""
        zone_id = self.scene.zone.id
        async with self.scene.services.database.reading() as conn:
            found = await zone_epochs(conn, zone_id)
            assert found is not None
            await self.denied.read(conn, zone_id, found[1], now=self.now)
        assert self.denied.count == found[1]

    def missing(self) -> list[str]:
        """Those that were revoked, have never expired, and that the process does not know of."""
        self.latest = max(self.latest, self.now)
        alive = [each for each, until in self.alive_until.items() if until > self.latest]
        return [each for each in alive if each not in self.denied]


@pytest.fixture
def world(own_scene: Scene) -> World:
    return World(own_scene)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each reading has brought."""
    read, counts = revocations.denied, list[int]()

    async def counted(*args: object, **more: object) -> frozenset[str]:
        found = await read(*args, **more)  # type: ignore[arg-type]
        counts.append(len(found))
        return found

    monkeypatch.setattr(revocations, "denied", counted)
    return counts


async def test_one_more_revoked_token_costs_a_process_few_rows(world: World, rows: list[int]) -> None:
    """However many the zone has."""
    for _ in range(30):
        await world.revoke()
    world.now += timedelta(minutes=1)
    await world.read()
    assert rows == [30]

    await world.revoke()
    world.now += timedelta(minutes=1)
    await world.read()
    assert rows == [30, 1]
    await world.read()
    assert rows == [30, 1], "nothing is new"
    assert world.missing() == []


@pytest.mark.parametrize("late", [timedelta(seconds=8), timedelta(seconds=50)])
async def test_one_that_was_stamped_long_before_it_was_committed_is_read(
    world: World, late: timedelta
) -> None:
    """A node that hung, or whose clock is behind."""
    await world.revoke()
    await world.read()
    token_id = await world.revoke(late=late)
    assert token_id not in world.denied
    await world.read()
    assert token_id in world.denied


async def test_a_token_that_is_revoked_again_is_not_counted_again(world: World, rows: list[int]) -> None:
    """Else every such request would have every process read all of them."""
    token_id = await world.revoke()
    await world.read()
    await world.revoke(token_id)
    await world.read()
    assert (world.denied.count, rows) == (1, [1])


async def test_expired_ones_are_not_kept_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process keeps no more than twice as many as are alive, and some."""
    monkeypatch.setattr("runtime.services.zones.denied_tokens._FEW", 10)
    for _ in range(40):
        await world.revoke(lifetime=timedelta(seconds=5))
        world.now += timedelta(seconds=2)
        await world.read()
        assert world.missing() == []
        assert len(world.denied) <= 2 * 3 + 10


@pytest.mark.parametrize("seed", range(8))
async def test_no_order_of_events_leaves_out_a_revoked_token(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late, expired, forgotten, revoked twice, at a clock that is set back."""
    monkeypatch.setattr("runtime.services.zones.denied_tokens._FEW", 5)
    chance = Random(seed)
    for _ in range(60):
        match chance.choice(["revoke", "revoke", "again", "forget", "pass", "back", "read"]):
            case "again" if world.alive_until:
                await world.revoke(chance.choice(list(world.alive_until)))
            case "forget":
                await world.forget()
            case "pass":
                world.now += timedelta(seconds=chance.choice([0, 1, 9, 11, 120]))
                world.latest = max(world.latest, world.now)
            case "back" if chance.random() < 0.3:
                world.now -= timedelta(seconds=chance.choice([3, 15, 300]))
            case "read":
                await world.read()
                assert world.missing() == []
            case _:
                late = timedelta(seconds=chance.choice([0, 0, 4, 12, 40]))
                await world.revoke(late=late, lifetime=timedelta(seconds=chance.choice([1, 20, 600])))
    await world.read()
    assert world.missing() == []


async def test_a_zone_that_is_read_for_one_request_reads_few_rows(world: World, rows: list[int]) -> None:
    """And what everybody goes by is left as it is: its reader saw an instant of its own."""
    zones, zone_id = world.scene.services.zones, world.scene.zone.id
    for _ in range(20):
        await world.revoke(late=timedelta(minutes=1))
    held = await zones.refresh(zone_id)
    assert (rows, held.denied.count) == ([20], 20)

    assert (await zones.uncached(zone_id)).denied.count == 20
    token_id = await world.revoke()
    apart = await zones.uncached(zone_id)

    assert rows == [20, 1]
    assert (apart.denied.count, token_id in apart.denied, len(apart.denied)) == (21, True, 21)
    assert (held.denied.count, token_id in held.denied, len(held.denied)) == (20, False, 20)

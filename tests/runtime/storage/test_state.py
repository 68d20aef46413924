"""Short-lived state: the same guarantees in this process and in Redis."""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import nullcontext, suppress

import pytest
import redis.asyncio
from tests.support.database_timeouts import use_product_timeouts
from tests.support.proxy import proxied
from tests.support.redis import running_redis
from tests.support.waiting import let_elapse, until

from runtime.domain.errors import Unavailable
from runtime.storage.state import open_state
from runtime.storage.state.memory import InProcessState
from runtime.storage.state.redis import RedisState


async def refusal_of(asking: Awaitable[object]) -> Unavailable:
    """What is raised in place of an answer."""
    with pytest.raises(Unavailable) as refused:
        await asking
    return refused.value


async def answers(state: RedisState) -> bool:
    """Tell whether the state answers with what it had."""
    with suppress(Unavailable):
        return await state.get("a") == b"1"
    return False


class TestBoth:
    async def test_a_value_is_kept_and_replaced(self, state):
        """`put` and `get`, bytes as they are."""
        assert await state.get("a") is None
        await state.put("a", b"\x00\xff", ttl_seconds=60)
        await state.put("b", b"", ttl_seconds=60)
        await state.put("a", b"new", ttl_seconds=60)

        assert await state.get("a") == b"new"
        assert await state.get("b") == b""

    async def test_a_value_is_forgotten_in_time(self, state):
        """After its lifetime there is nothing, and the key is free."""
        await state.put("a", b"1", ttl_seconds=1)
        await state.add("b", b"1", ttl_seconds=1)
        await state.count("c", ttl_seconds=1)
        await let_elapse(1.1)

        assert await state.fetch(["a", "b", "c"]) == [None, None, None]
        assert await state.add("b", b"2", ttl_seconds=1)
        assert await state.count("c", ttl_seconds=1) == 1

    async def test_exactly_one_takes_a_value(self, state):
        """A code can be used once, however many try at the same time."""
        await state.put_once("code", b"x", ttl_seconds=60)

        taken = await asyncio.gather(*(state.take("code") for _ in range(20)))

        assert sorted(taken, key=bool) == [None] * 19 + [b"x"]
        assert await state.get("code") is None

    async def test_exactly_one_claims_a_value(self, state):
        """The others hear what that one left behind, and never that there was nothing."""
        await state.put_once("code", b"x", ttl_seconds=60)

        claims = (state.claim("code", mark="used", value=b"%d" % n, ttl_seconds=60) for n in range(20))
        heard = await asyncio.gather(*claims)

        (winner,) = (n for n, (kept, _) in enumerate(heard) if kept is not None)
        assert heard[winner] == (b"x", None)
        assert {each for n, each in enumerate(heard) if n != winner} == {(None, b"%d" % winner)}
        assert await state.fetch(["code", "used"]) == [None, b"%d" % winner]
        assert await state.claim("never", mark="there", value=b"1", ttl_seconds=60) == (None, None)
        assert await state.get("there") is None

    async def test_exactly_one_adds_a_mark(self, state):
        """A replay is told from the first use, however many try at the same time."""
        added = await asyncio.gather(*(state.add("jti", b"%d" % n, ttl_seconds=60) for n in range(20)))

        assert sum(added) == 1
        assert await state.get("jti") == b"%d" % added.index(True)

    async def test_exactly_one_uses_what_works_once(self, state):
        """However many try; and nobody what is older than the state, of which that cannot be told."""
        await state.begin()
        now = int(time.time())

        used = await asyncio.gather(*(state.use_once("jti", made_at=now, ttl_seconds=60) for _ in range(20)))
        assert sum(used) == 1
        assert await state.use_once("ahead", made_at=now + 60, ttl_seconds=60)
        with pytest.raises(Unavailable):
            await state.use_once("old", made_at=now - 600, ttl_seconds=60)
        assert not await state.use_once("ahead", made_at=now - 600, ttl_seconds=60)  # this much is known

    async def test_a_taken_mark_can_be_added_again(self, state):
        """`take` and `delete` free a key for `add`."""
        await state.add("a", b"1", ttl_seconds=60)
        await state.take("a")
        assert await state.add("a", b"2", ttl_seconds=60)
        await state.delete("a", "never there")
        assert await state.add("a", b"3", ttl_seconds=60)
        await state.delete()

    async def test_many_values_in_one_trip(self, state):
        """`fetch` answers in the order asked, None for what is not there."""
        await state.put("a", b"1", ttl_seconds=60)
        await state.put("b", b"2", ttl_seconds=60)

        assert await state.fetch(["b", "x", "a", "b"]) == [b"2", None, b"1", b"2"]
        assert await state.fetch([]) == []

    async def test_an_epoch_is_only_raised(self, state):
        """A late, smaller number changes nothing, and large numbers stay exact."""
        await state.raise_all({"epoch": 9, "other": 1}, ttl_seconds=60)
        await state.raise_all({"epoch": 10}, ttl_seconds=60)
        await state.raise_all({"epoch": 9, "other": 2, "large": 2**53 + 1}, ttl_seconds=60)
        await state.raise_all({"large": 2**53}, ttl_seconds=60)
        await state.raise_all({}, ttl_seconds=60)

        assert await state.fetch(["epoch", "other", "large"]) == [b"10", b"2", b"%d" % (2**53 + 1)]

    async def test_concurrent_raises_leave_the_greatest(self, state):
        """Whatever the order of arrival."""
        numbers = [(n * 7) % 50 for n in range(50)]

        await asyncio.gather(*(state.raise_all({"epoch": number}, ttl_seconds=60) for number in numbers))

        assert await state.get("epoch") == b"49"

    async def test_a_counter_counts_every_use(self, state):
        """Of concurrent users each hears its own number."""
        counted = await asyncio.gather(*(state.count("bucket", ttl_seconds=60) for _ in range(20)))

        assert sorted(counted) == list(range(1, 21))

    async def test_a_counter_lives_from_its_first_use(self, state):
        """Later uses do not lengthen its life, or a busy client would be limited forever."""
        await state.count("bucket", ttl_seconds=1)
        await let_elapse(0.6)
        await state.count("bucket", ttl_seconds=1)
        await let_elapse(0.6)

        assert await state.count("bucket", ttl_seconds=1) == 1

    async def test_a_ping_leaves_everything_as_it_is(self, state):
        """Readiness asks for it again and again."""
        await state.put("a", b"mine", ttl_seconds=60)
        for _ in range(2):
            await state.ping()

        assert await state.get("a") == b"mine"


class TestInProcess:
    async def test_the_oldest_cached_value_makes_room(self):
        """A cache that is full forgets what was kept first; what is renewed is young again."""
        state = InProcessState(capacity=2)
        await state.put("kind:zone:a", b"1", ttl_seconds=60)
        await state.put("kind:zone:b", b"2", ttl_seconds=60)
        await state.put("kind:zone:a", b"3", ttl_seconds=60)
        await state.put("kind:zone:c", b"4", ttl_seconds=60)

        names = [f"kind:zone:{each}" for each in "abc"]
        assert await state.fetch(names) == [b"3", None, b"4"]

    async def test_a_mark_is_never_forgotten_early(self):
        """When marks are full the newcomer is refused: better no sign-in than a replay that passes."""
        state = InProcessState(capacity=2)
        await state.add("kind:zone:a", b"1", ttl_seconds=60)
        await state.count("kind:zone:b", ttl_seconds=60)
        for n in range(5):
            await state.put(f"kind:zone:cached {n}", b"x", ttl_seconds=60)

        with pytest.raises(Unavailable):
            await state.add("kind:zone:c", b"1", ttl_seconds=60)
        assert not await state.add("kind:zone:a", b"1", ttl_seconds=60)
        assert await state.count("kind:zone:b", ttl_seconds=60) == 2

    async def test_a_flood_displaces_nothing_of_others(self):
        """Neither of another zone, nor of another kind: each has so many, and the largest makes room."""
        state = InProcessState(capacity=50, bounds={"form": 20, "code": 40})
        await state.put("code:one:mine", b"1", ttl_seconds=60)
        await state.put("form:two:mine", b"1", ttl_seconds=60)
        await state.put("form:one:first", b"1", ttl_seconds=60)
        for n in range(30):
            await state.put(f"form:one:{n}", b"x", ttl_seconds=60)

        assert await state.fetch(["code:one:mine", "form:two:mine"]) == [b"1", b"1"]
        assert await state.fetch(["form:one:first", "form:one:9", "form:one:10"]) == [None, None, b"x"]
        assert len(state) == 22
        for n in range(100):
            await state.put(f"code:two:{n}", b"x", ttl_seconds=60)
        assert len(state) == 50
        assert await state.fetch(["code:one:mine", "form:two:mine"]) == [b"1", b"1"]

    async def test_a_flood_of_marks_refuses_nobody_else(self):
        """Where a zone has too many of a kind its next is refused; what others use once is still noted."""
        state = InProcessState(capacity=50, bounds={"proof": 20, "form": 20})
        now = time.time() + 1
        for zone in ("one", "two"):
            assert not [
                n
                for n in range(20)
                if not await state.use_once(f"proof:{zone}:{n}", made_at=now, ttl_seconds=60)
            ]
            with pytest.raises(Unavailable):
                await state.use_once(f"proof:{zone}:more", made_at=now, ttl_seconds=60)
        assert not [n for n in range(10) if not await state.add(f"form:one:{n}", b"1", ttl_seconds=60)]

        assert len(state) == 50
        assert await state.use_once("proof:three:1", made_at=now, ttl_seconds=60)
        assert not await state.use_once("proof:three:1", made_at=now, ttl_seconds=60)
        assert await state.count("form:three:1", ttl_seconds=60) == 1

    async def test_what_has_no_bound_is_not_kept(self):
        """A kind that nobody has given one is a mistake in the code, found by whatever test uses it."""
        state = InProcessState(bounds={"form": 20})
        assert await state.add("form:one:1", b"1", ttl_seconds=60)
        for kept in (state.add, state.put):
            with pytest.raises(KeyError):
                await kept("new:one:1", b"1", ttl_seconds=60)

    async def test_expired_marks_make_room(self):
        """Full of what has expired is not full."""
        now = 0.0
        state = InProcessState(capacity=2, clock=lambda: now)
        await state.add("kind:zone:a", b"1", ttl_seconds=5)
        await state.add("kind:zone:b", b"1", ttl_seconds=50)
        now = 10.0

        assert await state.add("kind:zone:c", b"1", ttl_seconds=60)
        assert not await state.add("kind:zone:b", b"1", ttl_seconds=60)

    async def test_what_nobody_asks_for_again_goes_too(self):
        """Expired values do not stay in memory until somebody asks for them."""
        now = 0.0
        state = InProcessState(clock=lambda: now)
        for n in range(4_000):
            await state.put(f"old {n}", b"x", ttl_seconds=5)
        now = 10.0
        for n in range(200):
            await state.put(f"new {n}", b"x", ttl_seconds=5)

        assert len(state._cached) == 200

    async def test_it_is_used_when_no_redis_is_named(self):
        """The embedded default."""
        assert isinstance(open_state(None), InProcessState)


class TestRedis:
    async def test_a_redis_that_is_away_is_unavailable(self, tmp_path):
        """Every method says so, in the service's own words."""
        state = open_state(f"unix://{tmp_path}/nothing.sock")
        asked = (
            state.put("a", b"1", ttl_seconds=1),
            state.put_once("a", b"1", ttl_seconds=1),
            state.claim("a", mark="b", value=b"1", ttl_seconds=1),
            state.get("a"),
            state.take("a"),
            state.add("a", b"1", ttl_seconds=1),
            state.begin(),
            state.use_once("a", made_at=0, ttl_seconds=1),
            state.delete("a"),
            state.fetch(["a"]),
            state.raise_all({"a": 1}, ttl_seconds=1),
            state.count("a", ttl_seconds=1),
            state.ping(),
        )
        for one in asked:
            with pytest.raises(Unavailable):
                await one
        await state.close()

    async def test_more_callers_than_connections_wait_their_turn(self, redis_url):
        """A burst is served with the connections there are."""
        state = RedisState.open(redis_url, connections=2)

        assert sorted(await asyncio.gather(*(state.count("a", ttl_seconds=9) for _ in range(200))))[-1] == 200
        await state.close()

    async def test_a_hung_server_is_waited_for_so_long_altogether(self):
        """However often the client tries, and for how many answers it waits: here for one without an end."""
        with running_redis() as server:
            client = redis.asyncio.Redis.from_url(server.url, socket_timeout=None)
            state = RedisState(client, timeout_seconds=0.2)
            await state.put("a", b"1", ttl_seconds=60)
            assert await state.get("a") == b"1"

            with server.hung(), pytest.raises(Unavailable, match="cannot be reached"):
                await state.get("a")

            await until(lambda: answers(state))
            await state.close()

    @pytest.mark.threat("34f", "35g")
    @pytest.mark.parametrize("loses", ["everything", "what came after a snapshot"])
    async def test_what_was_used_before_a_loss_is_not_new(self, loses):
        """Flushed, or restored from disk: neither remembers the use, and both refuse to vouch for it."""
        with running_redis() as server:
            state, now = RedisState.open(server.url), int(time.time()) - 10
            with redis.Redis.from_url(server.url) as client:
                await state.begin()
                client.set("zonewright:used:began", now - 10)  # it has run for a while
                assert await state.use_once("before", made_at=now, ttl_seconds=60)
                server.save()
                assert await state.use_once("jti", made_at=now, ttl_seconds=60)
                assert not await state.use_once("jti", made_at=now, ttl_seconds=60)

                if loses == "everything":
                    client.flushall()
                else:
                    server.restart()
                    assert client.exists("zonewright:before")
                assert not client.exists("zonewright:jti")

            for _ in range(2):
                with pytest.raises(Unavailable):
                    await state.use_once("jti", made_at=now, ttl_seconds=60)
            ahead = int(time.time()) + 1
            assert await state.use_once("new", made_at=ahead, ttl_seconds=60)
            assert not await state.use_once("new", made_at=ahead, ttl_seconds=60)
            await state.close()

    @pytest.mark.threat("35g")
    @pytest.mark.parametrize("is_whole", [True, False], ids=["whole seconds", "fractions"])
    async def test_what_was_used_in_the_second_of_a_loss_is_not_new(self, is_whole):
        """Nor is what says to the second when it was made, and may have been used before the loss."""
        with running_redis() as server:
            state = RedisState.open(server.url)
            server.clear()
            made_at = float(int(time.time())) if is_whole else time.time()
            assert await state.use_once("link", made_at=made_at, ttl_seconds=60)
            server.restart()

            with pytest.raises(Unavailable):
                await state.use_once("link", made_at=made_at, ttl_seconds=60)

            afterwards = made_at + 60 if is_whole else time.time()
            assert await state.use_once("another", made_at=afterwards, ttl_seconds=60)
            await state.close()

    @pytest.mark.threat("35g")
    async def test_a_replica_that_takes_over_vouches_for_nothing(self):
        """It may lack what was used last, and so may the one that was there before it, when it comes back."""
        with running_redis() as one, running_redis() as two, proxied(one.url) as way:
            now = int(time.time()) - 10
            before, after = RedisState.open(one.url), RedisState.open(two.url)
            two.follow(way.port)
            await before.begin()
            with redis.Redis.from_url(one.url) as client:
                client.set("zonewright:used:began", now - 10)  # it has run for a while
                assert await before.use_once("known", made_at=now, ttl_seconds=60)
                for code in ("first", "second"):
                    await before.put_once(code, b"grant", ttl_seconds=60)
                client.set("marker", "1")
                assert client.wait(1, 5000) == 1  # the replica has all that came before
            two.lead()
            assert await before.use_once("jti", made_at=now, ttl_seconds=60)
            kept, _ = await before.claim("first", mark="used", value=b"by one", ttl_seconds=60)
            assert kept == b"grant"

            assert await after.claim("first", mark="used", value=b"by two", ttl_seconds=60) == (None, None)
            with pytest.raises(Unavailable, match="replay cache was lost"):
                await after.use_once("jti", made_at=now, ttl_seconds=60)
            assert not await after.use_once("known", made_at=now, ttl_seconds=60)

            with proxied(two.url) as back:
                one.follow(back.port)
                one.lead()
            assert await before.claim("second", mark="used", value=b"again", ttl_seconds=60) == (None, None)
            with pytest.raises(Unavailable, match="replay cache was lost"):
                await before.use_once("jti", made_at=now, ttl_seconds=60)
            await before.put_once("new", b"grant", ttl_seconds=60)
            assert await before.claim("new", mark="used", value=b"x", ttl_seconds=60) == (b"grant", None)
            await before.close()
            await after.close()

    @pytest.mark.threat("35g", "43f", "43g")
    @pytest.mark.parametrize("is_full", [True, False], ids=["full", "read-only replica"])
    async def test_what_takes_no_writes_is_told_apart(self, is_full):
        """It answers what is read, and every write is refused as one: nothing seems to be new, or done."""
        with running_redis() as leader, running_redis() as server, proxied(leader.url) as way:
            state, ahead = RedisState.open(leader.url), int(time.time()) + 60
            await state.ping()
            await state.put("there", b"1", ttl_seconds=60)
            await state.put_once("code", b"grant", ttl_seconds=60)
            assert await state.use_once("jti", made_at=ahead, ttl_seconds=60)
            if is_full:
                leader.fill()
            else:
                server.follow(way.port)
                await state.close()
                state = RedisState.open(server.url)
            writes = [
                state.ping(),
                state.put("a", b"1", ttl_seconds=1),
                state.put_once("a", b"1", ttl_seconds=1),
                state.add("a", b"1", ttl_seconds=1),
                state.add("there", b"1", ttl_seconds=1),
                state.use_once("another", made_at=ahead, ttl_seconds=60),
                state.raise_all({"a": 1}, ttl_seconds=1),
                state.count("a", ttl_seconds=1),
            ]
            if not is_full:  # a full one still forgets
                writes += [
                    state.begin(),
                    state.take("there"),
                    state.claim("code", mark="used", value=b"1", ttl_seconds=1),
                    state.delete("there"),
                ]
            for write in writes:
                with pytest.raises(Unavailable, match="takes no writes"):
                    await write

            assert await state.fetch(["there", "nothing"]) == [b"1", None]
            together = (
                state.fetch(["there"]),
                state.put("a", b"1", ttl_seconds=1),
                state.fetch(["a", "there"]),
            )
            found, refused, also = await asyncio.gather(*together, return_exceptions=True)
            assert (found, also) == ([b"1"], [None, b"1"])
            assert isinstance(refused, Unavailable)
            assert "takes no writes" in refused.detail
            assert not await state.use_once("jti", made_at=ahead, ttl_seconds=60)
            if is_full:
                assert await state.claim("code", mark="used", value=b"1", ttl_seconds=60) == (b"grant", None)
                assert await state.claim("code", mark="used", value=b"2", ttl_seconds=60) == (None, b"1")
            await state.close()

    @pytest.mark.threat("35a")
    @pytest.mark.parametrize("trouble", ["stopped", "swallowed"])
    async def test_nobody_waits_for_one_that_hangs(self, trouble, monkeypatch):
        """One timeout finds out, those that come later hear so at once, and it is seen when it is back."""
        use_product_timeouts(monkeypatch)
        with running_redis() as server, proxied(server.url) as way:
            state = RedisState.open(way.redis_url)
            await state.put("a", b"1", ttl_seconds=60)
            assert await state.get("a") == b"1"
            with server.hung() if trouble == "stopped" else nullcontext():
                if trouble == "swallowed":
                    way.hold_up()
                async with asyncio.timeout(20):  # minutes if each found out by itself
                    with pytest.raises(Unavailable, match="cannot be reached") as first:
                        await state.get("a")
                    later = [await refusal_of(state.get("a")) for _ in range(600)]
                    await let_elapse(1.5)  # a probe, and one more
                    later.append(await refusal_of(state.get("a")))
                assert first.value.internal != later[0].internal
                assert {each.internal for each in later} == {"not asked"}

            if trouble == "swallowed":
                way.lead_to(server.url)
            await until(lambda: answers(state))
            assert await asyncio.gather(*(state.get("a") for _ in range(9))) == [b"1"] * 9
            await state.close()

    async def test_a_refusal_is_an_answer(self):
        """What Redis refuses of one request keeps nobody else from asking."""
        with running_redis() as server:
            state = RedisState.open(server.url)
            with redis.Redis.from_url(server.url) as client:
                client.lpush("zonewright:list", "1")
            with pytest.raises(Unavailable):
                await state.get("list")

            await state.put("a", b"1", ttl_seconds=60)

            assert await state.get("a") == b"1"
            await state.close()

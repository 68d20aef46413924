"""Questions that wait for a trip travel together, and each caller gets its own answer."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from runtime.domain.errors import Unavailable
from runtime.storage import batching
from runtime.storage.batching import RequestBatcher
from runtime.storage.state.redis import RedisState


async def settle() -> None:
    """Let whatever can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_trip_for_those_who_ask_together() -> None:
    """A hundred callers make one trip; whoever asks later makes the next."""
    trips: list[int] = []

    async def ask(questions: Sequence[int]) -> list[int]:
        trips.append(len(questions))
        await asyncio.sleep(0)
        return [question * 2 for question in questions]

    gathering = RequestBatcher(ask)

    answers = await asyncio.gather(*(gathering.answer(number) for number in range(100)))
    assert answers == [number * 2 for number in range(100)]
    assert await gathering.answer(7) == 14
    assert trips == [100, 1]


async def test_who_asks_while_two_trips_are_under_way_shares_the_next() -> None:
    """A question waits only then; one trip that gets no answer leaves the others room."""
    trips: list[list[int]] = []
    answered = {number: asyncio.Event() for number in range(3)}

    async def ask(questions: Sequence[int]) -> list[int]:
        trips.append(list(questions))
        await answered[min(questions)].wait()
        return list(questions)

    gathering = RequestBatcher(ask)
    calls = []
    for number in range(3):
        calls.append(asyncio.ensure_future(gathering.answer(number)))
        await settle()
    for number in range(10, 20):
        calls.append(asyncio.ensure_future(gathering.answer(number)))
        await settle()
    assert trips == [[0], [1]]

    answered[2].set()
    answered[1].set()  # 0 goes on waiting
    assert await asyncio.gather(*calls[1:]) == [1, 2, *range(10, 20)]
    assert trips == [[0], [1], [2, *range(10, 20)]]
    assert await gathering.answer(2) == 2, "asked at once"
    answered[0].set()
    assert await calls[0] == 0


async def test_a_trip_that_takes_long_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on connections that were lost unseen: whoever is on it waits for it, and nobody else."""
    monkeypatch.setattr(batching, "SLOW_SECONDS", 0.01)
    answered = asyncio.Event()

    async def ask(questions: Sequence[int]) -> list[int]:
        if min(questions) < batching.AT_ONCE:
            await answered.wait()
        return list(questions)

    gathering = RequestBatcher(ask)
    stuck = []
    for number in range(batching.AT_ONCE):
        stuck.append(asyncio.ensure_future(gathering.answer(number)))
        await settle()

    async with asyncio.timeout(20):
        others = await asyncio.gather(*(gathering.answer(number) for number in range(10, 20)))
    assert others == [*range(10, 20)]
    assert not any(each.done() for each in stuck)
    answered.set()
    assert await asyncio.gather(*stuck) == [*range(batching.AT_ONCE)]


async def test_many_questions_are_several_trips() -> None:
    """One of them is not to take long because of what others ask."""
    trips: list[int] = []

    async def ask(questions: Sequence[int]) -> list[int]:
        trips.append(len(questions))
        await asyncio.sleep(0)
        return list(questions)

    gathering = RequestBatcher(ask)

    asked = [*range(2 * batching.MOST + 1)]
    assert await asyncio.gather(*map(gathering.answer, asked)) == asked
    assert trips == [batching.MOST, batching.MOST, 1]


async def test_a_trip_is_of_no_request() -> None:
    """Neither of the one that began it nor of one before: it is in nobody's trace."""
    request: ContextVar[int | None] = ContextVar("request", default=None)
    seen: list[int | None] = []

    async def ask(questions: Sequence[int]) -> list[int]:
        seen.append(request.get())
        await asyncio.sleep(0)
        return list(questions)

    async def serve(number: int) -> int:
        request.set(number)
        for _ in range(number):
            await asyncio.sleep(0)
        return await gathering.answer(number)

    gathering = RequestBatcher(ask)
    await asyncio.gather(*(asyncio.create_task(serve(number)) for number in range(20)))

    assert set(seen) == {None}


async def test_too_few_answers_are_a_failure_of_all() -> None:
    """Nobody waits for ever."""

    async def ask(_questions: Sequence[int]) -> list[int]:
        return [1]

    gathering = RequestBatcher(ask)
    told = await asyncio.gather(gathering.answer(1), gathering.answer(2), return_exceptions=True)

    assert [type(each) for each in told] == [Unavailable] * 2


async def test_failure_is_told_to_everyone() -> None:
    """Every caller of a trip that failed hears of it, and the next trip is a new one."""
    failing = True

    async def ask(questions: Sequence[int]) -> list[int]:
        if failing:
            raise Unavailable("away")
        return list(questions)

    gathering = RequestBatcher(ask)

    told = await asyncio.gather(*(gathering.answer(number) for number in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [Unavailable] * 3
    failing = False
    assert await gathering.answer(1) == 1


async def test_a_caller_who_gives_up_does_not_disturb_the_others() -> None:
    """A request that is cancelled while it waits leaves the trip as it is."""
    going = asyncio.Event()

    async def ask(questions: Sequence[int]) -> list[int]:
        await going.wait()
        return list(questions)

    gathering = RequestBatcher(ask)
    first, second = (asyncio.ensure_future(gathering.answer(number)) for number in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    going.set()

    assert await second == 2


async def test_what_nobody_waits_for_any_more_is_not_asked() -> None:
    """Somebody who hung up while the trips of others were under way has used nothing."""
    going, asked = asyncio.Event(), []

    async def ask(questions: Sequence[int]) -> list[int]:
        asked.extend(questions)
        await going.wait()
        return list(questions)

    gathering = RequestBatcher(ask)
    calls = []
    for number in range(4):
        calls.append(asyncio.ensure_future(gathering.answer(number)))
        await settle()
    calls[2].cancel()
    going.set()

    assert await asyncio.gather(calls[0], calls[1], calls[3]) == [0, 1, 3]
    assert asked == [0, 1, 3]


async def test_many_at_once_in_redis(redis_state: RedisState) -> None:
    """Concurrent puts and fetches of overlapping keys each get what they asked for."""
    await asyncio.gather(
        *(redis_state.put(f"k{number}", b"%d" % number, ttl_seconds=60) for number in range(50))
    )

    found = await asyncio.gather(*(redis_state.fetch([f"k{number}", "none", "k0"]) for number in range(50)))

    assert found == [[b"%d" % number, None, b"0"] for number in range(50)]


async def test_what_is_put_and_fetched_at_once_is_one_command(redis_state: RedisState) -> None:
    """Those who put and those who fetch share a trip: it costs more than what it carries."""
    await redis_state.put("there", b"1", ttl_seconds=60)
    before = int((await redis_state.facts())["total_commands_processed"])

    asked = [redis_state.fetch(["there", "none"]), redis_state.put("k", b"2", ttl_seconds=60)]
    found = await asyncio.gather(*asked, *(redis_state.fetch(["there"]) for _ in range(20)))

    assert found == [[b"1", None], None, *([[b"1"]] * 20)]
    commands = int((await redis_state.facts())["total_commands_processed"]) - before
    # What a script does counts, too: two keys are read and one is written. Then `INFO` and `TIME`.
    assert commands <= 6
    assert await redis_state.fetch(["k"]) == [b"2"]

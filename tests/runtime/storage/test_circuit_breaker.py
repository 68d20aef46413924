"""The circuit breaker of the short-lived state, and the timeout around a request."""

import asyncio

import pytest
from tests.support.waiting import let_pass, until

from runtime.storage.state import circuit_breaker
from runtime.storage.state.circuit_breaker import CircuitBreaker, answered_within


class Probed:
    """Something that is away until told otherwise, and counts its probes."""

    def __init__(self) -> None:
        self.is_away, self.under_way, self.most_under_way, self.probes = True, 0, 0, 0

    async def probe(self) -> None:
        self.probes += 1
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.is_away:
            raise ConnectionError


async def becomes_closed(breaker: CircuitBreaker) -> bool:
    return not breaker.is_open


async def test_open_until_a_probe_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests met the trouble, one probe is under way at a time."""
    monkeypatch.setattr(circuit_breaker, "PROBE_EVERY_SECONDS", 0.0)
    probed = Probed()
    breaker = CircuitBreaker(probed.probe, failures=(OSError,), timeout_seconds=5)
    assert not breaker.is_open
    for _ in range(9):
        breaker.trip(ConnectionError())

    async def tried() -> bool:
        return probed.probes >= 3

    await until(tried)
    assert breaker.is_open
    assert probed.most_under_way == 1

    probed.is_away = False
    await until(lambda: becomes_closed(breaker))
    probes = probed.probes
    await asyncio.sleep(0)
    assert probed.probes == probes


async def test_a_probe_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one may be answered."""
    monkeypatch.setattr(circuit_breaker, "PROBE_EVERY_SECONDS", 0.0)
    probes = 0

    async def probe() -> None:
        nonlocal probes
        probes += 1
        if probes == 1:
            await asyncio.Event().wait()

    breaker = CircuitBreaker(probe, failures=(), timeout_seconds=0.05)
    breaker.trip(ConnectionError())

    await until(lambda: becomes_closed(breaker))

    assert probes == 2


async def test_no_probe_outlives_the_breaker() -> None:
    """Closing it ends the task."""
    probed = Probed()
    breaker = CircuitBreaker(probed.probe, failures=(OSError,), timeout_seconds=5)
    breaker.trip(ConnectionError())
    assert breaker.is_open

    await breaker.close()

    assert not breaker.is_open


async def test_an_answer_that_waits_for_this_process_counts() -> None:
    """It arrived in time: that the process was busy for longer than the timeout is not the other's fault."""
    answer = asyncio.get_running_loop().create_future()

    async def ask() -> str:
        async with answered_within(0.2):
            told: str = await answer
            return told

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, answer.set_result, "heard")
    let_pass(0.5)  # the process is busy

    assert await asking == "heard"


async def test_no_answer_is_a_timeout() -> None:
    """Without one, in the time that was said."""
    with pytest.raises(TimeoutError):
        async with answered_within(0.05):
            await asyncio.Event().wait()

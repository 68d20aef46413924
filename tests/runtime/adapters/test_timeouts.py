"""Limits that are about others: what this process misses by itself does not count."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from runtime.adapters.timeouts import lag_tolerant_timeout


async def slow(limit: AbstractAsyncContextManager[Any]) -> None:
    """Somebody takes half a minute."""
    async with limit:
        await asyncio.sleep(30)


async def missing_turns(limit: AbstractAsyncContextManager[Any], *, turns: int) -> None:
    """This process is held up again and again, while others are in time."""
    async with limit:
        for _ in range(turns):
            time.sleep(0.15)  # noqa: ASYNC251 - that is what this is about
            await asyncio.sleep(0.001)


async def test_others_have_so_long_and_no_longer():
    """Who takes longer is given up, at about that time."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await slow(lag_tolerant_timeout(0.1))
    assert 0.1 <= time.monotonic() - began < 3


async def test_a_process_that_gets_no_turn_blames_nobody():
    """It hears at its next turn what came meanwhile, where a clock on the wall would have run out."""
    with pytest.raises(TimeoutError):
        await missing_turns(asyncio.timeout(0.1), turns=1)
    await missing_turns(lag_tolerant_timeout(0.1), turns=1)


async def test_there_is_an_end_to_it():
    """However few turns it gets."""
    with pytest.raises(TimeoutError):
        await missing_turns(lag_tolerant_timeout(0.1), turns=40)

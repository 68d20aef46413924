"""Limits that are about others: what this process misses by itself does not count."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.waiting import let_elapse, let_pass

from runtime.adapters.timeouts import lag_tolerant_timeout


async def slow(limit: AbstractAsyncContextManager[Any]) -> None:
    """Somebody never answers."""
    async with limit:
        await asyncio.Event().wait()


async def missing_turns(limit: AbstractAsyncContextManager[Any], *, turns: int) -> None:
    """This process is held up again and again, while others are in time."""
    async with limit:
        for _ in range(turns):
            let_pass(0.15)  # the event loop stands still
            await let_elapse(0.001)


async def test_others_have_so_long_and_no_longer():
    """Who takes longer is given up, and not before that time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        await slow(lag_tolerant_timeout(0.1))
    assert loop.time() - began >= 0.1


async def test_a_process_that_gets_no_turn_blames_nobody():
    """It hears at its next turn what came meanwhile, where a clock on the wall would have run out."""
    with pytest.raises(TimeoutError):
        await missing_turns(asyncio.timeout(0.1), turns=1)
    await missing_turns(lag_tolerant_timeout(0.1), turns=1)


async def test_there_is_an_end_to_it():
    """However few turns it gets."""
    with pytest.raises(TimeoutError):
        await missing_turns(lag_tolerant_timeout(0.1), turns=40)

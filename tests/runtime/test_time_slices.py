"""Long work side by side, and what is short in between."""

import asyncio
from contextlib import suppress

import pytest

from runtime.services import time_slices
from runtime.services.time_slices import TimeSlice


@pytest.mark.threat("41l")
async def test_much_long_work_takes_no_longer_turns_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks of somebody else one step of all the work is done, however much work there is."""
    monkeypatch.setattr(time_slices, "_SLICE_SECONDS", 0.0)
    steps = dict.fromkeys(range(20), 0)

    async def work(number: int) -> None:
        own = TimeSlice()
        while True:
            steps[number] += 1
            await own.yield_if_due()

    tasks = [asyncio.create_task(work(number)) for number in steps]
    for _ in range(100):
        await asyncio.sleep(0)
    most = 0
    for _ in range(200):
        before = sum(steps.values())
        await asyncio.sleep(0)
        most = max(most, sum(steps.values()) - before)
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    assert most == 1
    assert max(steps.values()) - min(steps.values()) <= 1, "all of it goes on"

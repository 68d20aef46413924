"""Turns at replaying: few in a process, one of an organization."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from runtime.services import replay_turns
from runtime.services.replay_turns import AT_ONCE, ReplayTurns


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> ReplayTurns:
    """Those of a process in which nobody waits for long."""
    monkeypatch.setattr(replay_turns, "WAIT_SECONDS", 0.01)
    return ReplayTurns()


async def has_turn(turns: ReplayTurns, organization_id: str) -> bool:
    async with turns.turn(organization_id) as is_ours:
        return is_ours


async def test_few_of_a_process_have_turns(turns: ReplayTurns) -> None:
    """Whoever comes then does without, and has one once another is done."""
    async with AsyncExitStack() as held:
        taken = [await held.enter_async_context(turns.turn(f"org-{number}")) for number in range(AT_ONCE)]
        assert (taken, await has_turn(turns, "another")) == ([True] * AT_ONCE, False)
    assert await has_turn(turns, "another")


async def test_one_of_an_organization_has_a_turn(turns: ReplayTurns) -> None:
    """Others have theirs meanwhile, and so has the next of the same one, also after a failure."""
    async with AsyncExitStack() as held:
        assert await held.enter_async_context(turns.turn("org"))
        assert not await has_turn(turns, "org")
        assert await has_turn(turns, "another")
    with pytest.raises(ZeroDivisionError):
        async with turns.turn("org"):
            raise ZeroDivisionError
    assert await has_turn(turns, "org")


async def test_who_does_without_keeps_nobody_waiting(turns: ReplayTurns) -> None:
    """An organization whose dry run had no turn in the process is free for its next one."""
    async with AsyncExitStack() as held:
        for number in range(AT_ONCE):
            await held.enter_async_context(turns.turn(f"org-{number}"))
        async with turns.turn("late") as is_ours:
            assert not is_ours
            await held.aclose()
            assert await has_turn(turns, "late")


async def test_a_canceled_wait_takes_no_turn(turns: ReplayTurns, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that goes while it waits leaves its place."""
    monkeypatch.setattr(replay_turns, "WAIT_SECONDS", 60.0)
    async with turns.turn("org"):
        waiting = asyncio.create_task(has_turn(turns, "org"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert await has_turn(turns, "org")

"""Waiting in tests: for a condition, until a deadline; or for the time that the fact under test is about.

Nothing else in tests sleeps (`tests/test_waiting.py`): a pause after which something has probably happened
fails on a busy machine, and is too long on every other.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

_POLL_SECONDS = 0.02


def wait_until(
    is_so: Callable[[], object], *, seconds: float = 30, otherwise: Callable[[], object] = lambda: "not so"
) -> None:
    """Return once that is so. Raises AssertionError at the deadline.

    Args:
        otherwise: what the failure says.
    """
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(otherwise())
        time.sleep(_POLL_SECONDS)


async def until(is_so: Callable[[], Awaitable[object]], *, seconds: float = 30) -> None:
    """Return once that is so. Raises AssertionError at the deadline."""
    deadline = time.monotonic() + seconds
    while not await is_so():
        if time.monotonic() > deadline:
            raise AssertionError("not so")
        await asyncio.sleep(_POLL_SECONDS)


async def repeat(work: Callable[[], Awaitable[object]], *, seconds: float) -> None:
    """Do something again and again until so much time has passed, and once after that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await work()
        await asyncio.sleep(_POLL_SECONDS)
    await work()


def let_pass(seconds: float) -> None:
    """Let the time pass that the fact itself names: how long a reading counts, or a sender is slow."""
    time.sleep(max(seconds, 0))


async def let_elapse(seconds: float) -> None:
    """Let the time pass that the fact itself names, while the event loop goes on."""
    await asyncio.sleep(max(seconds, 0))


@contextmanager
def working_at_most(seconds: float) -> Iterator[None]:
    """Stop what takes this process more work than that: of the processor, whatever else the machine does.

    For inputs that would take it minutes or hours, in the main thread. Raises AssertionError.
    """

    def stop(*_: object) -> None:
        raise AssertionError(f"this takes more than {seconds} seconds of work")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

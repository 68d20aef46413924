"""Waiting in tests: for a condition, until a deadline; or for the time that the fact under test is about.

Nothing else in tests sleeps (`tests/test_waiting.py`): a pause after which something has probably happened
fails on a busy machine, and is too long on every other.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

_T = TypeVar("_T")
_POLL_SECONDS = 0.02
_TICK_SECONDS = 0.01  # timers of the processor's time tell no less apart
_ATTEMPTS = 3


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


async def takes_at_least(seconds: float, work: Awaitable[object]) -> None:
    """Check that something ends no earlier than that: unlike the reverse, no machine is too busy for it."""
    begun = time.monotonic()
    await work
    assert time.monotonic() - begun >= seconds


def let_pass(seconds: float) -> None:
    """Let the time pass that the fact itself names: how long a reading counts, or a sender is slow."""
    time.sleep(max(seconds, 0))


async def let_elapse(seconds: float) -> None:
    """Let the time pass that the fact itself names, while the event loop goes on."""
    await asyncio.sleep(max(seconds, 0))


def working_at_most(times: int, work: Callable[[], _T], *, as_much_as: Callable[[], object]) -> _T:
    """Do something; stop it where it takes this process more than so many times the work of what is ordinary.

    Work is time of the processor: what else the machine does counts as little as how fast it is. What other
    threads of this process do meanwhile (a server prepares keys) does count, so what was stopped is tried
    again; too much is what is stopped each time. For inputs that would take minutes or hours, in the main
    thread. Raises AssertionError.

    Args:
        as_much_as: the ordinary work; done twice, since the first time may be dearer.
    """
    seconds = times * max(_TICK_SECONDS, min(_work_of(as_much_as) for _ in range(2)))
    for _ in range(_ATTEMPTS):
        with suppress(_TooMuch), _stopped_after(seconds):
            return work()
    raise AssertionError(f"this takes more than {times} times the work of what is ordinary")


class _TooMuch(BaseException):
    """More work than is allowed: no Exception, so that what is stopped does not take it for its own."""


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Stop what takes more of the processor. Raises _TooMuch."""

    def stop(*_: object) -> None:
        raise _TooMuch

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _work_of(work: Callable[[], object]) -> float:
    """What something takes of the processor, in seconds."""
    before = time.process_time()
    work()
    return time.process_time() - before

"""Ctrl-C during an apply: it ends the waiting, but not the keeping of what an answer has brought."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts(holds: Callable[[], bool]) -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block from the moment *holds* says so.

    An answer may show a secret once, and it has to be written down.

    Raises:
        KeyboardInterrupt: at once, or at the end of the block.
    """
    held = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal held
        if not holds():
            raise KeyboardInterrupt
        held = True

    before = signal.getsignal(signal.SIGINT)
    # Another thread gets no signals; and who ignores Ctrl-C, as `nohup` and `&` do, goes on ignoring it.
    takes = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if takes:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if takes:
            signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt

"""Defers Ctrl-C and SIGTERM during an apply until the secrets in an answer are written down."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts(holds: Callable[[], bool]) -> Iterator[None]:
    """Let an interruption wait for the end of the block from the moment *holds* says so.

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

    # Another thread gets no signals; and who ignores Ctrl-C, as `nohup` and `&` do, goes on ignoring it.
    takes = [each for each in _SIGNALS if signal.getsignal(each) is signal.default_int_handler]
    if threading.current_thread() is not threading.main_thread():
        takes = []
    for each in takes:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each in takes:
            signal.signal(each, signal.default_int_handler)
    if held:
        raise KeyboardInterrupt

"""Defers Ctrl-C and SIGTERM during an apply until the secrets in an answer are written to files."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts(holds: Callable[[], bool]) -> Iterator[None]:
    """Defer interruptions to the end of the block from the moment *holds* returns true.

    An answer may have a one-time secret, which must be written to its file first.

    Raises:
        KeyboardInterrupt: at once, or at the end of the block.
    """
    held = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal held
        if not holds():
            raise KeyboardInterrupt
        held = True

    # Only the main thread gets signals. Where Ctrl-C is ignored, as under `nohup` and `&`, that stays so.
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

"""Since when the short-lived state in a process remembers what was used once.

What is signed in the second in which that begins is refused, for it may have been used before. Tests sign at
once.
"""

import time

from runtime.storage.state.memory import InProcessState

_SECONDS = 2.0


def begin_earlier() -> None:
    """Have it remember since two seconds before it was made, in this process."""
    InProcessState.__init__.__kwdefaults__["wall"] = lambda: time.time() - _SECONDS

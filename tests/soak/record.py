"""The record of a soak: how often each thing was done, and all that should not have happened."""

import threading
from collections import Counter

from tests.soak.judging import Statement
from tests.soak.wire import Answer

PROMISES = {
    "error": "no answer is a 5xx, and every request has one",
    "refused": "nothing is refused that should be granted",
    "unverified": "every token verifies with the keys that the zone publishes, across rotations",
    "slow": "what was revoked or signed out is refused within 1 s",
    "policy": "a change of policies decides within 1 s, in both directions",
    "rotation": "a rotated key is published; one that is withdrawn at once has its tokens refused",
}
_SHOWN = 3


class Record:
    """Shared by all who work.

    Attributes:
        withdrawn: kids of keys whose tokens may be refused from now on.
        slowest: of each promise that has a time, the longest it took; seconds.
    """

    def __init__(self) -> None:
        self.withdrawn: set[str] = set()
        self.slowest: dict[str, float] = dict.fromkeys(PROMISES, 0.0)
        self._done: Counter[str] = Counter()
        self._broken: dict[str, list[str]] = {promise: [] for promise in PROMISES}
        self._lock = threading.Lock()

    def done(self, what: str) -> None:
        """Count something that went as it should."""
        with self._lock:
            self._done[what] += 1

    def broke(self, promise: str, how: str) -> None:
        """Keep that a promise was broken."""
        with self._lock:
            self._broken[promise].append(how)

    def broke_with(self, promise: str, what: str, answer: Answer) -> None:
        """Keep that an answer breaks a promise, or is the server's own failure."""
        self.broke("error" if answer.status >= 500 else promise, f"{what}: {answer}")

    def took(self, promise: str, seconds: float) -> None:
        """Keep how long something took that a promise says a time of."""
        with self._lock:
            self.slowest[promise] = max(self.slowest[promise], seconds)

    def statements(self) -> list[Statement]:
        """What was done, and one statement for each promise."""
        done = ", ".join(f"{count:,} {what}" for what, count in sorted(self._done.items()))
        told = [Statement("a mixed load", done, bool(self._done))]
        for promise, what in PROMISES.items():
            broken = self._broken[promise]
            took = f"{self.slowest[promise]:.2f} s at most" if self.slowest[promise] else "always"
            seen = f"{len(broken):,} times not: {'; '.join(broken[:_SHOWN])}" if broken else took
            told.append(Statement(what, seen, not broken))
        return told

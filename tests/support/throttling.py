"""Rate limits in tests: windows that last while a test counts, and client ids that are counted together."""

import pytest

from runtime.services import rate_limits
from runtime.services.clients import authentication_throttling


def keep_one_window(patch: pytest.MonkeyPatch) -> None:
    """Let no window end while the patch lasts: what a test counts would begin at zero in the midst of it."""
    patch.setattr(rate_limits.RateLimit, "window", lambda _limit, _now: 0)
    patch.setattr(rate_limits.RateLimit, "ends_at", lambda limit, now: now + limit.seconds)


def share_a_counter(one: str, other: str) -> bool:
    """Tell whether failures of one client id also count for the other, at the same address."""
    counters = {authentication_throttling._pair(each, "203.0.113.9") for each in (one, other)}
    return len(counters) == 1

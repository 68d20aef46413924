"""How long this process lets a database, or Redis, take before it counts as hanging.

The product says so after a second or two. A machine that runs several servers and every test may take longer
to start one more process of PostgreSQL, or to come back to this one; nothing hangs there. Tests of the time
itself take the product's own.
"""

import pytest

from runtime.services import epochs
from runtime.storage.sql import engines, hang_detection
from runtime.storage.state import redis

_OF_TESTS, _OF_REDIS = 10.0, 3.0  # callers wait for Redis once; they go on without it
_OF_THE_PRODUCT = {
    (hang_detection, "ANSWER_SECONDS"): hang_detection.ANSWER_SECONDS,
    (epochs, "READ_TIMEOUT_SECONDS"): epochs.READ_TIMEOUT_SECONDS,
    (engines, "WATCHING_SECONDS"): engines.WATCHING_SECONDS,
    (redis, "TIMEOUT_SECONDS"): redis.TIMEOUT_SECONDS,
}


def lengthen_database_timeouts() -> None:
    """Have a database count as hanging after ten seconds in this process, and Redis after three."""
    for module, name in _OF_THE_PRODUCT:
        setattr(module, name, _OF_REDIS if module is redis else _OF_TESTS)


def use_product_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it count as hanging as soon as it does in the product."""
    for (module, name), seconds in _OF_THE_PRODUCT.items():
        monkeypatch.setattr(module, name, seconds)

"""Opens the short-lived state that the settings name."""

from collections.abc import Mapping

from runtime.storage.state.memory import InProcessState
from runtime.storage.state.protocol import StateStore


def open_state(redis_url: str | None, *, bounds: Mapping[str, int] | None = None) -> StateStore:
    """The state at a Redis URL, or in this process when there is none.

    Args:
        bounds: kind of key -> entries that one zone may have of it in this process; there are no others.
    """
    if redis_url is None:
        return InProcessState(bounds=bounds)
    # Redis is an optional part of the installation.
    from runtime.storage.state.redis import RedisState

    return RedisState.open(redis_url)

"""Opening the short-lived state that the settings name."""

from runtime.storage.state.memory import InProcessState
from runtime.storage.state.protocol import State


def open_state(redis_url: str | None) -> State:
    """The state at a Redis URL, or in this process when there is none."""
    if redis_url is None:
        return InProcessState()
    # Redis is an optional part of the installation.
    from runtime.storage.state.redis import RedisState

    return RedisState.open(redis_url)

"""Short-lived state: codes, sign-in state, token cache, replay protection, epochs; in memory or in Redis."""

from runtime.storage.state.opening import open_state
from runtime.storage.state.protocol import FORGOTTEN, StateStore

__all__ = ["FORGOTTEN", "StateStore", "open_state"]

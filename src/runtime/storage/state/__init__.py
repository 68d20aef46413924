"""Short-lived state: codes, sign-in state, token cache, replay marks, epochs. One interface, two forms."""

from runtime.storage.state.opening import open_state
from runtime.storage.state.protocol import FORGOTTEN, StateStore

__all__ = ["FORGOTTEN", "StateStore", "open_state"]

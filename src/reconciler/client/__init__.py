"""The client of the management API: snapshots and changesets."""

import sys

# Without its command line, httpx needs neither rich nor pygments: half of the time that its import takes.
if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]

from .api import Api, ChangesetOutcome
from .connection import ConfiguredServer, Connection, ConnectionIncomplete, ServerRefused
from .errors import ApiError, Conflicting, NotReached, Rejected

__all__ = [
    "Api",
    "ApiError",
    "ChangesetOutcome",
    "ConfiguredServer",
    "Conflicting",
    "Connection",
    "ConnectionIncomplete",
    "NotReached",
    "Rejected",
    "ServerRefused",
]

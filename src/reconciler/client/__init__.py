"""The client of the management API: snapshots and changesets."""

from .api import Api, ChangesetOutcome
from .connection import Connection, ConnectionIncomplete, ServerClaim, ServerRefused
from .errors import ApiError, Conflicting, NotReached, Rejected

__all__ = [
    "Api",
    "ApiError",
    "ChangesetOutcome",
    "Conflicting",
    "Connection",
    "ConnectionIncomplete",
    "NotReached",
    "Rejected",
    "ServerClaim",
    "ServerRefused",
]

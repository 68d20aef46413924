"""The client of the management API: snapshots and changesets."""

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

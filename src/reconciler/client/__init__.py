"""The management API as the reconciler uses it: one snapshot, one changeset."""

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

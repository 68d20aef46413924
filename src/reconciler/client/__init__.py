"""The management API as the reconciler uses it: one snapshot, one changeset."""

from .api import Api, ChangesetOutcome
from .connection import Claim, Connection, ConnectionIncomplete, ServerRefused
from .errors import ApiError, Conflicting, NotReached, Rejected

__all__ = [
    "Api",
    "ApiError",
    "ChangesetOutcome",
    "Claim",
    "Conflicting",
    "Connection",
    "ConnectionIncomplete",
    "NotReached",
    "Rejected",
    "ServerRefused",
]

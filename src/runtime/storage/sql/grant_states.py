"""The states of delegated grants as conditions on rows: which are in one, and which a cause may move."""

from datetime import datetime

from sqlalchemy import ColumnElement, and_, literal_column, or_

from runtime.domain.delegated_grants import TRANSITIONS, Cause
from runtime.domain.kinds.values import GrantStatus
from runtime.storage.sql.tables import METADATA

_grants = METADATA.tables["delegated_grants"]


def has_status(now: datetime, status: str) -> ColumnElement[bool]:
    """The condition that a delegated grant is `active`, `expired` or `revoked`."""
    if status == GrantStatus.REVOKED:
        return _grants.c.status == literal_column("'revoked'")  # as in the index
    ends_at = _grants.c.expires_at
    alive = or_(ends_at.is_(None), ends_at > now)
    stored = _grants.c.status == GrantStatus.ACTIVE.value
    return and_(stored, alive if status == GrantStatus.ACTIVE else ends_at <= now)


def may_move(now: datetime, cause: Cause) -> ColumnElement[bool]:
    """The condition that a delegated grant is in a state which the cause applies to."""
    return or_(*(has_status(now, each) for each in sorted(TRANSITIONS[cause].sources)))

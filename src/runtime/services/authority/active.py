"""Checks that session, user and membership are active, for every grant type, endpoint, page and API.

Nothing else reads status and expiry of what a sign-in rests on. Each caller turns NotActive into the refusal
that its protocol has for it.

Applications that are ended because nobody active is accountable for them are not found at all:
`services/zones/accountability.py`.
"""

from datetime import datetime

from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import OrganizationStatus, UserStatus
from runtime.domain.lifetimes import is_active
from runtime.storage.sql.sessions import SessionRecord


class NotActive(Exception):
    """What the request rests on has ended. The text is for the record alone."""


def require_active(
    session: SessionRecord | None,
    user: User | None,
    now: datetime,
    *,
    within: SessionRecord | None = None,
    member: OrganizationUser | None = None,
) -> None:
    """Check that a sign-in still stands: its session, its user, and what both depend on.

    Args:
        session: that tokens name in `sid`, or a cookie stands for; None when it is gone.
        user: None when there is none any more.
        within: the browser session that it ends with, where that is another one.
        member: who the user is in an organization, where they act for one.
    Raises: NotActive.
    """
    if session is None or user is None or session.user_id != user.id:
        raise NotActive("the session does not exist, or is another user's")
    require_session_active(session, now)
    if within is not None:
        if within.user_id != user.id:
            raise NotActive("the session belongs to that of another user")
        require_session_active(within, now)
    require_user_active(user)
    if member is not None:
        require_member_active(member)


def require_session_active(session: SessionRecord | None, now: datetime) -> None:
    """Check a session by itself: of an application without a user there is nothing else. Raises NotActive."""
    if session is None or not is_active(session, now):
        raise NotActive("the session has been ended, or has expired")


def may_user_act(status: UserStatus) -> bool:
    """Tell whether a user of that status may act."""
    return status is UserStatus.ACTIVE


def require_user_active(user: User) -> None:
    """Check that a user may act who has no session yet. Raises NotActive."""
    if not may_user_act(user.status):
        raise NotActive("the user is disabled")


def require_member_active(member: OrganizationUser) -> None:
    """Check that a user may act for an organization. Raises NotActive."""
    if member.status is not OrganizationStatus.ACTIVE:
        raise NotActive("the organization user is disabled")

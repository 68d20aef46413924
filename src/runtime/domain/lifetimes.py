"""Lifetimes: is a session, refresh family or grant active?"""

from datetime import datetime
from typing import Protocol

ACTIVE = "active"


class Lifetime(Protocol):
    """Something that can be revoked and may expire.

    Attributes:
        status: `active` until it is revoked; that it has expired is not written down anywhere.
        expires_at: None for what does not end by itself.
    """

    @property
    def status(self) -> str:
        """See above."""

    @property
    def expires_at(self) -> datetime | None:
        """See above."""


def is_active(lifetime: Lifetime, now: datetime) -> bool:
    """Tell whether it is neither revoked nor expired."""
    return lifetime.status == ACTIVE and (lifetime.expires_at is None or lifetime.expires_at > now)

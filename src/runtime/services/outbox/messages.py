"""The messages of the outbox, and how those of a topic are delivered."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class NotDelivered(Exception):
    """Delivery failed and is tried again later. The reason is logged: it names no secret and no person."""


class Undeliverable(Exception):
    """Delivery can never succeed, and is given up. The reason is logged, as for NotDelivered."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that waits to be delivered.

    Attributes:
        payload: what was put in, in clear; it may hold secrets, so it does not show in a repr.
        attempts: how often delivery has been begun, this time included.
    """

    id: str
    topic: str
    organization_id: str | None
    zone_id: str | None
    attempts: int
    payload: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MessageHandler:
    """How the messages of one topic are delivered.

    Attributes:
        deliver: raises NotDelivered or Undeliverable; must end within `first_delay_seconds`, and may be
            called twice for one message.
        attempts: how often it is tried before the message becomes a dead letter.
        first_delay_seconds: until the second attempt; each further delay is twice as long, six hours at most.
    """

    deliver: Callable[[Message], Awaitable[None]]
    attempts: int = 12
    first_delay_seconds: int = 60

"""The transactional outbox: messages that leave the service because of a write, kept until delivered.

A row is written in the transaction of the write itself, so that neither exists without the other. Delivery
comes after the commit and happens at least once: a process that dies in between leaves the row for the next.
"""

from runtime.services.outbox.delivery import JOB, Outbox
from runtime.services.outbox.messages import Message, MessageHandler, NotDelivered, Undeliverable

__all__ = ["JOB", "Message", "MessageHandler", "NotDelivered", "Outbox", "Undeliverable"]

"""The outbox: what leaves the service because of a write, kept in the database until it has left.

A row is written in the transaction of the write itself, so that neither exists without the other. Delivery
comes after the commit and happens at least once: a process that dies in between leaves the row for the next.
"""

from runtime.services.outbox.delivery import JOB, Outbox
from runtime.services.outbox.letters import Letter, NotDelivered, Topic, Undeliverable

__all__ = ["JOB", "Letter", "NotDelivered", "Outbox", "Topic", "Undeliverable"]

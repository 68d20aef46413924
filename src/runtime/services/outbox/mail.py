"""Mail in the outbox: the message is composed when it is sent, from what was put in."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.mail import MailFailed, MailRefused, Transport, compose
from runtime.services.outbox.delivery import Outbox
from runtime.services.outbox.messages import Message, NotDelivered, Undeliverable

TOPIC = "mail"
_MAX_SHOWN_CHARS = 80


async def enqueue(
    conn: AsyncConnection,
    outbox: Outbox,
    *,
    organization_id: str,
    recipient: str,
    subject: str,
    text: str,
) -> None:
    """Put a mail in the outbox; notify the outbox after the commit."""
    payload = {"to": recipient, "subject": subject, "text": text}
    await outbox.enqueue(conn, TOPIC, payload, organization_id=organization_id)


def one_line(name: str) -> str:
    """A name as a mail shows it: printable characters on one line, shortened to 80 of them."""
    line = " ".join("".join(each if each.isprintable() else " " for each in name).split())
    return line if len(line) <= _MAX_SHOWN_CHARS else f"{line[: _MAX_SHOWN_CHARS - 1]}…"


@dataclass(frozen=True, slots=True)
class MailDelivery:
    """Delivers the messages of the topic `mail`.

    Attributes:
        sender: the address that mails come from.
    """

    transport: Transport
    sender: str
    clock: Callable[[], datetime]

    async def deliver(self, message: Message) -> None:
        """Compose and send a mail. Raises NotDelivered, Undeliverable."""
        try:
            mail = compose(
                sender=self.sender,
                recipient=message.payload["to"],
                subject=message.payload["subject"],
                text=message.payload["text"],
                reference=message.id,
                now=self.clock(),
            )
            await self.transport.send(mail)
        except MailFailed as failure:
            raise NotDelivered(str(failure)) from None
        except MailRefused as failure:
            raise Undeliverable(str(failure)) from None

"""Mail in the outbox: the message is composed when it is sent, from what was put in."""

from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.adapters.mail import MailFailed, MailRefused, compose
from runtime.services.outbox.letters import Letter, NotDelivered, Undeliverable

if TYPE_CHECKING:
    from runtime.services.container import Services

TOPIC = "mail"


async def put(
    conn: AsyncConnection,
    services: "Services",
    *,
    organization_id: str,
    recipient: str,
    subject: str,
    text: str,
) -> None:
    """Have a message sent once the transaction stands; poke the outbox then."""
    payload = {"to": recipient, "subject": subject, "text": text}
    await services.outbox.put(conn, TOPIC, payload, now=services.clock(), organization_id=organization_id)


async def deliver(services: "Services", letter: Letter) -> None:
    """Send a message. Raises NotDelivered, Undeliverable."""
    try:
        message = compose(
            sender=services.settings.mail_from,
            recipient=letter.payload["to"],
            subject=letter.payload["subject"],
            text=letter.payload["text"],
            reference=letter.id,
            now=services.clock(),
        )
        await services.mail.send(message)
    except MailFailed as failure:
        raise NotDelivered(str(failure)) from None
    except MailRefused as failure:
        raise Undeliverable(str(failure)) from None

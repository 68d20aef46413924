"""E-mail: composed in `messages`, sent by one of the transports beside it."""

from email.message import EmailMessage
from typing import Protocol

from runtime.adapters.mail.failures import MailFailed, MailRefused
from runtime.adapters.mail.file import FileTransport
from runtime.adapters.mail.messages import address_of, compose, sender_of
from runtime.adapters.mail.smtp import Security, SmtpTransport

__all__ = [
    "FileTransport",
    "MailFailed",
    "MailRefused",
    "Security",
    "SmtpTransport",
    "Transport",
    "address_of",
    "compose",
    "sender_of",
]


class Transport(Protocol):
    """What carries a message to where people read it."""

    async def send(self, message: EmailMessage) -> None:
        """Hand the message over. Raises MailFailed to be tried again, MailRefused when that is no use."""
        ...

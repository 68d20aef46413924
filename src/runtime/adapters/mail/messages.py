"""Composition of e-mail messages: every header is set through `email`, so that no value can add a header."""

import re
from datetime import datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from runtime.adapters.mail.failures import MailRefused

# A domain as it stands in a header, where a comma or a semicolon would begin another recipient.
_DOMAIN = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")


def compose(
    *, sender: str, recipient: str, subject: str, text: str, reference: str, now: datetime
) -> EmailMessage:
    """A plain message to one person.

    Args:
        sender: address, with a name or without: `Zonewright <no-reply@example.com>`.
        reference: names this message: a second delivery of it has the same `Message-ID`.
    Raises: MailRefused, when the address or the subject is not valid in a header.
    Spec: RFC 5322 section 3.6; RFC 3834 section 5 (`Auto-Submitted`).
    """
    message = EmailMessage(policy=SMTP)
    try:
        message["From"] = sender
        message["To"] = address_of(recipient)
        message["Subject"] = subject
    except ValueError:
        raise MailRefused("the address or the subject is not valid in a header") from None
    domain = message["From"].addresses[0].domain
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{reference}@{domain}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    return message


def address_of(address: str) -> Address:
    """One address, whatever characters it has. Raises ValueError for what no header can hold."""
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        raise ValueError("not an e-mail address")
    try:
        domain = domain.encode("idna").decode("ascii")
        if not _DOMAIN.fullmatch(domain):
            raise ValueError("not an e-mail address")
        return Address(username=local, domain=domain)
    except (HeaderParseError, IndexError) as failure:
        raise ValueError(str(failure)) from None


def sender_of(written: str) -> str:
    """A sender as a setting has it. Raises ValueError when it is not exactly one address."""
    message = EmailMessage(policy=SMTP)
    message["From"] = written
    found = message["From"].addresses
    if len(found) != 1 or not found[0].username or not found[0].domain or message["From"].defects:
        raise ValueError("not exactly one e-mail address")
    return written

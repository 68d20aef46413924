"""The mail transport over SMTP.

The one connection that does not go through `adapters.outbound`: its host is named in the settings, by whoever
runs the service and nobody else; it is often on a private address, and speaks no HTTP. No tenant can name it.
"""

import ssl
from email.message import EmailMessage
from typing import Literal

import aiosmtplib

from runtime.adapters.mail.failures import MailFailed, MailRefused

Security = Literal["starttls", "tls", "none"]
TIMEOUT_SECONDS = 20
_PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}


class SmtpTransport:
    """Hands each message to one mail server, over a connection of its own."""

    __slots__ = ("_context", "_host", "_password", "_port", "_security", "_username")

    def __init__(
        self,
        host: str,
        *,
        port: int | None = None,
        security: Security = "starttls",
        username: str | None = None,
        password: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Args:
        port: the usual one of the security when it is None.
        security: `starttls` refuses a server that does not offer it: nothing falls back to clear text.
        context: what a server's certificate is checked with; the system's authorities when it is None.
        """
        self._host, self._port, self._security = host, port or _PORTS[security], security
        self._username, self._password = username, password
        self._context = context or ssl.create_default_context()

    def __repr__(self) -> str:
        return f"SmtpTransport({self._host}:{self._port})"

    async def send(self, message: EmailMessage) -> None:
        """Hand the message over. Raises MailFailed for what may pass (RFC 5321: 4yz), MailRefused (5yz)."""
        client = aiosmtplib.SMTP(
            hostname=self._host,
            port=self._port,
            username=self._username,
            password=self._password,
            timeout=TIMEOUT_SECONDS,
            use_tls=self._security == "tls",
            start_tls=self._security == "starttls",
            tls_context=None if self._security == "none" else self._context,
        )
        try:
            async with client:
                await client.send_message(message)
        except aiosmtplib.SMTPRecipientsRefused as failure:
            raise _refusal(failure, [one.code for one in failure.recipients]) from None
        except aiosmtplib.SMTPAuthenticationError as failure:  # a 5yz that the operator mends
            raise MailFailed(f"{type(failure).__name__} {failure.code}") from None
        except aiosmtplib.SMTPResponseException as failure:
            raise _refusal(failure, [failure.code]) from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as failure:
            raise MailFailed(type(failure).__name__) from None


def _refusal(failure: Exception, codes: list[int]) -> MailFailed | MailRefused:
    """What a server's refusal means: for good when every code says so."""
    reason = " ".join([type(failure).__name__, *map(str, codes)])
    return MailRefused(reason) if all(500 <= code < 600 for code in codes) else MailFailed(reason)

"""A real mail server for tests, and a reader of what it was given."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope
from tests.support.rewired import run_job
from tests.support.server import Server

from runtime.services.outbox import JOB as OUTBOX

USERNAME, PASSWORD = "zones", "letter-carrier"


@dataclass
class MailServer:
    """A running server; a recipient called `full@` or `gone@` is refused, for now or for good."""

    port: int = 0
    envelopes: list[Envelope] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - the name the server calls
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address.startswith("full@"):
            return "452 no room"
        if address.startswith("gone@"):
            return "550 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        self.envelopes.append(envelope)
        return "250 OK"

    def last(self) -> EmailMessage:
        """The message that came last."""
        return read(cast(bytes, self.envelopes[-1].content))


@asynccontextmanager
async def running_mail_server(
    *, context: ssl.SSLContext | None = None, starttls: bool = False, authenticated: bool = False
) -> AsyncIterator[MailServer]:
    """A mail server on a free port of this machine."""
    server = MailServer()
    options: dict[str, Any] = {"enable_SMTPUTF8": True}
    if starttls:
        options |= {"tls_context": context, "require_starttls": True}
    if authenticated:
        options |= {
            "authenticator": _authenticate,
            "auth_required": True,
            "auth_require_tls": starttls,
        }
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        lambda: SMTP(server, loop=loop, **options),
        "127.0.0.1",
        0,
        ssl=None if starttls else context,
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def read(content: bytes) -> EmailMessage:
    """A message as it was sent."""
    return cast(EmailMessage, message_from_bytes(content, policy=policy.default))


def in_folder(folder: Path) -> list[EmailMessage]:
    """The messages in a folder, the oldest first."""
    return [read(path.read_bytes()) for path in sorted(folder.glob("*.eml"))]


def delivered(server: Server, address: str) -> EmailMessage:
    """The newest message of a server to an address, once everything that waits has been sent."""
    server.call(lambda services: run_job(services, OUTBOX))
    found = [message for message in in_folder(server.settings.mail_folder) if message["To"] == address]
    assert found, f"no mail for {address}"
    return found[-1]


def _authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
    right = (data.login, data.password) == (USERNAME.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)

"""The mail transport that writes each message to an `.eml` file, for development or a relay of one's own."""

import asyncio
import secrets
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

from runtime import files
from runtime.adapters.mail.failures import MailFailed


class FileTransport:
    """Writes each message to a file of its own, readable by its owner alone."""

    __slots__ = ("_folder",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def send(self, message: EmailMessage) -> None:
        """Write the message. Raises MailFailed."""
        try:
            await asyncio.to_thread(self._write, bytes(message))
        except OSError as failure:
            raise MailFailed(f"cannot write below `{self._folder}`: {type(failure).__name__}") from None

    def _write(self, content: bytes) -> None:
        files.make_directory(self._folder)
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}.eml"
        files.write_whole(self._folder / name, content)

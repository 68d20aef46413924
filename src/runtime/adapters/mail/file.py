"""Messages as files, for development and for those who carry mail in their own way: one `.eml` each."""

import asyncio
import os
import secrets
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

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
        """Under a hidden name first: whoever looks into the folder sees whole messages only."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}.eml"
        draft = self._folder / f".{name}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        draft.rename(self._folder / name)

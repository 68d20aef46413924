"""Writes a file in one step: a reader sees the old content or the new, and never a part."""

import os
import tempfile
from pathlib import Path


def write_atomically(file: Path, content: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Put a file in place, with its mode from the first byte on; a link there is replaced.

    *durable*: it is on the disk before this returns. Raises OSError.
    """
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if mode != 0o600:  # what mkstemp makes
                os.fchmod(stream.fileno(), mode)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        Path(name).replace(file)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise

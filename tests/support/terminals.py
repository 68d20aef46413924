"""Commands as they are seen on a terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def on_a_terminal(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints to a terminal when it is called in a folder, on both streams."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=child, stderr=child
    )
    os.close(child)
    content = b""
    try:
        while part := os.read(parent, 65536):
            content += part
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        process.wait(30)
        os.close(parent)
    return content.decode()

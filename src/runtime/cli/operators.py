"""The operating system account that runs a command, as the audit log records it."""

import os
import pwd
import re
import socket

from runtime.services.management.access.caller import Actor

_MAX_CHARS = 255
_STRANGE = re.compile(r"[^\w.@-]", re.ASCII)


def current_operator() -> Actor:
    """`account@host`: the account is that of who called `sudo`, where it was, or else of this process.

    Nobody proves it: whoever may run commands could write to the database as well.
    """
    name = f"{os.environ.get('SUDO_USER') or _account()}@{socket.gethostname()}"
    return Actor("operator", _STRANGE.sub("_", name)[:_MAX_CHARS])


def _account() -> str:
    """The account's name, or its number where it has none, as in many containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid-{os.getuid()}"

"""Sockets that systemd has opened for this process (`sd_listen_fds(3)`).

They stay open while the service is restarted: connections that come meanwhile wait, and none is refused.
"""

import os
import socket

from runtime.cli.execution import CommandError

_FIRST = 3  # the descriptor after standard input, output and error
_NAMES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def passed_socket() -> socket.socket | None:
    """The socket that was passed to this process, if one was. Raises CommandError for any other."""
    told = {name: os.environ.pop(name, "") for name in _NAMES}  # no worker is to take them for its own
    if told["LISTEN_PID"] != str(os.getpid()) or told["LISTEN_FDS"] in ("", "0"):
        return None
    if told["LISTEN_FDS"] != "1":
        raise CommandError(
            f"systemd passes {told['LISTEN_FDS']} sockets: the socket unit has to have one `ListenStream`"
        )
    try:
        passed = socket.socket(fileno=_FIRST)
    except OSError as failure:
        raise CommandError(f"LISTEN_FDS announces a socket, and there is none: {failure.strerror}") from None
    if passed.family not in (socket.AF_INET, socket.AF_INET6) or passed.type != socket.SOCK_STREAM:
        raise CommandError("the socket unit has to have a `ListenStream` with a port, as in `127.0.0.1:8080`")
    return passed

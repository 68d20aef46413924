"""Renders values that a client has sent, for records and the log."""

import re

_MAX_SHOWN_CHARS = 200
# What the service makes of 256 random bits: a client secret that was sent in the wrong place is not recorded.
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


def shown(text: str) -> str:
    """A value that a client sent: printable, and no longer than a line or two."""
    return "".join(each if each.isprintable() else "?" for each in text[:_MAX_SHOWN_CHARS])


def unknown_client_id(client_id: str) -> str:
    """Why a request is refused that names a client which the zone does not have."""
    if _SECRET.fullmatch(client_id):
        return "unknown client id, which looks like a client secret and is not shown"
    return f"unknown client id `{shown(client_id)}`"

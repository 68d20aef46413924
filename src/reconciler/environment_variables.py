"""The environment variables that zonectl reads."""

import os
from difflib import get_close_matches

PREFIX = "ZONECTL_"
NAMES = tuple(
    f"{PREFIX}{name}"
    for name in (
        "SERVER",
        "ORGANIZATION",
        "OWNER",
        "API_KEY",
        "CLIENT_ID",
        "CLIENT_SECRET",
        "CACHE_DIR",
        "STATE_DIR",
    )
)


def read(name: str) -> str | None:
    """The value of one of NAMES; None when it is not set, or empty."""
    return os.environ.get(f"{PREFIX}{name}", "").strip() or None


def misspelt() -> str:
    """For the end of a message that something is missing: the variable that was probably intended."""
    unknown = sorted(set(os.environ) - set(NAMES))
    meant = {name: get_close_matches(name, NAMES, n=1, cutoff=0.85) for name in unknown}
    hints = [f"`{name}` is set: is it meant to be `{known[0]}`?" for name, known in meant.items() if known]
    return f" ({' '.join(hints)})" if hints else ""

"""What the programs in Python share: settings come in as JSON, the user's browser is the test."""

import json
import sys
from collections.abc import Callable
from typing import Any

HOST = "app.example"
Begin = Callable[[], str]
Finish = Callable[[str], dict[str, Any]]


def settings() -> dict[str, Any]:
    """The settings of the library's row, with the zone's values in them."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def converse(begin: Begin, finish: Finish) -> None:
    """Tell where the user's browser has to go, hear where it came back to, and tell who has signed in.

    Args:
        finish: from the callback's whole address to `sub` or `email`, and `access_token` where the library
            shows it.
    """
    print(json.dumps({"url": begin()}), flush=True)
    print(json.dumps(finish(sys.stdin.readline().strip())), flush=True)

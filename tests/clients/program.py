"""What the programs in Python share: settings come in as JSON, the user's browser is the test."""

import json
import sys
from collections.abc import Callable
from typing import Any

HOST = "app.example"
Begin = Callable[[], str]
Step = Callable[[str], dict[str, Any]]


def settings() -> dict[str, Any]:
    """The settings of the library's row, with the zone's values in them."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def converse(begin: Begin, *steps: Step) -> None:
    """Tell where the user's browser has to go, and after each line that is heard what the next step comes to.

    Args:
        steps: the first is from the callback's whole address to `sub` or `email`, and `access_token` where
            the library shows it. Others follow where a test asks for more.
    """
    print(json.dumps({"url": begin()}), flush=True)
    for step, line in zip(steps, sys.stdin, strict=False):
        print(json.dumps(step(line.strip())), flush=True)

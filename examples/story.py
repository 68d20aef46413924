"""How the demo tells its story: chapters, lines, tokens in part; and the check that stops it."""

import re
from typing import Any

from acme import Unexpected, claims
from rich.console import Console

_COUNTED = re.compile(r"\d+ manifests?: ")

out = Console(highlight=False, soft_wrap=True, width=110)


def chapter(number: int, title: str) -> None:
    """Print a chapter's heading."""
    out.print(f"\n[bold]{number}. {title}[/bold]")


def say(text: str) -> None:
    """Print one line of the story."""
    out.print(f"   {text}", markup=False)


def show(lines: str) -> None:
    """Print the output of a program, set apart."""
    for line in lines.strip().splitlines():
        out.print(f"   | {line}".rstrip(), style="dim", markup=False)


def shortened(token: str) -> str:
    """The beginning and the end of a token: enough to tell two apart, and too little to use."""
    return f"{token[:12]}...{token[-6:]}"


def show_token(token: str, *names: str) -> dict[str, Any]:
    """Print a token with the claims of these names, and return all of its claims."""
    found = claims(token)
    say(f"token {shortened(token)}")
    for name in names:
        if name in found:
            value = actor_chain(found["act"]) if name == "act" else found[name]
            say(f"    {name:<10} {value}")
    say(f"    {'lifetime':<10} {found['exp'] - found['iat']} s")
    return found


def actor_chain(act: dict[str, Any]) -> str:
    """Who acts, the latest first: `calendar-tools, for calendar-agent`."""
    names, current = [], act
    while current:
        names.append(str(current["sub"]))
        current = current.get("act", {})
    return ", for ".join(names)


def require(condition: bool, failure: str) -> None:
    """Stop the story when the condition is false. Raises Unexpected."""
    if not condition:
        raise Unexpected(failure)


def summary_of(plan: str) -> str:
    """The end of a plan's output: how much it changes, its digest, and what is noted below."""
    lines = plan.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if _COUNTED.match(line)]
    return "\n".join(lines[starts[-1] :] if starts else lines[-2:])


def outcome_of(applied: str) -> str:
    """The end of an apply's output, after the plan."""
    lines = applied.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("applied")]
    return "\n".join(lines[starts[-1] :] if starts else lines[-3:])

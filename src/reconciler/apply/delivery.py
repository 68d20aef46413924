"""Hands over what the server shows once, as files that only this user can read."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from reconciler.plan import Plan


class DeliveryImpossible(Exception):
    """There is nowhere to put what will be shown once; nothing was sent."""


def check_delivery(plan: Plan, directory: Path | None) -> None:
    """Make sure, before anything is sent, that what is shown once can be kept.

    Raises:
        DeliveryImpossible: no directory was named, or it cannot be written to.
    """
    shown = [action.title for action in plan.actions if action.shown_once]
    if not shown:
        return
    if directory is None:
        raise DeliveryImpossible(
            f"{', '.join(shown)}: the server makes a secret and shows it once; "
            "say where to put it with `--secrets-dir DIRECTORY`"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix="."):
            pass
    except OSError as error:
        raise DeliveryImpossible(f"`{directory}` cannot be written to: {error.strerror}") from error


def deliver(plan: Plan, results: Sequence[Mapping[str, Any]], directory: Path) -> list[Path]:
    """Write one file for each operation that showed something: `<zone>.<name>.json`.

    The file holds the members shown once, and the identifier they belong to. An older file of that name is
    replaced.
    """
    zones = {(action.kind, action.name): action.zone for action in plan.actions if action.shown_once}
    written = []
    for result in results:
        shown = result.get("shown_once")
        if not shown:
            continue
        operation = plan.operations[int(result["index"])]
        name = str(operation.get("name") or result["id"])
        zone = zones.get((operation["kind"], name))
        content = {"identifier": operation.get("spec", {}).get("identifier"), **shown}
        file = directory / (".".join(quote(part, safe=" ") for part in (zone, name) if part) + ".json")
        write_secret_file(file, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        written.append(file)
    return written


def write_secret_file(file: Path, content: bytes) -> None:
    """Put a file in place in one step, mode 0600 from its first byte on. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".part")
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    Path(name).replace(file)

"""Findings as text and as JSON."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconciler.manifests import Configuration, Diagnostic
from reconciler.terminal import Line, Styled, printable


def diagnostic_lines(configuration: Configuration) -> Iterator[Line]:
    """For each finding `file:line:column: message`, the line, and a caret below what is meant.

    Files are named as seen from the current directory, so that a terminal or an editor can open them.
    """
    root = configuration.source.root
    for each in configuration.diagnostics:
        yield from _block(each, _seen_from_here(root / each.path))


def _seen_from_here(file: Path) -> str:
    path = os.path.relpath(file)
    return path if not path.startswith("..") else str(file)


def _block(diagnostic: Diagnostic, place: str) -> Iterator[Line]:
    if diagnostic.line:
        place += f":{diagnostic.line}:{diagnostic.column}"
    yield Styled(place, bold=True), ": ", Styled("error", "red"), f": {diagnostic.message}"
    if not diagnostic.excerpt:
        return
    number, begin = str(diagnostic.line), diagnostic.column - 1
    # Tabs stay as wide in the line of carets as in the line above it, and so does what is written out.
    before = "".join("\t" if each == "\t" else " " for each in printable(diagnostic.excerpt[:begin]))
    marked = printable(diagnostic.excerpt[begin : diagnostic.end_column - 1])
    carets = "^" * max(len(marked), diagnostic.end_column - diagnostic.column, 1)
    yield f"  {number} | {diagnostic.excerpt}"
    yield f"  {' ' * len(number)} | {before}", Styled(carets, "red")


def validation_json(configuration: Configuration) -> dict[str, Any]:
    """The result of a validation."""
    return {
        "format": "zonewright/validation/v1",
        "valid": not configuration.diagnostics,
        "files": configuration.files,
        "manifests": len(configuration.manifests),
        "diagnostics": [each.as_json() for each in configuration.diagnostics],
    }

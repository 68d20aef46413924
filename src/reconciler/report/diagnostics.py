"""Findings as text and as JSON."""

import os
from pathlib import Path
from typing import Any

import click

from reconciler.manifests import Configuration, Diagnostic


def diagnostics_text(configuration: Configuration) -> str:
    """One block for each finding: `file:line:column: message`, the line, and a caret below what is meant.

    Files are named as seen from the current directory, so that a terminal or an editor can open them.
    """
    root = configuration.source.root
    return "\n".join(_block(each, _seen_from_here(root / each.path)) for each in configuration.diagnostics)


def _seen_from_here(file: Path) -> str:
    path = os.path.relpath(file)
    return path if not path.startswith("..") else str(file)


def _block(diagnostic: Diagnostic, place: str) -> str:
    if diagnostic.line:
        place += f":{diagnostic.line}:{diagnostic.column}"
    head = (
        f"{click.style(place, bold=True)}: {click.style('error', fg='red')}: {printable(diagnostic.message)}"
    )
    if not diagnostic.excerpt:
        return head
    number = str(diagnostic.line)
    # Tabs stay as wide in the line of carets as in the line above it.
    before = "".join("\t" if each == "\t" else " " for each in diagnostic.excerpt[: diagnostic.column - 1])
    carets = "^" * max(diagnostic.end_column - diagnostic.column, 1)
    return (
        f"{head}\n  {number} | {printable(diagnostic.excerpt)}\n"
        f"  {' ' * len(number)} | {before}{click.style(carets, fg='red')}"
    )


def printable(text: str) -> str:
    """Text without what a terminal would act upon."""
    return "".join(each if each.isprintable() or each in "\t" else f"\\x{ord(each):02x}" for each in text)


def validation_json(configuration: Configuration) -> dict[str, Any]:
    """The result of a validation."""
    return {
        "format": "zonewright/validation/v1",
        "valid": not configuration.diagnostics,
        "files": configuration.files,
        "manifests": len(configuration.manifests),
        "diagnostics": [each.as_json() for each in configuration.diagnostics],
    }


def counted(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")

"""Prints everything that zonectl prints, with control characters and CI commands escaped.

File names, manifests and answers of a server may have any content. A terminal would interpret control
characters, and a CI system lines that look like its commands. So other modules pass lines of plain text, with
styles as separate values; escape sequences are written here only.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from types import TracebackType
from typing import NamedTuple

import click
import orjson


class Styled(NamedTuple):
    """A part of a line with a style."""

    text: str
    color: str | None = None
    bold: bool = False
    dim: bool = False


Line = str | Styled | Sequence[str | Styled]
"""One line. A line's end inside its text is escaped like any other control character."""

# CI systems interpret: GitHub `::name::` at the start of a line and `##[name]` anywhere, Azure Pipelines
# `##vso[name]`, TeamCity `##teamcity[name`.
_TOGETHER = 1_000  # lines that are written at once
_COLUMNS = 80  # of what is read later, in a log or a file
_COMMAND = re.compile(r"##(?:\[|vso\[|teamcity\[)", re.IGNORECASE)


def printable(text: str) -> str:
    """The text with control and invisible characters escaped: `\\x1b`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\t" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file's name that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def has_styles() -> bool:
    """Tell whether the user accepts styled text.

    Spec: no-color.org; a terminal of type `dumb` has no escape sequences.
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def rendered(line: Line) -> str:
    """A line as it is written, with its styles; never more than one line, never a command of a CI system."""
    parts = line_parts(line)
    texts = _defused([printable(part.text if isinstance(part, Styled) else part) for part in parts])
    if not has_styles():
        return "".join(texts)
    return "".join(
        _styled(text, part) if isinstance(part, Styled) else text
        for text, part in zip(texts, parts, strict=True)
    )


def _styled(text: str, style: Styled) -> str:
    if not (style.color or style.bold or style.dim):
        return text
    return click.style(text, fg=style.color, bold=style.bold or None, dim=style.dim or None)


def _defused(texts: list[str]) -> list[str]:
    whole = "".join(texts)
    if _COMMAND.search(whole):
        texts = [text.replace("#", "\\x23") for text in texts]
    if whole.lstrip().startswith("::"):
        first = next(number for number, text in enumerate(texts) if text.strip())
        texts[first] = texts[first].replace(":", "\\x3a", 1)
    return texts


def plain(line: Line) -> str:
    """A line's text without styles and escapes: for JSON, which has escapes of its own."""
    return "".join(part.text if isinstance(part, Styled) else part for part in line_parts(line))


def print_lines(*lines: Line, err: bool = False) -> None:
    """Print lines, on standard error with *err*."""
    for start in range(0, len(lines), _TOGETHER):
        click.echo("\n".join(map(rendered, lines[start : start + _TOGETHER])), err=err)


def print_error(*lines: Line) -> None:
    """Print an error on standard error; its first line starts with `error:`."""
    print_lines(*tagged(Styled("error", "red", bold=True), *lines), err=True)


def tagged(tag: Styled, first: Line, *rest: Line, between: str = ": ") -> Sequence[Line]:
    """The lines with a tag before the first."""
    return (tag, between, *line_parts(first)), *rest


def line_parts(line: Line) -> Sequence[str | Styled]:
    """The pieces of a line: itself, where it is one."""
    return [line] if isinstance(line, str | Styled) else line


def print_json(content: object, *, indent: bool = True) -> None:
    """Print a value as JSON that no terminal and no CI system interprets."""
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2 if indent else 0).decode()
    text = re.sub(r"[^\n -~]", _json_escape, text)
    click.echo(_COMMAND.sub(lambda found: "\\u0023" + found[0][1:], text))


def _json_escape(found: "re.Match[str]") -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))


def ask_yes_or_no(question: str) -> bool:
    """Confirm on standard error; no is the default. Raises click.Abort."""
    return click.confirm(rendered(question), default=False, err=True)


def prepare() -> None:
    """Prepare the streams of the process: any text can be printed, also that of an unexpected exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.excepthook = _print_exception


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    for block in traceback.format_exception(kind, error, trace):
        first, *rest = block.rstrip("\n").split("\n")
        print_lines(first, *(f"  {line}" for line in rest), err=True)


def read_input(at_most: int) -> bytes:
    """Standard input to its end, *at_most* so many bytes of it."""
    return sys.stdin.buffer.read(at_most)


def columns() -> int:
    """The width of the terminal that output goes to; 80 where there is none."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # no terminal, or no stream of the system
            if found := os.get_terminal_size(stream.fileno()).columns:
                return found
    return _COLUMNS


def is_interactive() -> bool:
    """Tell whether standard input is a terminal."""
    return sys.stdin.isatty()

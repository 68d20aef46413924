"""What is wrong, where, and what was probably meant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .yaml_reader import Span


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One finding.

    `line`, `column` and `end_column` count from 1 (0: the file as a whole). `excerpt` is the line as written
    with the values of secrets left out.
    """

    path: str
    line: int
    column: int
    end_column: int
    code: str
    message: str
    excerpt: str = ""

    def as_json(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return {
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "end_column": self.end_column,
            "code": self.code,
            "message": self.message,
        }


def diagnose(
    path: str, text: str, span: Span | None, code: str, message: str, hidden: Sequence[Span] = ()
) -> Diagnostic:
    """A finding with its excerpt. *hidden* are the places of literal secrets, which are never shown."""
    if span is None:
        return Diagnostic(path, 0, 0, 0, code, message)
    lines = text.splitlines()
    line = lines[span.line] if span.line < len(lines) else ""
    end = span.end_column if span.end_line == span.line else len(line)
    end = max(min(end, len(line.rstrip())), span.column + 1)
    excerpt = _without_secrets(line, span.line, hidden)
    return Diagnostic(path, span.line + 1, span.column + 1, end + 1, code, message, excerpt)


def _without_secrets(line: str, number: int, hidden: Sequence[Span]) -> str:
    for span in hidden:
        if span.line <= number <= span.end_line:
            begin = span.column if number == span.line else 0
            end = span.end_column if number == span.end_line else len(line)
            line = line[:begin] + "*" * max(end - begin, 0) + line[end:]
    return line


def suggest(word: object, known: Iterable[str]) -> str:
    """`; did you mean ...?` when one of the known words is close, else nothing."""
    names = [name for name in known if name != word]
    if not isinstance(word, str):
        return ""
    lowered = {name.lower(): name for name in names}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"; did you mean `{lowered[close[0]]}`?" if close else ""

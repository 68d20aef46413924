"""Diagnostics: message, source location, excerpt, and the suggestion "did you mean"."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from reconciler.output_documents import DiagnosticDocument

from .masking import mask_comment, mask_spans, mask_tokens, mask_unread
from .spans import Span, split_lines

MOST_EXCERPT = 120  # characters of a line in an excerpt
MOST_VALUE = 60  # and of a value within a message
MOST_MESSAGE = 1000


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """One problem in a file.

    `line`, `column` and `end_column` count from 1 (0: the file as a whole). `excerpt` is the line as written,
    or a part of it, without secrets; `mark` is the part that the problem is about, from its first character
    to behind its last. `zone`: the zone of the manifest, where a finding depends on what else is in it.
    """

    path: str
    line: int
    column: int
    end_column: int
    code: str
    message: str
    excerpt: str = ""
    mark: tuple[int, int] = (0, 0)
    zone: str | None = field(default=None, compare=False)

    def as_json(self) -> DiagnosticDocument:
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
    path: str,
    text: str,
    span: Span | None,
    code: str,
    message: str,
    hidden: Sequence[Span] | None = None,
    *,
    comments: int = 0,
) -> Diagnostic:
    """A finding with its excerpt.

    Args:
        hidden: the spans of secrets, which are never shown; None: the text could not be parsed, and
            everything that may be a secret is hidden.
        comments: the column from which on the line has no values.
    """
    message = _cut(mask_tokens(message), MOST_MESSAGE)
    if span is None:
        return Diagnostic(path, 0, 0, 0, code, message)
    lines = split_lines(text)
    line = lines[span.line] if span.line < len(lines) else ""
    end = span.end_column if span.end_line == span.line else len(line)
    end = max(min(end, len(line.rstrip())), span.column + 1)
    if hidden is None:
        shown = mask_unread(lines, span.line) if line else ""
    else:
        shown = mask_comment(mask_spans(line, span.line, hidden), comments)
    excerpt, mark = _window(mask_tokens(shown).rstrip(), span.column, end)
    return Diagnostic(path, span.line + 1, span.column + 1, end + 1, code, message, excerpt, mark)


def _window(line: str, begin: int, end: int) -> tuple[str, tuple[int, int]]:
    """The part of a line around the mark, and where the mark is in it."""
    first = (
        max(min(begin - MOST_EXCERPT // 3, len(line) - MOST_EXCERPT), 0) if len(line) > MOST_EXCERPT else 0
    )
    last = min(first + MOST_EXCERPT, max(len(line), begin))
    lead = "..." if first else ""
    shown = lead + line[first:last] + ("..." if last < len(line) else "")
    shift = len(lead) - first
    return shown, (begin + shift, max(min(end, last), begin + 1) + shift)


def bounded(text: str) -> str:
    """A value for a message: cut when it is long, and with secret values masked."""
    return _cut(mask_comment(text, 0), MOST_VALUE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def suggest(word: object, known: Iterable[str]) -> str:
    """`; did you mean ...?` when one of the known words is similar, otherwise empty."""
    found = closest(word, known)
    return f"; did you mean `{bounded(found)}`?" if found else ""


def closest(word: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar known word."""
    if not isinstance(word, str) or len(word) > 2 * MOST_VALUE:
        return None
    lowered = {name.lower(): name for name in known if name != word}
    close = get_close_matches(word.lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None

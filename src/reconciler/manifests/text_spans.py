"""Source spans within a text member, which is a file of its own or a scalar in a YAML document."""

from bisect import bisect_right
from collections.abc import Callable

from reconciler.kinds import Manifest

from .diagnostics import Diagnostic, diagnose
from .document_diagnostics import RedactedDocument
from .spans import Span, line_starts


def diagnose_in_text(
    manifest: Manifest,
    member: str,
    stretch: tuple[int, int],
    code: str,
    message: str,
    shown: Callable[[Manifest], tuple[str, RedactedDocument]],
) -> Diagnostic:
    """A finding at a stretch of a text, in the text's own file or in the manifest.

    Args:
        shown: returns the text of a manifest's file, and the spans of its document that may be shown.
    """
    text = manifest.spec[member]
    if member in manifest.files:
        return diagnose(manifest.files[member], text, span_of(text, *stretch), code, message, ())
    source, document = shown(manifest)
    path = ("spec", member)
    place = document.places.get(path)
    inside = span_inside(source, place.value, text, *stretch) if place is not None else None
    return document.diagnose(manifest.origin.path, source, path, code, message, inside=inside)


def span_of(text: str, begin: int, end: int) -> Span:
    """The lines and columns of a stretch of a text."""
    return Span(*_place(text, begin), *_place(text, end))


def _place(text: str, offset: int) -> tuple[int, int]:
    starts = line_starts(text)
    line = bisect_right(starts, offset) - 1
    return line, offset - starts[line]


def span_inside(source: str, value: Span, text: str, begin: int, end: int) -> Span | None:
    """The source span of a stretch of a scalar's text in its YAML file; None when it is ambiguous.

    The stretch is searched for literally, and identified when it occurs as often in the source as in the
    text. Folding and escapes may have changed it; its parts are not searched for.

    Args:
        source: the YAML file.
        value: the scalar's source span.
    """
    starts = (*line_starts(source), len(source))  # a block may end on the line behind the last
    first, last = starts[value.line] + value.column, starts[value.end_line] + value.end_column
    wanted, written = text[begin:end], source[first:last]
    if not wanted or written.count(wanted) != text.count(wanted):
        return None
    at = source.index(wanted, first)
    for _ in range(text.count(wanted, 0, begin)):
        at = source.index(wanted, at + len(wanted))
    return span_of(source, at, at + len(wanted))

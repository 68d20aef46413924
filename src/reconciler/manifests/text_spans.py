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
    """A finding at a stretch of a text, which has a file of its own or stands in the manifest.

    Args:
        shown: gives the file of a manifest, and what of its document may be shown.
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
    """Where a stretch of a scalar's text stands in the YAML around it; None when that cannot be told.

    The stretch is looked for as it is written; when it stands there as often as in the text, the one that is
    meant is known. Folding and escapes may have changed it: then its parts are not searched for.

    Args:
        source: the YAML file.
        value: where the scalar stands.
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

"""Renders diagnostics of manifests as text and as JSON."""

from collections.abc import Iterable, Iterator
from unicodedata import combining, east_asian_width

from reconciler import terminal
from reconciler.manifests import Configuration, Diagnostic
from reconciler.manifests.inactive_policies import CODE as INACTIVE_POLICY
from reconciler.manifests.source_files import seen_from_here
from reconciler.output_documents import VALIDATION, ValidationDocument
from reconciler.plan import Plan
from reconciler.terminal import Line, Styled, printable

from .expiries import Expiry
from .places import Places, as_recorded, places_from_here

ERROR = Styled("error", "red")
_CUT = "..."  # in place of a part of a line
_TAB = 8


def diagnostic_lines(configuration: Configuration) -> Iterator[Line]:
    """For each finding `file:line:column: message`, the line, and a caret below the problem.

    Files are named as seen from the current directory, so that a terminal or an editor can open them.
    """
    root, place = configuration.source.root, places_from_here(configuration)
    for each in configuration.diagnostics:
        yield from diagnostic_block(each, seen_from_here(root / each.path), place=place)


def warning_lines(configuration: Configuration, plan: Plan | None = None) -> Iterator[Line]:
    """The same for each warning.

    Args:
        plan: the plan that is shown as well. It says which policies decide nothing, and knows the policy sets
            outside the configuration, which `validate` does not: where it sees the active one, it decides.
    """
    root, place = configuration.source.root, places_from_here(configuration)
    level = Styled("warning", "yellow")
    for each in configuration.warnings:
        if plan is None or not _is_in_plan(each, plan):
            yield from diagnostic_block(each, seen_from_here(root / each.path), place=place, level=level)


def _is_in_plan(warning: Diagnostic, plan: Plan) -> bool:
    """Tell whether a plan answers what a warning says; the note that there are more is of no zone."""
    unseen = plan.unseen_policy_sets
    if warning.code != INACTIVE_POLICY:
        return False
    return warning.zone not in unseen if warning.zone is not None else not unseen


def diagnostic_block(
    diagnostic: Diagnostic,
    file: str | None = None,
    *,
    place: Places = as_recorded,
    level: Styled = ERROR,
    columns: int | None = None,
) -> Iterator[Line]:
    """One finding: its place, the message, the line, and a caret.

    Args:
        file: what its file is called.
        place: how the places in its message are shown, and its file, where *file* does not say.
        columns: how wide the excerpt may be; by default as the terminal, where a longer line would wrap, and
            the caret below it point at nothing.
    """
    named = diagnostic.path if file is None else file
    where = f"{named}:{diagnostic.line}:{diagnostic.column}" if diagnostic.line else named
    yield (
        Styled(where if file is not None else place(where), bold=True),
        ": ",
        level,
        f": {place(diagnostic.message)}",
    )
    if not diagnostic.excerpt:
        return
    number = str(diagnostic.line)
    room = (terminal.columns() if columns is None else columns) - len(f"  {number} | ")
    excerpt, (begin, end) = _fitted(diagnostic.excerpt, diagnostic.mark, room)
    # Tabs are as wide in the line of carets as in the line above it, and so are escaped characters.
    before = "".join("\t" if each == "\t" else " " * _width(each) for each in printable(excerpt[:begin]))
    marked = sum(_width(each) for each in printable(excerpt[begin:end]))
    carets = "^" * max(marked, end - begin if begin >= len(excerpt) else 1)
    yield f"  {number} | {excerpt}"
    yield f"  {' ' * len(number)} | {before}", Styled(carets, "red")


def _fitted(excerpt: str, mark: tuple[int, int], room: int) -> tuple[str, tuple[int, int]]:
    """The part of an excerpt around its mark that takes no more columns than the room, and that mark."""
    widths = [_shown_width(each) for each in excerpt]
    if sum(widths) <= room:
        return excerpt, mark
    begin, end = min(mark[0], len(excerpt)), mark[1]
    room = max(room - 2 * len(_CUT), 1)
    first = last = begin
    before = 0
    while first > 0 and before + widths[first - 1] <= room // 3:
        first -= 1
        before += widths[first]
    used = before
    while last < len(excerpt) and used + widths[last] <= room:
        used += widths[last]
        last += 1
    while first > 0 and used + widths[first - 1] <= room:  # what the end of the line leaves free
        first -= 1
        used += widths[first]
    lead, tail = _CUT if first else "", _CUT if last < len(excerpt) else ""
    shift = len(lead) - first
    marked = mark[0] + shift, max(min(end, max(last, begin + 1)), mark[0] + 1) + shift
    return f"{lead}{excerpt[first:last]}{tail}", marked


def _shown_width(character: str) -> int:
    """Columns of a character as it is printed; of a tab the most that it may take."""
    return _TAB if character == "\t" else sum(map(_width, printable(character)))


def _width(character: str) -> int:
    """Columns of a terminal."""
    return 2 if east_asian_width(character) in "WF" else 0 if combining(character) else 1


def validation_json(configuration: Configuration, expiring: Iterable[Expiry] = ()) -> ValidationDocument:
    """The result of a validation."""
    document: ValidationDocument = {
        "format": VALIDATION,
        "valid": not configuration.diagnostics,
        "files": configuration.files,
        "manifests": len(configuration.manifests),
        "diagnostics": [each.as_json() for each in configuration.diagnostics],
    }
    if configuration.warnings:
        document["warnings"] = [each.as_json() for each in configuration.warnings]
    if ending := [each.as_json() for each in expiring]:
        document["expiring"] = ending
    return document

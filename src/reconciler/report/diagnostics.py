"""Renders diagnostics of manifests as text and as JSON."""

from collections.abc import Iterable, Iterator
from unicodedata import combining, east_asian_width

from reconciler.manifests import Configuration, Diagnostic
from reconciler.manifests.inactive_policies import CODE as INACTIVE_POLICY
from reconciler.manifests.source_files import seen_from_here
from reconciler.output_documents import VALIDATION, ValidationDocument
from reconciler.terminal import Line, Styled, printable

from .expiries import Expiry
from .places import Places, as_recorded

ERROR = Styled("error", "red")


def diagnostic_lines(configuration: Configuration) -> Iterator[Line]:
    """For each finding `file:line:column: message`, the line, and a caret below the problem.

    Files are named as seen from the current directory, so that a terminal or an editor can open them.
    """
    root = configuration.source.root
    for each in configuration.diagnostics:
        yield from diagnostic_block(each, seen_from_here(root / each.path))


def warning_lines(configuration: Configuration, *, planned: bool = False) -> Iterator[Line]:
    """The same for each warning.

    Args:
        planned: a plan is shown as well. It says which of the policies that it writes decide nothing, and
            knows the policy sets outside the configuration, which `validate` does not.
    """
    root, level = configuration.source.root, Styled("warning", "yellow")
    for each in configuration.warnings:
        if planned and each.code == INACTIVE_POLICY:
            continue
        yield from diagnostic_block(each, seen_from_here(root / each.path), level=level)


def diagnostic_block(
    diagnostic: Diagnostic,
    file: str | None = None,
    *,
    place: Places = as_recorded,
    level: Styled = ERROR,
) -> Iterator[Line]:
    """One finding: its place, the message, the line, and a caret.

    Args:
        file: what its file is called.
        place: how its file is shown, where *file* does not say.
    """
    named = diagnostic.path if file is None else file
    where = f"{named}:{diagnostic.line}:{diagnostic.column}" if diagnostic.line else named
    yield (
        Styled(where if file is not None else place(where), bold=True),
        ": ",
        level,
        f": {diagnostic.message}",
    )
    if not diagnostic.excerpt:
        return
    number, (begin, end) = str(diagnostic.line), diagnostic.mark
    # Tabs are as wide in the line of carets as in the line above it, and so are escaped characters.
    before = "".join(
        "\t" if each == "\t" else " " * _width(each) for each in printable(diagnostic.excerpt[:begin])
    )
    marked = sum(_width(each) for each in printable(diagnostic.excerpt[begin:end]))
    carets = "^" * max(marked, end - begin if begin >= len(diagnostic.excerpt) else 1)
    yield f"  {number} | {diagnostic.excerpt}"
    yield f"  {' ' * len(number)} | {before}", Styled(carets, "red")


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

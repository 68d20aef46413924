"""Renders references that name nothing on the server, each with its place in a manifest."""

from collections.abc import Sequence

from reconciler.manifests import Configuration, Diagnostic
from reconciler.manifests.member_locator import MemberLocator
from reconciler.manifests.source_files import seen_from_here
from reconciler.output_documents import ProblemDocument
from reconciler.plan import UnresolvedReference
from reconciler.plan.model import title_of
from reconciler.terminal import Line

from .diagnostics import diagnostic_block
from .value_diff import counted

MOST_SHOWN = 1000  # of a configuration, as of the problems that `validate` finds
_CODE = "unknown-reference"


def unresolved_report(
    found: Sequence[UnresolvedReference], configuration: Configuration
) -> tuple[Sequence[Line], Sequence[ProblemDocument]]:
    """The references as text, each with its line in the manifest, and as JSON objects.

    In text, files are named as seen from the current directory; in JSON relative to the configuration's root.
    """
    root, locator = configuration.source.root, MemberLocator(configuration)
    lines: list[Line] = ["the manifests name objects that the server does not have"]
    documents: list[ProblemDocument] = []
    shown = sorted(found, key=lambda one: (one.manifest.origin, one.place))[:MOST_SHOWN]
    placed = [(each, _place_of(each, locator)) for each in shown]
    for each, place in sorted(placed, key=_by_place):
        documents.append(_problem(each, place))
        if place is None:  # in the text of a policy, or in a file that was changed meanwhile
            lines.append(seen_from_here(root / str(each)))
        else:
            lines.extend(diagnostic_block(place, seen_from_here(root / place.path)))
    more = len(found) - len(documents)
    lines.append(counted(len(found), "problem") + (f", of which {more:,} are not shown" if more else ""))
    return lines, documents


def _by_place(placed: tuple[UnresolvedReference, Diagnostic | None]) -> tuple[str, int, int]:
    each, place = placed
    return (place.path, place.line, place.column) if place is not None else (*each.manifest.origin, 0)


def _place_of(each: UnresolvedReference, locator: MemberLocator) -> Diagnostic | None:
    if not each.path:
        return None
    return locator.find_at(each.manifest, each.path, code=_CODE, message=each.message)


def _problem(each: UnresolvedReference, place: Diagnostic | None) -> ProblemDocument:
    key = each.manifest.key
    document: ProblemDocument = {
        "code": _CODE,
        "message": place.message if place is not None else str(each),
        "object": title_of(key.kind, key.zone, key.name),
    }
    if place is not None:
        document["path"], document["line"], document["column"] = place.path, place.line, place.column
    if each.path:
        document["field"] = ".".join(map(str, each.path))
    return document

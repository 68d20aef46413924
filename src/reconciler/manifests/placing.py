"""Where in a file something is wrong, and what of it must not be shown."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kinds import Kind

from .diagnostics import Diagnostic, diagnose
from .explaining import SECRET_NAME, Finding
from .yaml_reader import Document, Path, Place, Span


def report_document(
    path: str, text: str, document: Document, findings: Iterable[Finding], kind: Kind | None
) -> list[Diagnostic]:
    """Findings with the places that the document (read with places) gives them."""
    hidden = secret_spans(document, kind)
    return [
        diagnose(
            path,
            text,
            find_span(document.places, each.path, on_key=each.on_key),
            each.code,
            each.message,
            hidden,
        )
        for each in findings
    ]


def find_span(places: Mapping[Path, Place], path: Path, *, on_key: bool) -> Span:
    """Where a path stands; the nearest parent when it does not stand anywhere itself."""
    while path and path not in places:
        path, on_key = path[:-1], True
    place = places.get(path)
    if place is None:
        return Span(0, 0, 0, 1)
    if place.key is not None and (on_key or place.value.end_line != place.value.line):
        return place.key
    if place.value.end_line != place.value.line:  # point at where it begins, not at all of it
        return Span(place.value.line, place.value.column, place.value.line, place.value.column + 1)
    return place.value


def secret_spans(document: Document, kind: Kind | None) -> list[Span]:
    """Where literal values stand that are, or by their name may be, secrets."""
    known = {("spec", *path) for path in kind.secrets} if kind else set()
    spans = []
    for path, place in document.places.items():
        name = path[-1] if path else None
        named = isinstance(name, str) and SECRET_NAME.search(name)
        if (path in known or named) and is_literal(value_at(document.value, path)):
            spans.append(place.value)
    return spans


def is_literal(value: Any) -> bool:
    """Tell whether a value stands there itself, and not where it comes from."""
    return value is not None and not isinstance(value, dict | bool)


def value_at(value: Any, path: Path) -> Any:
    """What stands at a path; None where nothing does."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value

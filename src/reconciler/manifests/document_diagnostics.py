"""Diagnostics of one YAML document: source spans of its members, and redaction of its secrets."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.kinds import Kind

from .diagnostics import Diagnostic, closest, diagnose
from .masking import SECRET_NAME, assigns_secret
from .schema_messages import SchemaFinding
from .spans import MemberPath, MemberSpans, Span
from .yaml_reader import YamlDocument

MOST_FINDINGS = 100  # of one document
_SOURCES = ("from_env", "from_file", "keep", "version")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_PLAIN = re.compile(r"[\w./ -]{0,255}")  # names, paths and versions


def document_diagnostics(
    path: str, text: str, document: YamlDocument, findings: Iterable[SchemaFinding], kind: Kind | None
) -> list[Diagnostic]:
    """Findings with their source spans, from the document (which was read with places)."""
    shown, found = RedactedDocument(document, kind), list(findings)
    diagnostics = [
        shown.diagnose(path, text, each.path, each.code, each.message, on_key=each.on_key)
        for each in found[:MOST_FINDINGS]
    ]
    if len(found) > MOST_FINDINGS:
        diagnostics.append(more_problems(path, len(found) - MOST_FINDINGS))
    return diagnostics


def more_problems(path: str, count: int) -> Diagnostic:
    """The note that there are more findings than are listed."""
    return diagnose(path, "", None, "more", f"{count:,} more problems are not shown; correct these first")


def more_warnings(path: str, code: str, count: int) -> Diagnostic:
    """The note that there are more warnings with a code than are listed. It has the same code."""
    return diagnose(
        path, "", None, code, f"{count:,} more warnings like these are not shown; correct these first"
    )


def find_span(places: Mapping[MemberPath, MemberSpans], path: MemberPath, *, on_key: bool) -> Span:
    """The source span of a path; the nearest parent's when it has none."""
    while path and path not in places:
        path, on_key = path[:-1], True
    place = places.get(path)
    if place is None:
        return Span(0, 0, 0, 1)
    if place.key is not None and (on_key or place.value.end_line != place.value.line):
        return place.key
    if place.value.end_line != place.value.line:  # point at its start, not at all of it
        return Span(place.value.line, place.value.column, place.value.line, place.value.column + 1)
    return place.value


class RedactedDocument:
    """A document whose excerpts are shown without secrets, in values and in comments.

    Attributes:
        hidden: spans of secrets and of members with a secret's name, except sources of secrets; and of
            aliases of these.
    """

    def __init__(self, document: YamlDocument, kind: Kind | None) -> None:
        self.places = document.places
        self.hidden: list[Span] = []
        self._ends: dict[int, int] = {}
        known = {("spec", *path) for path in kind.secrets} if kind else set()
        secrets = set()
        values = {path: value_at(document.value, path) for path in document.places}
        for path, place in document.places.items():
            for span in filter(None, place):
                self._ends[span.end_line] = max(self._ends.get(span.end_line, 0), span.end_column)
            at = next((n for n in range(1, len(path) + 1) if path[:n] in known or _speaks(path[n - 1])), None)
            name, value = path[-1] if path else None, values[path]
            if at is None:
                if isinstance(value, str) and assigns_secret(value):
                    self.hidden.append(place.value)
                continue
            if at == len(path):
                self.hidden.extend(_behind_colon(place, name))
            elif place.key is not None and not _is_source(name):
                self.hidden.append(place.key)
            if is_literal(value) and not (at < len(path) and _is_reference(name, value)):
                self.hidden.append(place.value)
                secrets.add(repr(value))
        if secrets:
            self.hidden.extend(
                place.value
                for path, place in document.places.items()
                if is_literal(values[path]) and repr(values[path]) in secrets
            )

    def comments_begin(self) -> Mapping[int, int]:
        """Number of a line -> the column from which on it has no values of this document."""
        return self._ends

    def diagnose(
        self,
        path: str,
        text: str,
        at: MemberPath,
        code: str,
        message: str,
        *,
        on_key: bool = False,
        inside: Span | None = None,
    ) -> Diagnostic:
        """A finding at a path of the document, or at a place inside its value."""
        span = inside or find_span(self.places, at, on_key=on_key)
        comments = self._ends.get(span.line, 0)
        return diagnose(path, text, span, code, message, self.hidden, comments=comments)


def _speaks(name: str | int) -> bool:
    return isinstance(name, str) and SECRET_NAME.search(name) is not None


def _behind_colon(place: MemberSpans, name: str | int | None) -> Iterator[Span]:
    """Of a key such as `client_secret:value`, the value."""
    if place.key is not None and isinstance(name, str) and ":" in name:
        line, column, end_line, end_column = place.key
        yield Span(line, column + name.index(":") + 1, end_line, end_column)


def _is_source(name: str | int | None) -> bool:
    return closest(name, _SOURCES, cutoff=0.75) is not None or name in _SOURCES


def _is_reference(name: str | int | None, value: object) -> bool:
    """Tell whether something is the source of a secret, and cannot be the secret itself by mistake."""
    plain = _NAME if name == "from_env" else _PLAIN
    return _is_source(name) and isinstance(value, str) and plain.fullmatch(value) is not None


def is_literal(value: object) -> bool:
    """Tell whether a secret is written as a value, rather than as a source."""
    return value is not None and not isinstance(value, dict | bool)


def value_at(value: object, path: MemberPath) -> Any:
    """The value at a path; None where there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value

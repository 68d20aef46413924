"""Reads a YAML settings file: one mapping, each member with its source location."""

from collections.abc import Mapping, Sequence
from typing import Any

from .diagnostics import bounded, suggest
from .document_diagnostics import find_span
from .encoding import InvalidEncoding, decode
from .schema_messages import wrong_type
from .spans import Span
from .yaml_reader import InvalidYaml, read_documents


class InvalidMapping(ValueError):
    """The file is not one mapping of known members. `place` is `:line:column`; empty: the whole file."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.place = _shown(span)


def read_yaml_mapping(
    content: bytes, known: Sequence[str], elsewhere: Mapping[str, str] | None = None
) -> dict[str, tuple[Any, str]]:
    """The members of the mapping -> value, and place as in `InvalidMapping`; empty when there is no document.

    *elsewhere*: members that belong into another file -> which one.

    Raises:
        InvalidMapping: it is not YAML, not one mapping, or has a member that is not *known*.
    """
    try:
        documents = read_documents(decode(content), places=True)
    except (InvalidEncoding, InvalidYaml) as problem:
        raise InvalidMapping(problem.message, problem.span) from problem
    if not documents:
        return {}
    wanted = f"a mapping of {', '.join(f'`{name}`' for name in known)}"
    if len(documents) > 1:
        second = Span(documents[1].line - 1, 0, documents[1].line - 1, 1)
        raise InvalidMapping("a second document begins here; the file holds one mapping", second)
    (document,) = documents
    if not isinstance(document.value, dict):
        span = find_span(document.places, (), on_key=False)
        raise InvalidMapping(wrong_type("the file", wanted, document.value), span)
    found = {}
    for name, value in document.value.items():
        if name not in known:
            hint = suggest(name, known) or f"; the file takes {wanted}"
            if elsewhere and name in elsewhere:
                hint = f"; it belongs in {elsewhere[name]}"
            raise InvalidMapping(
                f"unknown member `{bounded(name)}`{hint}", find_span(document.places, (name,), on_key=True)
            )
        found[name] = value, _shown(find_span(document.places, (name,), on_key=False))
    return found


def _shown(span: Span | None) -> str:
    return f":{span.line + 1}:{span.column + 1}" if span else ""

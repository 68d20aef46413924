"""Reads YAML 1.2 (core schema) over the C parser's events; no tags, no merge keys, no surprises.

The builder keeps its own stack, so deep nesting cannot exhaust the interpreter's, and it counts what aliases
expand to, so a few lines cannot become gigabytes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from .diagnostics import bounded
from .masking import SECRET_NAME
from .spans import MemberPath, MemberSpans, Span, split_lines
from .syntax_messages import explain_syntax

MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_INTEGER = 2**53 - 1  # what JSON readers agree on

_PLAIN = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NUMBER_STARTS = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_STRING_TAGS = (None, "!", "tag:yaml.org,2002:str")


def is_plain_string(text: str) -> bool:
    """Tell whether a plain scalar is a string, rather than a number, boolean or null."""
    return text not in _PLAIN and not any(
        number.fullmatch(text) for number in (_INTEGER, _OCTAL, _HEXADECIMAL, _FLOAT, _NOT_JSON)
    )


class InvalidYaml(Exception):
    """The text cannot be parsed; `span` is where."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message, self.span = message, span


@dataclass(slots=True)
class YamlDocument:
    """One YAML document: the line it starts on (from 1), its value, on request the spans of members."""

    line: int
    value: Any
    places: dict[MemberPath, MemberSpans] = field(default_factory=dict)


class _Frame:
    """A container being filled."""

    __slots__ = ("anchor", "container", "is_map", "key", "key_span", "path", "size", "start")

    def __init__(
        self, container: Any, is_map: bool, path: MemberPath, start: Any, anchor: str | None
    ) -> None:
        self.container, self.is_map, self.path, self.start, self.anchor = (
            container,
            is_map,
            path,
            start,
            anchor,
        )
        self.key: str | None = None
        self.key_span: Span | None = None
        self.size = 1


def read_documents(text: str, *, places: bool = False) -> list[YamlDocument]:
    """Every document of a file, empty ones left out.

    Args:
        text: the file's content.
        places: also record the source span of every member (slower; for diagnostics).

    Raises:
        InvalidYaml: the text is not YAML, or uses what manifests may not.
    """
    return [document for document in _Builder(text, places).run() if document.value is not None]


class _Builder:
    def __init__(self, text: str, places: bool) -> None:
        self.text = text
        self.keep_places = places
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0
        self.stack: list[_Frame] = []
        self.document = YamlDocument(1, None)
        self.quoted: Span | None = None

    def run(self) -> Iterator[YamlDocument]:
        try:
            next_event: Callable[[], Any] = CParser(self.text).get_event
            while (event := next_event()) is not None:
                kind = type(event)
                if kind is ScalarEvent:
                    self.scalar(event)
                elif kind is MappingStartEvent:
                    self.open(event, {}, True)
                elif kind is SequenceStartEvent:
                    self.open(event, [], False)
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    self.close(event)
                elif kind is AliasEvent:
                    self.alias(event)
                elif kind is DocumentStartEvent:
                    self.anchors, self.nodes = {}, 0
                    self.document = YamlDocument(event.start_mark.line + 1, None)
                elif kind is DocumentEndEvent:
                    yield self.document
        except MarkedYAMLError as error:
            flow = next((each.start for each in reversed(self.stack) if self.is_flow(each)), None)
            raise InvalidYaml(*explain_syntax(error, split_lines(self.text), self.quoted, flow)) from error
        except YAMLError as error:
            raise InvalidYaml(*self._unreadable(error)) from error

    def is_flow(self, frame: _Frame) -> bool:
        """Tell whether a container is written in brackets or braces."""
        line = split_lines(self.text)[frame.start.line]
        return line[frame.start.column : frame.start.column + 1] in ("[", "{")

    def _unreadable(self, error: YAMLError) -> tuple[str, Span]:
        """A character that YAML does not admit, looked for again: the parser's position counts bytes."""
        for number, line in enumerate(split_lines(self.text)):
            for column, character in enumerate(line):
                if character != "\t" and not character.isprintable() and ord(character) < 0xA0:
                    return (
                        (
                            f"the control character U+{ord(character):04X} is not allowed; remove it, "
                            f'or write it as an escape in double quotes: "\\u{ord(character):04x}"'
                        ),
                        Span(number, column, number, column + 1),
                    )
        return str(getattr(error, "reason", "this is not YAML")), Span(0, 0, 0, 1)

    def name(self, text: str) -> str:
        """A member's name for a message; none where it may be a secret."""
        secret = any(SECRET_NAME.search(each.key or "") for each in self.stack)
        return "" if secret else f" `{bounded(text)}`"

    def refuse_tag(self, event: Any, taken: tuple[str | None, ...] = _STRING_TAGS) -> None:
        if event.tag not in taken:
            raise InvalidYaml(
                f"the tag{self.name(event.tag.replace('tag:yaml.org,2002:', '!!'))} is not allowed; "
                "put a value that begins with `!` in quotes",
                _span(event),
            )

    def scalar(self, event: Any) -> None:
        if event.style in ("'", '"'):
            self.quoted = _span(event)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.is_map and frame.key is None:
            self.key(frame, event)
            return
        value = event.value
        self.refuse_tag(event)
        if event.tag is None and event.implicit[0]:
            value = self.plain(value, event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)
        self.put(value, 1, event)

    def plain(self, text: str, event: Any) -> Any:
        """The value of an unquoted scalar. Spec: YAML 1.2.2 section 10.3.2."""
        if text in _PLAIN:
            return _PLAIN[text]
        if text[0] not in _NUMBER_STARTS:
            return text
        number: int | float
        if _INTEGER.fullmatch(text):
            number = int(text) if len(text) < 20 else MAX_INTEGER + 1
        elif _OCTAL.fullmatch(text):
            number = int(text[2:], 8)
        elif _HEXADECIMAL.fullmatch(text):
            number = int(text[2:], 16)
        elif _FLOAT.fullmatch(text):
            number = float(text)
        elif _NOT_JSON.fullmatch(text):
            raise InvalidYaml(
                "this is not a number that JSON can hold; put it in quotes to make it a string", _span(event)
            )
        else:
            return text
        if abs(number) > MAX_INTEGER:
            raise InvalidYaml("this number is too large; put it in quotes to make it a string", _span(event))
        return number

    def key(self, frame: _Frame, event: Any) -> None:
        name = event.value
        self.refuse_tag(event)
        if event.anchor is not None:
            raise InvalidYaml(
                "an anchor (`&`) cannot stand before a key; put it before the value", _span(event)
            )
        if name == "<<" and event.implicit[0]:
            raise InvalidYaml("merge keys (`<<`) are not allowed; write the members out", _span(event))
        if name in frame.container:
            raise InvalidYaml(
                f"the key{self.name(name)} appears twice in one mapping; remove one of them, "
                "or separate documents by a line `---`",
                _span(event),
            )
        frame.key = name
        frame.key_span = _span(event) if self.keep_places else None

    def open(self, event: Any, container: Any, is_map: bool) -> None:
        self.refuse_tag(event, (None, "!"))
        if len(self.stack) >= MAX_DEPTH:
            raise InvalidYaml(f"this is nested deeper than {MAX_DEPTH} levels", _span(event))
        path: MemberPath = ()
        if self.stack:
            frame = self.stack[-1]
            if frame.is_map and frame.key is None:
                raise InvalidYaml(self.no_key(event), _span(event))
            if self.keep_places:
                path = (*frame.path, frame.key if frame.is_map else len(frame.container))  # type: ignore[arg-type]
        else:
            self.document.line = event.start_mark.line + 1
        self.stack.append(_Frame(container, is_map, path, event.start_mark, event.anchor))

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.container, frame.size)
        self.put(frame.container, frame.size, event, frame.start)

    def no_key(self, event: Any) -> str:
        """The message about a list, a mapping or an alias as a key."""
        line, column = event.start_mark.line, event.start_mark.column
        if split_lines(self.text)[line][:column].endswith("{"):
            return (
                "manifests are plain YAML, and templates are not filled in; "
                "put a value that begins with a brace in quotes"
            )
        return "a key must be a string"

    def alias(self, event: Any) -> None:
        if self.stack and self.stack[-1].is_map and self.stack[-1].key is None:
            raise InvalidYaml(self.no_key(event), _span(event))
        if event.anchor not in self.anchors:
            raise InvalidYaml(
                f"there is no anchor{self.name('&' + event.anchor)} before this alias in the document; "
                "put a value that begins with `*` in quotes",
                _span(event),
            )
        value, size = self.anchors[event.anchor]
        self.put(value, size, event)

    def put(self, value: Any, size: int, event: Any, start: Any = None) -> None:
        """Add a finished value to its container. *size* counts what aliases expand to."""
        if not self.stack:
            self.document.value = value
            if self.keep_places:
                self.document.places[()] = MemberSpans(None, _span(event, start))
            return
        frame = self.stack[-1]
        frame.size += size
        if frame.size > MAX_NODES:
            raise InvalidYaml(
                f"the document has more than {MAX_NODES:,} values, aliases expanded; split it",
                _span(event, start),
            )
        if frame.is_map:
            assert frame.key is not None  # noqa: S101 - the parser pairs keys with values
            if self.keep_places:
                self.document.places[(*frame.path, frame.key)] = MemberSpans(
                    frame.key_span, _span(event, start)
                )
            frame.container[frame.key] = value
            frame.key = None
        else:
            if self.keep_places:
                self.document.places[(*frame.path, len(frame.container))] = MemberSpans(
                    None, _span(event, start)
                )
            frame.container.append(value)


def _span(event: Any, start: Any = None) -> Span:
    begin, end = start or event.start_mark, event.end_mark
    return Span(begin.line, begin.column, end.line, end.column)

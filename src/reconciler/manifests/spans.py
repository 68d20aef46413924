"""Source spans: lines and columns, from 0 here and from 1 in messages."""

import re
from functools import lru_cache
from typing import NamedTuple

# What the parser counts as the end of a line. Spec: YAML 1.1 section 4.1.4; `str.splitlines` takes more.
_LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")

MemberPath = tuple[str | int, ...]


class Span(NamedTuple):
    """A stretch of text; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class MemberSpans(NamedTuple):
    """The source spans of a member: its key (None for list items and the root) and its value."""

    key: Span | None
    value: Span


@lru_cache(maxsize=2)
def line_starts(text: str) -> tuple[int, ...]:
    """The offsets at which the lines of a text begin, as the parser counts them."""
    return (0, *(found.end() for found in _LINE_END.finditer(text)))


@lru_cache(maxsize=2)
def split_lines(text: str) -> tuple[str, ...]:
    """The lines of a text, as the parser counts them, without their ends."""
    return tuple(_LINE_END.split(text))

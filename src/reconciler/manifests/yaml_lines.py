"""The lines of a YAML text: those with values, those inside a scalar, and where comments start."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.events import ScalarEvent

_COMMENT = re.compile(r"(?:^|(?<=\s))#")
_DASHES = re.compile(r"(?:- +)+(?=\S)")


@dataclass(frozen=True)
class YamlLines:
    """The lines of one document.

    Attributes:
        texts: the lines without their ends.
        inside: numbers of the lines, from 0, that continue a scalar: their spaces are part of a value.
        comments: number of a line -> the column where its comment begins.
    """

    texts: tuple[str, ...]
    inside: frozenset[int]
    comments: dict[int, int]

    def is_comment(self, number: int) -> bool:
        """Tell whether a line has nothing but a comment."""
        return number in self.comments and not self.texts[number][: self.comments[number]].strip()

    def is_content(self, number: int) -> bool:
        """Tell whether a value, or a part of one, starts in a line."""
        return number not in self.inside and bool(self.texts[number].strip()) and not self.is_comment(number)

    def own_line_comments(self) -> list[int]:
        """The lines that are comments."""
        return [number for number in sorted(self.comments) if self.is_comment(number)]

    def trailing_comments(self) -> list[int]:
        """The lines in which a comment follows a value."""
        return [number for number in sorted(self.comments) if not self.is_comment(number)]

    def value_end(self, number: int) -> int:
        """The column behind the value that a comment follows."""
        return len(self.texts[number][: self.comments[number]].rstrip())

    def gap(self, number: int) -> int:
        """The number of spaces between a value and the comment that follows it."""
        return self.comments[number] - self.value_end(number)

    def comment_texts(self) -> list[str]:
        """All comments, sorted, without the spaces around them."""
        return sorted(self.texts[number][column:].rstrip() for number, column in self.comments.items())

    def indent(self, number: int) -> int:
        """The column of the first character of a line."""
        return len(self.texts[number]) - len(self.texts[number].lstrip())

    def content_before(self, number: int) -> int | None:
        """The nearest line above with a value."""
        return next((each for each in range(number - 1, -1, -1) if self.is_content(each)), None)

    def content_after(self, number: int) -> int | None:
        """The nearest line below with a value."""
        return next((each for each in range(number + 1, len(self.texts)) if self.is_content(each)), None)

    def open_indents(self, number: int) -> list[int]:
        """The columns of the collections that are open in a line, outermost first."""
        found: list[int] = []
        for each in filter(self.is_content, range(number + 1)):
            columns = [self.indent(each)]
            if dashes := _DASHES.match(self.texts[each], columns[0]):
                columns += [at + 2 for at in range(columns[0], dashes.end() - 2, 2)]
            while found and found[-1] >= columns[0]:
                found.pop()
            found += columns
        return found


def split_yaml_lines(text: str) -> YamlLines:
    """The lines of a YAML text whose lines end with `\\n`. Raises yaml.YAMLError."""
    texts = text.split("\n")
    masked, inside = list(texts), set[int]()
    next_event: Callable[[], Any] = CParser(text).get_event
    while (event := next_event()) is not None:
        kind = type(event)
        if kind is not ScalarEvent:
            continue
        begin, end = event.start_mark, event.end_mark
        inside.update(range(begin.line + 1, end.line + bool(end.column)))
        # A comment may follow `|` in its line, and none is in the lines below it.
        is_block = event.style in ("|", ">")
        for number in range(begin.line + is_block, min(end.line + 1, len(texts))):
            first = begin.column if number == begin.line else 0
            behind = end.column if number == end.line else len(texts[number])
            line = masked[number]
            masked[number] = line[:first] + "x" * (behind - first) + line[behind:]
    comments = {
        number: found.start() for number, line in enumerate(masked) if (found := _COMMENT.search(line))
    }
    return YamlLines(tuple(texts), frozenset(inside), comments)

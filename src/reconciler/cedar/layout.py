"""Compares Cedar texts regardless of layout: the file's and the server's."""

import re
from collections.abc import Iterator

from .rules import piece_of
from .tokens import tokens_of

# A comment is kept with the line end that closes it: without one, the rule below it would be part of it.
_LAYOUT = re.compile(r'("(?:[^"\\]|\\.)*")|(//[^\n\r]*)|\s+|,(?=\s*[)\]}])')
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(//[^\n\r]*)')


def without_layout(text: str) -> str:
    """A normal form: texts that differ in white space and in commas before a bracket have the same one."""
    return _LAYOUT.sub(lambda match: match[1] or (f"{match[2].rstrip()}\n" if match[2] else ""), text)


def is_laid_out(written: str, found: str) -> bool:
    """Tell whether a text equals a written one, apart from the server's layout.

    The server leaves out comments in lists and moves those before a bracket, and never adds any.
    """
    if without_layout(written) == without_layout(found):
        return True
    if piece_of(tokens_of(written)) != piece_of(tokens_of(found)):
        return False
    there = _comments(written)
    return all(comment in there for comment in _comments(found))


def _comments(text: str) -> Iterator[str]:
    """The comments of a text, in order; each membership test continues behind the comment that it found."""
    return (match[1].rstrip() for match in _COMMENT.finditer(text) if match[1])

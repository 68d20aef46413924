"""Tokenizes Cedar text, each token with its offset."""

import re
from typing import NamedTuple

_TOKEN = re.compile(
    # A comment ends where the engine's ends, at either line end, or rules could hide in it.
    r"""(?P<space>[^\S\x1c-\x1f]+|//[^\n\r]*)
    |(?P<string>"(?:[^"\\]++|\\.)*+")
    |(?P<unclosed>"(?:[^"\\]++|\\.)*+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+)
    |(?P<slot>\?[a-z]+)
    |(?P<sign>&&|\|\||==|!=|<=|>=|::|[.+*<>!,;:@(){}\[\]-])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-7][0-9A-Fa-f])|u\{([0-9A-Fa-f_]{1,12})\}|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "0": "\0", "'": "'", '"': '"'}


class PolicyToken(NamedTuple):
    """A token; `end` is an empty one after the last."""

    kind: str
    text: str
    offset: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + len(self.text)


def tokens_of(text: str) -> list[PolicyToken]:
    """The tokens without comments and space, and an empty one of kind `end`."""
    found = [
        PolicyToken(match.lastgroup or "", match[0], match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]
    return [*found, PolicyToken("end", "", found[-1].end if found else len(text))]


def stretch_at(text: str, line: int, column: int) -> tuple[int, int]:
    """The offsets of what starts at a place, a whole name or one token. Line and column count from 1."""
    begin = 0
    for _ in range(line - 1):
        begin = text.find("\n", begin) + 1
    begin += column - 1
    tokens = [each for each in tokens_of(text) if each.offset >= begin]
    end = tokens[0].end if tokens else begin
    for separator, part in zip(tokens[1::2], tokens[2::2], strict=False):
        if separator.text != "::":
            break
        end = part.end
    return begin, max(end, begin + 1)


def unescape(literal: str, *, pattern: bool = False) -> str | None:
    r"""The value of a string literal; None when it has an invalid escape.

    Args:
        pattern: it follows `like`, where `\*` is an asterisk.
    """
    if "\\" not in literal:
        return literal[1:-1]
    wrong = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal wrong
        if match[1]:
            return chr(int(match[1], 16))
        if match[2]:
            digits = match[2].replace("_", "")
            number = int(digits, 16) if digits and len(digits) <= 6 else -1
            if 0 <= number < 0xD800 or 0xDFFF < number <= 0x10FFFF:
                return chr(number)
        elif match[3] in _ESCAPES or (pattern and match[3] == "*"):
            return _ESCAPES.get(match[3], match[3])
        wrong = True
        return ""

    value = _ESCAPE.sub(replaced, literal[1:-1])
    return None if wrong else value

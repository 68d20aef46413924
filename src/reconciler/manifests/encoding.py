"""Decodes UTF-8, and names the encoding that a file has instead."""

import codecs

from .spans import Span, split_lines

_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class InvalidEncoding(Exception):
    """The content is not UTF-8.

    Attributes:
        text: the part of it that can be shown.
        span: the first bad byte in *text*; None for all of it.
    """

    def __init__(self, message: str, text: str = "", span: Span | None = None) -> None:
        super().__init__(message)
        self.message, self.text, self.span = message, text, span


def decode(content: bytes) -> str:
    """The text of a file; a byte order mark at its beginning is no part of it. Raises InvalidEncoding."""
    for mark, name in _MARKS:
        if content.startswith(mark):
            raise InvalidEncoding(f"the file is {name}; save it as UTF-8")
    if name := _unmarked(content):
        raise InvalidEncoding(f"the file looks like {name}; save it as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        text = content.decode("utf-8", "replace")
        before = split_lines(content[: error.start].decode("utf-8"))
        line, column = len(before) - 1, len(before[-1])
        raise InvalidEncoding(
            f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8",
            text,
            Span(line, column, line, column + 1),
        ) from None


def _unmarked(content: bytes) -> str:
    """UTF-16 and UTF-32 without a mark: ASCII characters with NULs between them."""
    opening = content[:8]
    if len(opening) < 4 or opening.count(0) * 2 < len(opening) - 1:
        return ""
    return "UTF-32" if opening.count(0) * 4 >= len(opening) * 3 - 2 else "UTF-16"

"""Masks secrets in excerpts: a secret written into git is not repeated in a log."""

import re
from collections.abc import Sequence
from functools import lru_cache

from .spans import Span

# `s[ecrt]..`: a secret is one also when its name is misspelt.
_WORDS = r"secret|s[ecrt]{3,6}(?![A-Za-z])|passw|passphrase|pwd|(?:private|api|access|signing|shared)[_-]?key"
SECRET_NAME = re.compile(rf"{_WORDS}|(?:credentials?|token)$", re.IGNORECASE)
# A name that speaks of a secret, and what follows it, in a text that is not understood as YAML.
_ASSIGNED = re.compile(rf"(?:{_WORDS}|credential|token)[\w.-]*[\"']?\s*[:=](?P<value>.*)", re.IGNORECASE)
_MEMBER = re.compile(r"\s*(?:- +)*[\"']?[A-Za-z_$][\w.$-]*[\"']?\s*:(?:\s|$)")
_BOUNDARY = re.compile(r"(?:---|\.\.\.)(?:\s|$)")
# Keys of this and other services, signed tokens, PEM; and what only a machine writes: long, with letters of
# both cases and digits.
_TOKEN = re.compile(
    r"\b(?:zwk_|gh[oprsu]_|github_pat_|xox[a-z]-|[sp]k_(?:live|test)_|glpat-|AKIA|eyJ)[\w.=+-]{12,}"
    r"|-----BEGIN[ A-Z]*-----.*"
    r"|(?<![\w+=-])(?=[\w+=-]*[0-9])(?=[\w+=-]*[A-Z])(?=[\w+=-]*[a-z])[\w+=-]{24,}"
)


@lru_cache(maxsize=16)  # a long line can have a thousand findings
def mask_tokens(text: str) -> str:
    """The text with what looks like a credential by itself written out as asterisks."""
    return _TOKEN.sub(lambda found: "*" * len(found[0]), text)


def mask_spans(line: str, number: int, hidden: Sequence[Span]) -> str:
    """A line without the stretches that are known to be secret."""
    for span in hidden:
        if span.line <= number <= span.end_line:
            begin = span.column if number == span.line else 0
            end = span.end_column if number == span.end_line else len(line)
            line = _masked(line, begin, end)
    return line


def assigns_secret(text: str) -> bool:
    """Tell whether a text gives a value to a name that speaks of a secret."""
    return _ASSIGNED.search(text) is not None


def mask_comment(line: str, begin: int) -> str:
    """A line without what a comment, from a column on, assigns to a name that speaks of a secret."""
    found = _ASSIGNED.search(line, begin)
    return _masked(line, found.start("value"), len(line)) if found else line


def mask_unread(lines: Sequence[str], number: int) -> str:
    """A line of a text that is not YAML, so that nobody knows which value belongs to which name.

    Hidden is all that may belong to a name that speaks of a secret: the rest of its line, and the lines after
    it up to the next member that is not deeper.
    """
    depth: int | None = None
    for each in range(number + 1):
        line = lines[each]
        indent = len(line) - len(line.lstrip())
        if depth is not None and (_BOUNDARY.match(line) or (indent <= depth and _MEMBER.match(line))):
            depth = None
        if each == number:
            break
        if depth is None and _ASSIGNED.search(line):
            depth = indent
    line = lines[number]
    if depth is not None:
        return _masked(line, len(line) - len(line.lstrip()), len(line))
    return mask_comment(line, 0)


def _masked(line: str, begin: int, end: int) -> str:
    hidden = "".join("*" if not each.isspace() else each for each in line[begin:end])
    return line[:begin] + hidden + line[end:]

"""The canonical form of manifests: what `zonectl fmt` writes.

A text is formatted document by document. A result is never returned whose values or comments differ from the
original's, or that would change when it is formatted again.
"""

import re
from collections import Counter
from collections.abc import Iterator

import orjson
from ruamel.yaml.error import YAMLError as LayoutError
from yaml.error import YAMLError

from reconciler.kinds import Kinds

from .member_order import order_members
from .yaml_layout import CommentLost, lay_out
from .yaml_lines import split_yaml_lines
from .yaml_reader import InvalidYaml, read_documents

_BOUNDARY = re.compile(r"(?:---|\.\.\.)(?=\s|$)")
_LINE_END = re.compile(r"\r\n?")
_LF = "\n"
MAX_PASSES = 4


class FormattingImpossible(Exception):
    """A text has no canonical form with the same meaning; it stays as it is."""


def format_manifests(text: str, kinds: Kinds) -> str:
    """A file of valid manifests in canonical form.

    Raises:
        FormattingImpossible: the result would have another meaning, or lack a comment.
    """
    found = _LINE_END.sub("\n", text)
    for _ in range(MAX_PASSES):
        before, found = found, _formatted(found, kinds)
        if found == before:
            _require_same(text, found)
            return found
    raise FormattingImpossible("its formatted text changes with every pass; report this as a bug")


def _formatted(text: str, kinds: Kinds) -> str:
    documents: list[str] = []
    for number, part in enumerate(_split_documents(text)):
        formatted = _formatted_document(part, kinds)
        if formatted or number:
            documents.append(formatted)
    return "---\n".join(documents)


def _split_documents(text: str) -> Iterator[str]:
    """The texts between the lines `---`, of which `...` is another spelling."""
    lines: list[str] = []
    closed = False
    for line in text.split("\n"):
        if line.startswith("%"):
            raise FormattingImpossible("it has a directive (`%`); remove that line")
        boundary = _BOUNDARY.match(line)
        if boundary is None:
            lines.append(line)
            continue
        if not closed or any(each.strip() for each in lines):
            yield "".join(f"{each}\n" for each in lines)
        closed = boundary[0] == "..."
        lines = [line[boundary.end() :].lstrip()]
    if not closed or any(line.strip() for line in lines):
        yield "\n".join(lines)


def _formatted_document(text: str, kinds: Kinds) -> str:
    """One document, with a line end; empty when there is nothing in it."""
    head, body = _split_head(text)
    if body:
        try:
            body = order_members(lay_out(body), kinds.by_name[_kind_of(body)])
        except (LayoutError, YAMLError, InvalidYaml) as error:
            raise FormattingImpossible(
                "a part of it cannot be read with its comments, such as a tab between values; write spaces"
            ) from error
        except CommentLost as error:
            raise FormattingImpossible(
                "a comment cannot be kept where it is, as within `{...}` or `[...]` over several lines;"
                " put it above the member"
            ) from error
    return _without_empty_lines_at_its_ends(f"{head}{body}")


def _without_empty_lines_at_its_ends(text: str) -> str:
    """The text with one line end; those of a `|+` scalar at its end stay, which are a part of the value."""
    text = text.lstrip("\n")
    stripped = f"{text.rstrip(_LF)}\n" if text else ""
    return stripped if _values(stripped) == _values(text) else text


def _split_head(text: str) -> tuple[str, str]:
    """The comments and empty lines above the first value, and the rest."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if not _is_remark(line)), len(lines))
    head = "".join(f"{line.strip()}\n" for line in lines[:first])
    return head, "\n".join(lines[first:])


def _is_remark(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _kind_of(text: str) -> str:
    (document,) = read_documents(text)
    name: str = document.value["kind"]
    return name


def _require_same(before: str, after: str) -> None:
    """Raise FormattingImpossible unless both texts have the same values and the same comments."""
    if _values(before) != _values(after):
        raise FormattingImpossible("formatting would change its meaning")
    if _comments(_LINE_END.sub("\n", before)) != _comments(after):
        raise FormattingImpossible("a comment would be lost")


def _values(text: str) -> list[bytes]:
    """The documents in a form in which 1, 1.0 and true differ, and the order of members does not count."""
    return [orjson.dumps(each.value, option=orjson.OPT_SORT_KEYS) for each in read_documents(text)]


def _comments(text: str) -> Counter[str]:
    return Counter(each for part in _split_documents(text) for each in split_yaml_lines(part).comment_texts())

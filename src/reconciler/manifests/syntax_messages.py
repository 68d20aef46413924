"""Turns YAML syntax errors into messages: what is wrong, where to correct it, and how.

The parser reports where it stopped, which is often not where the mistake is, so the lines around it are
examined. No message quotes a value: any of them may be a secret.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from yaml.error import MarkedYAMLError

from .spans import Span

_MERGE = re.compile(r"<{7} |>{7} |\|{7} ")
_TEMPLATE = re.compile(r"\{\{|\{%")
_KEY = r"[A-Za-z_$][\w.$-]*"
_NO_SPACE = re.compile(rf"\s*(?:- +)*({_KEY}):(?=[^\s/])")
_MEMBER = re.compile(rf"\s*(?:- +)*[\"']?{_KEY}[\"']?\s*:(?:\s|$)")
_DASH = re.compile(r"\s*-(?=[^\s-])")
_CLOSING = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class SyntaxFailure:
    """A syntax error as the parser reports it.

    Attributes:
        lines: those of the text, without their ends.
        at: line and column where it stopped, from 0.
        opened: line and column of the construct that it was parsing.
        quoted: the last text in quotes before that.
        flow: line and column of the innermost `[` or `{` that is open.
    """

    lines: Sequence[str]
    problem: str
    context: str
    at: tuple[int, int]
    opened: tuple[int, int] | None
    quoted: Span | None
    flow: tuple[int, int] | None

    @property
    def line(self) -> str:
        """The line where the parser stopped; empty at the end of the text."""
        return self.line_at(self.at[0])

    @property
    def at_end(self) -> bool:
        """Tell whether it stopped at the end of the text."""
        return not any(each.strip() for each in self.lines[self.at[0] :])

    def line_at(self, number: int) -> str:
        """A line; empty beyond the last one."""
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def character(self, place: tuple[int, int]) -> str:
        """The text from a place to the end of its line; empty beyond the end."""
        line, column = place
        return self.line_at(line)[column : column + 1]

    def before(self, number: int) -> int | None:
        """The last line before one with more than spaces and comments."""
        for each in range(min(number, len(self.lines)) - 1, -1, -1):
            if (found := self.lines[each].strip()) and not found.startswith("#"):
                return each
        return None


def explain_syntax(
    error: MarkedYAMLError, lines: Sequence[str], quoted: Span | None, flow: Any
) -> tuple[str, Span]:
    """A message, and where it points. *flow*: the mark of the innermost `[` or `{` that is open."""
    failure = SyntaxFailure(
        lines,
        error.problem or "",
        error.context or "",
        _place(error.problem_mark or error.context_mark) or (0, 0),
        _place(error.context_mark),
        quoted,
        _place(flow),
    )
    for rule in _RULES:
        for found in rule(failure):
            return found
    return f"this is not YAML: {failure.problem or 'it cannot be read'}", _point(failure.at)


def _place(mark: Any) -> tuple[int, int] | None:
    return None if mark is None else (mark.line, mark.column)


def _point(place: tuple[int, int], length: int = 1) -> Span:
    return Span(place[0], place[1], place[0], place[1] + length)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


Found = Iterator[tuple[str, Span]]


def _merge_conflict(it: SyntaxFailure) -> Found:
    for number, line in enumerate(it.lines):
        if _MERGE.match(line):
            yield (
                "a merge conflict is not resolved; keep one side, and remove the lines that mark both",
                _point((number, 0), 7),
            )


def _template(it: SyntaxFailure) -> Found:
    if found := _TEMPLATE.search(it.line):
        yield (
            (
                "manifests are plain YAML, and templates are not filled in; "
                "put a value that begins with a brace in quotes"
            ),
            _point((it.at[0], found.start()), 2),
        )


def _byte_order_mark(it: SyntaxFailure) -> Found:
    for number, line in enumerate(it.lines):
        if (column := line.find("\ufeff")) >= 0:
            yield (
                "a byte order mark (U+FEFF) is not allowed within the file; remove it",
                _point((number, column)),
            )


def _open_quote(it: SyntaxFailure) -> Found:
    if "quoted scalar" in it.context and it.opened is not None and "unexpected" in it.problem:
        quote = it.character(it.opened)
        end = "this document" if "indicator" in it.problem else "the file"
        yield (
            (
                f"the quote that opens here is not closed before the end of {end}; "
                f"write `{quote}` where the value ends"
            ),
            _point(it.opened),
        )


def _quote_closed_late(it: SyntaxFailure) -> Found:
    if it.quoted is None or it.quoted[2:] > it.at or it.quoted.end_line != it.at[0]:
        return
    between = it.line[it.quoted.end_column : it.at[1]]
    opening = (it.quoted.line, it.quoted.column)
    quote = it.character(opening)
    if it.quoted.line != it.quoted.end_line and not between.strip():
        yield (
            (
                f"the quote that opens here is closed only in line {it.quoted.end_line + 1}, "
                f"by the next one; write `{quote}` where the value ends"
            ),
            _point(opening),
        )
    elif "block mapping" in it.context or (not between and it.character(it.at).isalnum()):
        doubled = "''" if quote == "'" else '\\"'
        if not between.strip():
            yield (
                (
                    "text follows a closing quote; "
                    f"for a quote within the value write `{doubled}`, or use quotes of the other sort"
                ),
                _point(it.at),
            )


def _tab(it: SyntaxFailure) -> Found:
    for number in (it.at[0], it.opened[0] if it.opened else it.at[0]):
        line = it.line_at(number)
        if "\t" in line[: _indent(line)]:
            yield "tabs do not indent in YAML; use spaces", _point((number, line.index("\t")))
    if "tab character" in it.problem or it.character(it.at) == "\t":
        yield "a tab is not allowed here in YAML; use spaces", _point(it.at)


def _first_character(it: SyntaxFailure) -> Found:
    if "cannot start any token" in it.problem:
        found = it.character(it.at)
        what = "a backquote" if found == "`" else f"`{found}`"
        yield f"a value cannot begin with {what}; put the value in quotes", _point(it.at)


def _missing_space(it: SyntaxFailure) -> Found:
    """`kind:Zone`, and `-item`: reported where the space is missing, which may be a line above."""
    if not any(word in it.problem for word in ("expected ':'", "mapping values", "expected key", "',' or")):
        return
    lines = (it.opened[0] if it.opened else it.at[0], it.before(it.at[0]), it.at[0])
    for number in lines:
        line = it.line_at(number if number is not None else -1)
        if found := _NO_SPACE.match(line):
            yield (
                "a space is missing after this `:`; a member is written `key: value`",
                _point((number or 0, found.end() - 1)),
            )
        elif "expected ':'" in it.problem and (dash := _DASH.match(line)):
            yield "a space is missing after the `-` of a list item", _point((number or 0, dash.end() - 1))


def _odd_space(it: SyntaxFailure) -> Found:
    for number in (it.opened[0] if it.opened else it.at[0], it.at[0]):
        for column, character in enumerate(it.line_at(number)):
            if character.isspace() and character not in " \t":
                yield (
                    f"U+{ord(character):04X} is not a space in YAML; replace it with an ASCII space",
                    _point((number, column)),
                )


def _missing_colon(it: SyntaxFailure) -> Found:
    if "expected ':'" not in it.problem or it.opened is None:
        return
    number = it.opened[0]
    line = it.line_at(number)
    above = it.before(number)
    word = Span(number, _indent(line), number, max(len(line.rstrip()), _indent(line) + 1))
    if line.strip("-\r ") == "" and line.strip():
        yield "documents are separated by three dashes: `---`", word
    if above is not None and re.search(r":\s*[|>][-+0-9]*\s*$", it.line_at(above)):
        yield (
            f"the text of a block must be indented deeper than its key in line {above + 1}",
            word,
        )
    hint = ", with `:` instead of `=`" if "=" in line and ":" not in line else ""
    yield f"a `:` is missing in this line: a member is written `key: value`{hint}", word


def _second_colon(it: SyntaxFailure) -> Found:
    if "mapping values are not allowed" not in it.problem:
        return
    number, column = it.at
    if _MEMBER.match(it.line[:column]):
        yield "a `: ` within a value: put the value in quotes", _point(it.at)
    above = it.before(number)
    if above is not None and ":" not in it.line_at(above):
        line = it.line_at(above)
        yield (
            "a `:` is missing in this line: a member is written `key: value`",
            Span(above, _indent(line), above, max(len(line.rstrip()), _indent(line) + 1)),
        )
    if above is not None and _indent(it.line) > _indent(it.line_at(above)):
        yield (
            (
                f"this line is indented deeper than line {above + 1}, which has a value already; "
                "begin members of one mapping in the same column"
            ),
            _point((number, _indent(it.line))),
        )
    yield "a `:` is not expected here; put a value that holds `: ` in quotes", _point(it.at)


def _separator(it: SyntaxFailure) -> Found:
    if it.line.strip() == "---" and it.line[:1].isspace():
        yield (
            "`---` separates documents only at the beginning of a line; remove the spaces before it",
            _point((it.at[0], _indent(it.line)), 3),
        )


def _indentation(it: SyntaxFailure) -> Found:
    if "expected key" not in it.problem or it.opened is None or it.line[: it.at[1]].strip():
        return
    number, column = it.opened
    if it.at[1] == column and it.line.lstrip().startswith("-"):
        yield (
            f"a list item is not allowed in the mapping that begins in line {number + 1}; put it below a key",
            _point(it.at),
        )
    above = it.before(it.at[0])
    beside = f"the members from line {number + 1} on begin in column {column + 1}"
    if above is not None and _indent(it.line_at(above)) > it.at[1]:
        beside += f", and line {above + 1} in column {_indent(it.line_at(above)) + 1}"
    message = f"this line begins in column {it.at[1] + 1}; {beside}: indent it like the lines around it"
    yield message, _point(it.at)


def _list_indentation(it: SyntaxFailure) -> Found:
    if "expected '-'" in it.problem and it.opened is not None:
        number, column = it.opened
        message = (
            f"this line begins in column {it.at[1] + 1}; the list items from line {number + 1} on begin "
            f"in column {column + 1}: begin it there, with `- `"
        )
        yield message, _point(it.at)


def _open_bracket(it: SyntaxFailure) -> Found:
    if it.flow is None or ("',' or" not in it.problem and not it.at_end):
        return
    opening = it.character(it.flow)
    closing = _CLOSING.get(opening, "")
    found = it.character(it.at)
    rest = it.line_at(it.flow[0])[it.flow[1] + 1 :] + "".join(it.lines[it.flow[0] + 1 :])
    if it.at_end or rest.count(closing) <= rest.count(opening):
        yield (
            f"the `{opening}` that opens here is never closed; write `{closing}` where it ends",
            _point(it.flow),
        )
    if found in ("]", "}") and found != closing:
        yield (
            (
                f"`{found}` cannot close the `{opening}` of line {it.flow[0] + 1}, column {it.flow[1] + 1}; "
                f"write `{closing}` first"
            ),
            _point(it.at),
        )
    above = it.before(it.at[0])
    for number in (it.at[0], above if above is not None else it.at[0]):
        if (column := it.line_at(number).find(" //")) >= 0:
            yield "a comment begins with `#`, not with `//`", _point((number, column + 1), 2)
    yield (
        f"expected `,` or `{closing}` before this; separate what stands in `{opening}{closing}` by commas",
        (_point(it.at)),
    )


def _no_value(it: SyntaxFailure) -> Found:
    if "expected node content" not in it.problem:
        return
    found = it.character(it.at)
    if found == ",":
        yield "a value is missing before this `,`", _point(it.at)
    if found in ("]", "}"):
        yield f"nothing opened this `{found}`; put a value that begins with it in quotes", _point(it.at)
    yield "a value is missing here", _point(it.at)


def _list_beside_key(it: SyntaxFailure) -> Found:
    if "block sequence entries are not allowed" in it.problem:
        yield (
            "a list begins on the line after its key; put a value that begins with `- ` in quotes",
            _point(it.at),
        )
    if "mapping keys are not allowed" in it.problem:
        yield "a value cannot begin with `? `; put it in quotes", _point(it.at)


def _block_text(it: SyntaxFailure) -> Found:
    if "block scalar" in it.context:
        yield "the text of a block begins on the line after `|` or `>`", _point(it.at)


def _anchor(it: SyntaxFailure) -> Found:
    if "anchor" in it.context or "alias" in it.context:
        yield (
            "`&` begins an anchor of YAML, and `*` an alias; put a value that begins so in quotes",
            _point(it.opened or it.at),
        )


def _tag(it: SyntaxFailure) -> Found:
    if "tag" in it.problem or "tag" in it.context:
        yield (
            "tags (`!name`) are not allowed; put a value that begins with `!` in quotes",
            _point(it.opened or it.at),
        )


def _escape(it: SyntaxFailure) -> Found:
    if "escape character" in it.problem:
        yield (
            "this backslash does not begin a YAML escape; write two, or put the value in single quotes",
            _point(it.at),
        )
    if "hexdecimal" in it.problem:
        yield "this escape has too few digits: `\\x` takes 2, `\\u` takes 4, `\\U` takes 8", _point(it.at)
    if "Unicode character escape" in it.problem:
        yield "this escape is not a Unicode character", _point(it.at)


def _directive(it: SyntaxFailure) -> Found:
    if "directive" in it.context or "directive" in it.problem or "incompatible" in it.problem:
        yield (
            "a line that begins with `%` is a directive of YAML; manifests need none: remove it",
            _point(it.at),
        )


def _document_start(it: SyntaxFailure) -> Found:
    if "<document start>" not in it.problem:
        return
    above = it.before(it.at[0])
    before = it.line_at(above) if above is not None else ""
    if before.startswith("%"):
        yield (
            "a line that begins with `%` is a directive of YAML; manifests need none: remove it",
            _point((above or 0, 0)),
        )
    if before[:1].isspace() and above is not None:
        message = (
            f"this line begins in column {it.at[1] + 1}, and line {above + 1} in column "
            f"{_indent(before) + 1}; begin all members of a mapping in the same column"
        )
        yield message, _point(it.at)
    yield "another document begins here; separate documents by a line `---`", _point(it.at)


# The first rule with a message is used, so the most specific ones come first.
_RULES = (
    _merge_conflict,
    _byte_order_mark,
    _open_quote,
    _quote_closed_late,
    _tab,
    _template,
    _first_character,
    _missing_space,
    _odd_space,
    _block_text,
    _escape,
    _anchor,
    _tag,
    _directive,
    _separator,
    _document_start,
    _missing_colon,
    _second_colon,
    _list_beside_key,
    _open_bracket,
    _no_value,
    _indentation,
    _list_indentation,
)

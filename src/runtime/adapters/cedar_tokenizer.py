"""A tokenizer for Cedar policy text, for error positions and size limits."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

MAX_POLICY_BYTES = 65_536
MAX_STATEMENTS = 1_000
MAX_NESTING = 50
MAX_OPERATORS = 2_000  # in one statement; the engine nests them
MAX_CONDITIONALS = 100  # `if` in one statement
MAX_PATH = 32  # names in one dotted path
MAX_ELEMENTS = 5_000  # commas in the text; the engine takes long to lay out long lists
MAX_ESCAPES = 1_000  # of the rare sorts, in the text; the engine takes long over many wrong ones

_TOKEN = re.compile(
    # A comment ends where the engine's ends, at either line end, or rules could hide in it. A string that is
    # not closed is one token: trying again at each quote in it would take a minute.
    r"""(?P<space>\s+|//[^\n\r]*)
    |(?P<string>"(?:[^"\\]++|\\.)*+")
    |(?P<unclosed>"(?:[^"\\]++|\\.)*+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+)
    |(?P<slot>\?[a-z]+)
    |(?P<operator>&&|\|\||==|!=|<=|>=|::|[.+*<>!-])
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_STRING_ESCAPE = re.compile(r"\\(?:([^xu])|x([0-7][0-9A-Fa-f])|u\{([0-9A-Fa-f_]+)\})", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\", "'": "'", '"': '"'}
_COMMON_ESCAPES = frozenset("nrt0'\"\\*")
_NESTED = ("[", "when", "unless")  # an index goes one deeper each time, and so does a further condition
_QUOTED = re.compile(r"`([^`]+)`")
_PREFIX = re.compile(r"^for policy `policy\d+`, |^Policy parse error: ")
_UNFINISHED = "unexpected end of input"


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """Something wrong with a policy text; line and column count from 1 and point as near as can be told."""

    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class CedarToken:
    kind: str
    text: str
    offset: int


@dataclass(frozen=True)
class PolicyStatement:
    """One policy of a text, its annotations and closing semicolon included."""

    source: str
    tokens: tuple[CedarToken, ...]

    @cached_property
    def text(self) -> str:
        """The statement alone."""
        return self.source[self.tokens[0].offset : self.tokens[-1].offset + len(self.tokens[-1].text)]

    @property
    def start(self) -> tuple[int, int]:
        """Line and column of its first token."""
        return position(self.source, self.tokens[0].offset)

    @property
    def has_slot(self) -> bool:
        """It is a template, which decides nothing."""
        return any(token.kind == "slot" for token in self.tokens)

    @property
    def unknowns(self) -> list[tuple[int, int]]:
        """Line and column of calls of `unknown`, which is for partial evaluation and fails in any other."""
        return [
            position(self.source, name.offset)
            for before, name, after in zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False)
            if (name.kind, name.text, after.text) == ("name", "unknown", "(") and before.text != "@"
        ]


def tokenize(text: str) -> list[CedarToken]:
    """The tokens of a text without comments and space; anything strange comes as single characters."""
    return [
        CedarToken(str(match.lastgroup), match[0], match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """An entity that a text names, at its line and column, both from 1."""

    type: str
    id: str
    line: int
    column: int


def entities_named(text: str) -> list[NamedEntity]:
    """The entities that a text names, in its order. The text is one that the engine takes."""
    tokens = tokenize(text)
    found = []
    for index, token in enumerate(tokens):
        if token.kind != "string" or index < 2 or tokens[index - 1].text != "::":
            continue
        start = index - 2
        while start >= 2 and tokens[start - 1].text == "::":
            start -= 2
        type_ = "".join(each.text for each in tokens[start : index - 1])
        found.append(NamedEntity(type_, unescaped(token.text), *position(text, tokens[start].offset)))
    return found


def unescaped(literal: str) -> str:
    """What a string in quotes stands for. An escape that means nothing stands for nothing."""
    return _STRING_ESCAPE.sub(_replacement, literal[1:-1])


def _replacement(match: re.Match[str]) -> str:
    if match[1] is not None:
        return _ESCAPED.get(match[1], "")
    number = int((match[2] or match[3]).replace("_", "") or "0", 16)
    return chr(number) if number <= sys.maxunicode and not 0xD800 <= number <= 0xDFFF else ""


def split(text: str) -> list[PolicyStatement]:
    """The statements of a text; the last may be unfinished."""
    statements: list[PolicyStatement] = []
    current: list[CedarToken] = []
    for token in tokenize(text):
        current.append(token)
        if token.text == ";":
            statements.append(PolicyStatement(text, tuple(current)))
            current = []
    if current:
        statements.append(PolicyStatement(text, tuple(current)))
    return statements


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def measure(text: str) -> list[PolicyProblem]:
    """Why the text is more than the engine should be given; empty when it is not."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_POLICY_BYTES:
        return [PolicyProblem(f"a policy text has at most {MAX_POLICY_BYTES} bytes", 1, 1)]
    if sum(character not in _COMMON_ESCAPES for character in _ESCAPE.findall(text)) > MAX_ESCAPES:
        return [PolicyProblem(f"a policy text has at most {MAX_ESCAPES} escapes like `\\u` and `\\x`", 1, 1)]
    statements = split(text)
    if len(statements) > MAX_STATEMENTS:
        return [PolicyProblem(f"a policy text has at most {MAX_STATEMENTS} rules", 1, 1)]
    commas = [token for statement in statements for token in statement.tokens if token.text == ","]
    if len(commas) > MAX_ELEMENTS:
        place = position(text, commas[MAX_ELEMENTS].offset)
        return [PolicyProblem(f"a policy text has at most {MAX_ELEMENTS} commas", *place)]
    return [problem for statement in statements if (problem := _measure_statement(statement))]


def _measure_statement(statement: PolicyStatement) -> PolicyProblem | None:
    depth = operators = conditionals = path = 0
    previous = ""
    for token in statement.tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        operators += token.text in _NESTED or (token.kind == "operator" and token.text != "::")
        conditionals += token.text == "if"
        path = path + 1 if token.text == "." else path if previous == "." else 0
        previous = token.text
        for reached, limit, what in (
            (depth, MAX_NESTING, "levels of nested brackets"),
            (operators, MAX_OPERATORS, "operators in one rule"),
            (conditionals, MAX_CONDITIONALS, "`if` in one rule"),
            (path, MAX_PATH, "names in one path"),
        ):
            if reached > limit:
                return PolicyProblem(f"more than {limit} {what}", *position(statement.source, token.offset))
    return None


def locate(
    message: str,
    statements: Sequence[PolicyStatement],
    parse_error: Callable[[str], str | None] | None = None,
) -> PolicyProblem:
    """A problem at the place that the engine's message is about.

    Args:
        statements: where to look.
        parse_error: what the engine says about a text, None when it accepts it: given for messages from
            parsing, it finds the statement, then the token, by asking about ever smaller parts.
    """
    told = without_number(message)
    if parse_error is not None:
        for statement in statements:
            if (error := parse_error(statement.text)) is not None:
                offset = _first_bad(statement, error, parse_error)
                return PolicyProblem(error, *position(statement.source, offset))
    if not statements:
        return PolicyProblem(told, 1, 1)
    named = _QUOTED.findall(told) or [told.rpartition(": ")[2]]
    for statement in statements:
        for name in named:
            if (at := _find(statement, name)) is not None:
                return PolicyProblem(told, *position(statement.source, at))
    return PolicyProblem(told, *statements[0].start)


def without_number(message: str) -> str:
    """A message of the engine without the policy's number in it."""
    return _PREFIX.sub("", message)


def _first_bad(statement: PolicyStatement, error: str, parse_error: Callable[[str], str | None]) -> int:
    """The offset of the first token after which the statement cannot be completed any more."""
    last = statement.tokens[-1]
    if error == _UNFINISHED:
        return last.offset + len(last.text) - 1
    begin = statement.tokens[0].offset
    low, high = 0, len(statement.tokens) - 1
    while low < high:
        middle = (low + high) // 2
        end = statement.tokens[middle].offset + len(statement.tokens[middle].text)
        if parse_error(statement.source[begin:end]) == _UNFINISHED:
            low = middle + 1
        else:
            high = middle
    if low < len(statement.tokens) - 1 or last.kind == "unclosed":
        return statement.tokens[low].offset
    # It is well formed and means nothing: the message names the culprit.
    named = _QUOTED.findall(error) or [error.rpartition(": ")[2]]
    found = [at for name in named if (at := _find(statement, name)) is not None]
    return found[0] if found else begin


def _find(statement: PolicyStatement, name: str) -> int | None:
    """The offset of a name as the statement writes it: `attr`, `Type`, `A::B`, `Action::"id"`."""
    wanted = [token.text for token in tokenize(name)]
    if not wanted:
        return None
    texts = [token.text for token in statement.tokens]
    for index in range(len(texts) - len(wanted) + 1):
        if texts[index : index + len(wanted)] == wanted:
            return statement.tokens[index].offset
    return None

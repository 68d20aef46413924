"""Line and column of a Cedar validation error: the engine names the policy only.

It is asked about ever smaller parts of the policy, each as the condition of one with the same head. The
smallest part of which it says the same is the place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runtime.adapters.cedar_tokenizer import CedarToken, PolicyStatement, without_number

MAX_ASKED = 250_000  # characters for one text; after that places are as near as was found
_OVERHEAD = 500  # what a question costs besides its characters
_RELATIONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "has", "like", "is"})
_OPENING = {")": "(", "]": "[", "}": "{"}

Tokens = Sequence[CedarToken]


@dataclass(frozen=True, slots=True)
class _Part:
    """An expression. `decides`: it stands where a Bool is expected."""

    tokens: Tokens
    decides: bool = False


@dataclass
class ErrorLocator:
    """Finds places in one text.

    Attributes:
        messages: what the engine says of a text.
        left: characters that it may still be asked about.
    """

    messages: Callable[[str], Sequence[str]]
    left: int = MAX_ASKED

    def narrow(self, statement: PolicyStatement, message: str) -> PolicyStatement:
        """The smallest part of a policy that the message is about; the policy itself where none is."""
        message = without_number(message)
        begin = next(_conditions(statement.tokens), None)
        if begin is None:
            return statement
        head = statement.source[statement.tokens[0].offset : statement.tokens[begin - 1].offset]
        found: Tokens = statement.tokens
        parts = [_Part(each, decides=True) for each in _bodies(statement.tokens)]
        while part := next((each for each in parts if self._says(head, each, message, statement)), None):
            found, parts = part.tokens, [*_parts(part.tokens)]
        return PolicyStatement(statement.source, tuple(found))

    def _says(self, head: str, part: _Part, message: str, statement: PolicyStatement) -> bool:
        if not part.tokens:
            return False
        text = PolicyStatement(statement.source, tuple(part.tokens)).text
        condition = text if part.decides else f"({text}) == ({text})"
        question = f"{head} when {{ {condition} }};"
        self.left -= len(question) + _OVERHEAD
        return self.left >= 0 and message in map(without_number, self.messages(question))


def _conditions(tokens: Tokens) -> Iterator[int]:
    """Where the bodies of conditions begin: the index of each `{` after `when` or `unless`."""
    for index, token in _outermost(tokens):
        if token.text == "{" and index > 0 and tokens[index - 1].text in ("when", "unless"):
            yield index


def _bodies(tokens: Tokens) -> Iterator[Tokens]:
    for begin in _conditions(tokens):
        end = next(at for at, each in _outermost(tokens[begin:]) if each.text == "}")
        yield tokens[begin + 1 : begin + end]


def _parts(tokens: Tokens) -> Iterator[_Part]:
    """What an expression consists of; split in a wrong place they are no expressions, and say nothing."""
    if tokens[0].text == "if":
        condition, *branches = _split(tokens[1:], "then", "else")
        yield _Part(condition, decides=True)
        yield from map(_Part, branches)
        return
    for sign in ("||", "&&"):
        if len(parts := _split(tokens, sign)) > 1:
            yield from (_Part(each, decides=True) for each in parts)
            return
    for signs in (_RELATIONS, {"+", "-"}, {"*"}):
        if len(parts := _split(tokens, *signs)) > 1 and parts[0]:
            yield from map(_Part, parts)
            return
    if tokens[0].text in ("!", "-"):
        yield _Part(tokens[1:], decides=tokens[0].text == "!")
        return
    yield from map(_Part, _around(tokens))


def _around(tokens: Tokens) -> Iterator[Tokens]:
    """What an expression without operators consists of: elements, arguments, and what these are of."""
    last = tokens[-1]
    if last.kind == "name" and len(tokens) > 2 and tokens[-2].text == ".":
        yield tokens[:-2]
    if last.text not in _OPENING:
        return
    opening = [at for at, each in _outermost(tokens) if each.text == _OPENING[last.text]]
    if not opening:
        return
    begin = opening[-1]
    for each in _split(tokens[begin + 1 : -1], ","):
        yield each[2:] if last.text == "}" else each  # `name: value`
    before = tokens[:begin]
    if last.text == ")" and len(before) > 2 and before[-2].text == ".":
        before = before[:-2]
    if before:
        yield before


def _split(tokens: Tokens, *signs: str) -> list[Tokens]:
    parts: list[Tokens] = []
    begin = 0
    for index, token in _outermost(tokens):
        if token.text in signs and token.kind in ("name", "operator", "other"):
            parts.append(tokens[begin:index])
            begin = index + 1
    return [*parts, tokens[begin:]]


def _outermost(tokens: Tokens) -> Iterator[tuple[int, CedarToken]]:
    """The tokens that are in no bracket, these themselves included, each with its index."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "close":
            depth -= 1
        if depth <= 0:
            yield index, token
        if token.kind == "open":
            depth += 1

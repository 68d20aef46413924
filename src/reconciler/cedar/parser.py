"""Parses Cedar policies for the entities, actions and attributes they name, each with its offset.

The grammar is the engine's, but more permissive where no entity is named: a text that this parser refuses is
refused by the engine too, and types, functions and sizes are left to the server. No expression tree is built:
an expression is represented by the entity types that its value may have, by which attributes are looked up.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from .names import EntityName
from .rules import Piece, Rule, conjuncts, piece_of
from .tokens import PolicyToken, tokens_of, unescape
from .vocabulary import ACTION, Types, Vocabulary

MAX_NESTING = 50  # brackets inside one another, and as many `if`: the server takes no more brackets either
MAX_SIGNS = 4
_BINARY = {"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5}
_COMPARING = ("==", "!=", "<", "<=", ">", ">=", "in", "has", "like", "is")
_RELATION, _SUM = 3, 4
_RESERVED = frozenset({"true", "false", "if", "then", "else", "in", "is", "like", "has", "__cedar"})
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MEMBERSHIP = frozenset({"contains", "containsAll", "containsAny"})


@dataclass(frozen=True, slots=True, order=True)
class CedarProblem:
    """A problem between two offsets of the text. `word` and `known` are for a suggestion."""

    begin: int
    end: int
    code: str
    message: str
    word: str = ""
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EntityMention:
    """An entity that the text names, between two offsets.

    Attributes:
        effect: `permit` or `forbid`, of the policy that names it.
        sense: 1 where the policy applies to what belongs to the entity, -1 where it applies to what does not,
            0 where that is unknown.
    """

    name: EntityName
    begin: int
    end: int
    effect: str = ""
    sense: int = 1


@dataclass(frozen=True)
class ParsedPolicies:
    """The result of parsing. When it is not `readable`, only the problems are filled."""

    mentions: tuple[EntityMention, ...]
    problems: tuple[CedarProblem, ...]
    readable: bool = True
    rules: tuple[Rule, ...] = ()

    @property
    def may_permit(self) -> bool:
        """Tell whether a rule permits anything, or may do so in a text that only the engine can parse."""
        return not self.readable or any(rule.effect == "permit" for rule in self.rules)


class _Unreadable(Exception):
    def __init__(self, token: PolicyToken, message: str, known: Iterable[str] = ()) -> None:
        super().__init__(message)
        end = max(token.end, token.offset + 1)
        self.problem = CedarProblem(token.offset, end, "cedar", message, token.text, frozenset(known))


def parse_policies(text: str, vocabulary: Vocabulary) -> ParsedPolicies:
    """The entities that a text names, and what is wrong with it.

    Each policy with a syntax error is reported once; unknown names are reported of texts without syntax
    errors only, because a misplaced quote turns anything into a name.
    """
    reader = _Reader(text, vocabulary)
    reader.run()
    if reader.broken:
        return ParsedPolicies((), tuple(reader.broken), readable=False)
    problems = tuple(sorted(set(reader.problems)))
    return ParsedPolicies(tuple(reader.mentions), problems, rules=tuple(reader.rules))


@dataclass
class _Reader:
    text: str
    vocabulary: Vocabulary
    mentions: list[EntityMention] = field(default_factory=list)
    problems: list[CedarProblem] = field(default_factory=list)
    broken: list[CedarProblem] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    effect: str = ""
    sense: int = 1  # of the current expression, as in `EntityMention`

    def __post_init__(self) -> None:
        self.tokens = tokens_of(self.text)
        self.at = 0
        self.depth = 0

    # --- tokens

    @property
    def token(self) -> PolicyToken:
        return self.tokens[self.at]

    def ahead(self, text: str) -> bool:
        """Tell whether the next token is that sign or word."""
        return self.token.text == text and self.token.kind in ("sign", "name")

    def take(self, text: str) -> bool:
        """Consume a sign or a word if it is the next token."""
        if not self.ahead(text):
            return False
        self.at += 1
        return True

    def expect(self, *texts: str) -> PolicyToken:
        """Consume one of these; it must be the next token."""
        token = self.token
        if not any(self.take(text) for text in texts):
            self.refuse(" or ".join(f"`{text}`" for text in texts))
        return token

    def kind(self, kind: str, what: str) -> PolicyToken:
        """Consume a token of that kind; it must be the next token."""
        token = self.token
        if token.kind != kind:
            self.refuse(what)
        self.at += 1
        return token

    def refuse(self, expected: str) -> NoReturn:
        """Raise for the next token."""
        token = self.token
        if token.kind == "unclosed":
            line = token._replace(text=token.text.splitlines()[0])
            raise _Unreadable(line, "the string that begins here is not closed")
        if token.kind == "other":
            raise _Unreadable(token, f"unexpected character `{token.text}`")
        if token.kind == "end":
            before = self.tokens[self.at - 1]
            raise _Unreadable(before, f"the text ends where {expected} is expected")
        raise _Unreadable(token, f"expected {expected}, found `{token.text}`")

    # --- policies

    def run(self) -> None:
        if self.token.kind == "end":
            self.broken.append(CedarProblem(0, 1, "cedar", "the text holds no policy"))
        while self.token.kind != "end":
            try:
                self.policy()
            except _Unreadable as unreadable:
                self.broken.append(unreadable.problem)
                self.depth = 0
                while self.token.kind != "end" and not self.take(";"):
                    self.at += 1

    def policy(self) -> None:
        while self.take("@"):
            self.kind("name", "the annotation's name")
            if self.take("("):
                self.string("the annotation's value")
                self.expect(")")
        self.effect, self.sense = self.expect("permit", "forbid").text, 1
        self.expect("(")
        scope: list[Piece] = []
        conditions: set[Piece] = set()
        for position, variable in enumerate(("principal", "action", "resource")):
            if position:
                self.expect(",")
            begin = self.at + 1
            self.scope(variable)
            scope.append(piece_of(self.tokens[begin : self.at]))
        self.take(",")
        self.expect(")")
        while self.ahead("when") or self.ahead("unless"):
            begin, self.sense = self.at, -1 if self.ahead("unless") else 1
            self.at += 1
            self.expect("{")
            self.inside(self.expression)
            self.expect("}")
            conditions.update(conjuncts(piece_of(self.tokens[begin : self.at])))
        self.expect(";")
        self.rules.append(Rule(self.effect, tuple(scope), frozenset(conditions)))

    def scope(self, variable: str) -> None:
        self.expect(variable)
        if self.take("is"):
            self.type_name()
            if self.take("in"):
                self.inside(self.expression)
        elif self.take("==") or self.take("in"):
            self.inside(self.expression)

    # --- expressions

    def inside(self, read: Callable[[], Types]) -> Types:
        """Parse an expression in brackets, within the nesting limit."""
        self.depth += 1
        if self.depth > 2 * MAX_NESTING:
            raise _Unreadable(self.token, f"brackets are nested deeper than {MAX_NESTING} levels")
        found = read()
        self.depth -= 1
        return found

    def expression(self) -> Types:
        if not self.take("if"):
            return self.binary(1)
        branches = []
        while True:  # the last `else` may be another `if`, and so on
            with self.sensed(0):
                self.inside(self.expression)
            self.expect("then")
            branches.append(self.inside(self.expression))
            self.expect("else")
            if not self.take("if"):
                break
        branches.append(self.binary(1))
        known = [each for each in branches if each is not None]
        return frozenset().union(*known) if len(known) == len(branches) else None

    def binary(self, weakest: int) -> Types:
        """An expression of operators with at least this precedence."""
        first = len(self.mentions)
        found = self.unary()
        compared = False
        while True:
            word = self.token.text if self.token.kind in ("sign", "name") else ""
            if word in _COMPARING:
                if weakest > _RELATION:
                    return found
                if compared:
                    message = "comparisons cannot be chained; put parentheses around one of them"
                    raise _Unreadable(self.token, message)
                self.compare(word, found, first)
                found, compared = None, True
                continue
            strength = _BINARY.get(word, 0)
            if strength < max(weakest, 1):
                return found
            if compared and strength > _RELATION:
                message = "a comparison cannot be followed by this operator; put parentheses around it"
                raise _Unreadable(self.token, message)
            self.at += 1
            self.binary(strength + 1)
            found = None
            compared = compared and strength > _RELATION

    def compare(self, word: str, left: Types, first: int) -> None:
        """Read an operator and what follows it. *first*: of the mentions on its left."""
        self.at += 1
        if word == "has":
            self.has(left)
        elif word == "like":
            self.string("a pattern", pattern=True)
        elif word == "is":
            self.type_name()
            if self.take("in"):
                self.binary(_SUM)
        elif word == "in":
            self.binary(_SUM)
        else:
            second = len(self.mentions)
            right = self.binary(_SUM)
            factor = {"==": 1, "!=": -1}.get(word, 0)
            self.turn(first, second, factor if left is not None else 0)
            self.turn(second, len(self.mentions), factor if right is not None else 0)

    @contextmanager
    def sensed(self, factor: int) -> Iterator[None]:
        """Parse an expression with the sense reversed (-1) or unknown (0)."""
        before, self.sense = self.sense, self.sense * factor
        try:
            yield
        finally:
            self.sense = before

    def turn(self, begin: int, end: int, factor: int) -> None:
        """The same for mentions that were parsed already."""
        if factor != 1:
            turned = [replace(each, sense=each.sense * factor) for each in self.mentions[begin:end]]
            self.mentions[begin:end] = turned

    def has(self, left: Types) -> None:
        if self.token.kind == "string":
            token = self.token
            self.attribute(left, self.string("an attribute"), token)
            return
        while True:
            token = self.name("an attribute")
            left = self.attribute(left, token.text, token)
            if not self.take("."):
                return

    def unary(self) -> Types:
        sign = self.token
        count = 0
        if sign.text in ("!", "-"):
            while self.take(sign.text):
                count += 1
        if count > MAX_SIGNS:
            raise _Unreadable(sign, f"more than {MAX_SIGNS} `{sign.text}` in a row")
        with self.sensed(-1 if sign.text == "!" and count % 2 else 1):
            found = self.member()
        return None if count else found

    def member(self) -> Types:
        first = len(self.mentions)
        found = self.primary()
        while True:
            if self.take("."):
                token = self.name("an attribute")
                if self.take("("):
                    self.listed(")")
                    found = None
                    self.turn(first, len(self.mentions), 1 if token.text in _MEMBERSHIP else 0)
                else:
                    found = self.attribute(found, token.text, token)
            elif self.take("["):
                token = self.token
                found = self.attribute(found, self.string("an attribute's name in quotes"), token)
                self.expect("]")
            else:
                return found

    def primary(self) -> Types:
        token = self.token
        if token.kind == "number":
            self.at += 1
        elif token.kind == "string":
            self.string("a string")
        elif token.kind == "slot":
            raise _Unreadable(token, "templates are not supported: name an entity instead of the slot")
        elif self.take("("):
            found = self.inside(self.expression)
            self.expect(")")
            return found
        elif self.take("["):
            self.listed("]")
        elif self.take("{"):
            with self.sensed(0):
                self.record()
        elif token.kind == "name" and token.text not in _RESERVED:
            return self.named()
        elif not (self.take("true") or self.take("false")):
            self.refuse("a value")
        return None

    def listed(self, closing: str) -> None:
        while not self.take(closing):
            self.inside(self.expression)
            if not self.ahead(closing):
                self.expect(",")

    def record(self) -> None:
        while not self.take("}"):
            if self.token.kind == "string":
                self.string("a member's name")
            else:
                self.name("a member's name")
            self.expect(":")
            self.inside(self.expression)
            if not self.ahead("}"):
                self.expect(",")

    def named(self) -> Types:
        """A primary that starts with a name: a variable, an entity, or a function call."""
        first = self.token
        path = self.path()
        if self.take("::"):
            return self.entity(path, first)
        if self.take("("):
            if path == "unknown":  # the engine has it for partial evaluation
                raise _Unreadable(first, "`unknown` never has a value, so the rule fails: leave it out")
            with self.sensed(0):
                self.listed(")")
            return None
        if path in self.vocabulary.variables:
            return self.vocabulary.variables[path]
        type_, joined, last = path.rpartition("::")
        if joined:
            raise _Unreadable(first, f'`{path}` needs quotes, as in `{type_}::"{last}"`')
        raise _Unreadable(first, f"there is no variable `{path}`", self.vocabulary.variables)

    def path(self) -> str:
        """Names joined by `::`, up to a string."""
        parts = [self.kind("name", "a name").text]
        while self.ahead("::") and self.tokens[self.at + 1].kind == "name":
            self.at += 1
            parts.append(self.kind("name", "a name").text)
        return "::".join(parts)

    def entity(self, type_: str, first: PolicyToken) -> Types:
        literal = self.token
        id_ = self.string("the entity's id in quotes")
        name = EntityName(type_, id_)
        if type_ == ACTION:
            if id_ not in self.vocabulary.actions:
                known = self.vocabulary.actions
                self.report(literal, "unknown-action", f"there is no action `{id_}`", id_, known)
        elif self.check_type(type_, first):
            self.mentions.append(EntityMention(name, first.offset, literal.end, self.effect, self.sense))
        return frozenset((type_,)) if type_ in self.vocabulary.types else None

    def type_name(self) -> None:
        first = self.token
        self.check_type(self.path(), first)

    def check_type(self, type_: str, first: PolicyToken) -> bool:
        if type_ in self.vocabulary.types:
            return True
        self.report(first, "unknown-type", f"there is no entity type `{type_}`", type_, self.vocabulary.types)
        return False

    def attribute(self, types: Types, name: str, token: PolicyToken) -> Types:
        """The types of an attribute, which such a value must be able to have."""
        if types is None:
            return None
        known = self.vocabulary.attributes(types)
        if name in known:
            return self.vocabulary.types_of(types, name)
        owner = " or ".join(f"`{each}`" for each in sorted(types))
        self.report(token, "unknown-attribute", f"{owner} has no attribute `{name}`", name, known)
        return None

    # --- reporting

    def name(self, what: str) -> PolicyToken:
        token = self.kind("name", what)
        if token.text in _RESERVED:
            self.at -= 1
            self.refuse(what)
        return token

    def string(self, what: str, *, pattern: bool = False) -> str:
        token = self.kind("string", what)
        value = unescape(token.text, pattern=pattern)
        if value is None:
            raise _Unreadable(token, "the string has an escape that Cedar does not know")
        return value

    def report(self, token: PolicyToken, code: str, message: str, word: str, known: Iterable[str]) -> None:
        self.problems.append(CedarProblem(token.offset, token.end, code, message, word, frozenset(known)))

"""Cedar rules compared without the engine: does one cover another?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .tokens import PolicyToken

_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
Piece = tuple[str, ...]
"""What stands between two places of a text, without space, comments and the comma before a bracket."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One `permit` or `forbid`.

    Attributes:
        scope: what is asked of principal, action and resource in its head; empty where nothing is.
        conditions: each `when` and `unless`; of one that asks for several things, each of these.
    """

    effect: str
    scope: tuple[Piece, ...] = ()
    conditions: frozenset[Piece] = frozenset()

    def covers(self, other: "Rule") -> bool:
        """Tell whether it surely applies wherever *other* does; when in doubt it does not.

        It does if it asks for a part of the same: all that is asked for has to be true, in whichever order.
        """
        return (
            self.effect == other.effect
            and all(not own or own == its for own, its in zip(self.scope, other.scope, strict=True))
            and self.conditions <= other.conditions
        )


def is_covered(rule: Rule, by: Iterable[Rule]) -> bool:
    """Tell whether one of these rules surely applies wherever that one does."""
    return any(each.covers(rule) for each in by)


def piece_of(tokens: Sequence[PolicyToken]) -> Piece:
    """Tokens as they are compared: how a text is laid out means nothing."""
    followed = zip(tokens, [*(each.text for each in tokens[1:]), ""], strict=False)
    return tuple(each.text for each, after in followed if not (each.text == "," and after in _CLOSING))


def conjuncts(condition: Piece) -> Iterator[Piece]:
    """The conditions that are one together: of `when { a && b }` these are `when { a }` and `when { b }`.

    What all of them come to is the same, also where one cannot be evaluated: then the rule does not apply.
    """
    sort, _, *body, _ = condition
    joint, other = ("&&", "||") if sort == "when" else ("||", "")
    parts: list[list[str]] = [[]]
    depth = 0
    for word in body:
        depth += (word in _OPENING) - (word in _CLOSING)
        if not depth and word in ("if", other):  # they bind less than what is between them
            parts = [body]
            break
        if not depth and word == joint:
            parts.append([])
        else:
            parts[-1].append(word)
    return ((sort, "{", *part, "}") for part in parts)

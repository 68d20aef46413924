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
        scope: the constraints on principal, action and resource in its head; empty where there are none.
        conditions: each `when` and `unless`; a conjunction is split into its parts.
    """

    effect: str
    scope: tuple[Piece, ...] = ()
    conditions: frozenset[Piece] = frozenset()

    def covers(self, other: "Rule") -> bool:
        """Tell whether this rule is certain to apply wherever *other* does; False when in doubt.

        It is when its constraints are a subset of the other's: all must be true, in any order.
        """
        return (
            self.effect == other.effect
            and all(not own or own == its for own, its in zip(self.scope, other.scope, strict=True))
            and self.conditions <= other.conditions
        )


def is_covered(rule: Rule, by: Iterable[Rule]) -> bool:
    """Tell whether one of these rules is certain to apply wherever that one does."""
    return any(each.covers(rule) for each in by)


def piece_of(tokens: Sequence[PolicyToken]) -> Piece:
    """Tokens for comparison: layout does not count."""
    followed = zip(tokens, [*(each.text for each in tokens[1:]), ""], strict=False)
    return tuple(each.text for each, after in followed if not (each.text == "," and after in _CLOSING))


def conjuncts(condition: Piece) -> Iterator[Piece]:
    """Split a conjunction: `when { a && b }` becomes `when { a }` and `when { b }`.

    The meaning is the same, also where a part cannot be evaluated: then the rule does not apply.
    """
    sort, _, *body, _ = condition
    joint, other = ("&&", "||") if sort == "when" else ("||", "")
    parts: list[list[str]] = [[]]
    depth = 0
    for word in body:
        depth += (word in _OPENING) - (word in _CLOSING)
        if not depth and word in ("if", other):  # they have a lower precedence than `&&`
            parts = [body]
            break
        if not depth and word == joint:
            parts.append([])
        else:
            parts[-1].append(word)
    return ((sort, "{", *part, "}") for part in parts)

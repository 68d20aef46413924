"""Finds attributes in Cedar policies that the schema does not have.

Cedar accepts any attribute after `has`: it is false then, and what depends on it is not evaluated. So a
misspelt attribute makes a policy that never applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.domain.policy import schema

_CONTEXT = "context"
_ACTION = "Action"

Types = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class UnknownAttribute:
    """An attribute that the schema gives to none of these entity types."""

    name: str
    types: tuple[str, ...]


def unknown_attributes(rule: Mapping[str, Any], version: str) -> list[UnknownAttribute]:
    """The attributes of a policy that no entity and no context of that schema version has.

    Args:
        rule: in Cedar's JSON form.
        version: of the schema.
    """
    walk = _Walk(_Schema(schema.as_json(version)[""]))
    for condition in rule.get("conditions", ()):
        walk.through(condition["body"])
    return list(dict.fromkeys(walk.unknown))


def known_attributes(version: str) -> frozenset[str]:
    """Every attribute that the schema gives to an entity type or to the context."""
    words = _Schema(schema.as_json(version)[""])
    return frozenset(name for attributes in words.attributes.values() for name in attributes)


@dataclass
class _Schema:
    namespace: Mapping[str, Any]
    attributes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    variables: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, entity in self.namespace["entityTypes"].items():
            self.attributes[name] = entity["shape"]["attributes"]
        self.attributes[_ACTION] = {}
        applies = [action["appliesTo"] for action in self.namespace["actions"].values()]
        context: dict[str, Any] = {}
        for each in applies:
            context |= self.namespace["commonTypes"][each["context"]["name"]]["attributes"]
        self.attributes[_CONTEXT] = context
        self.variables = {
            "principal": frozenset(name for each in applies for name in each["principalTypes"]),
            "resource": frozenset(name for each in applies for name in each["resourceTypes"]),
            "action": frozenset((_ACTION,)),
            "context": frozenset((_CONTEXT,)),
        }


@dataclass
class _Walk:
    """Goes through expressions. What stands under operators waits in a list: they nest by thousands."""

    words: _Schema
    unknown: list[UnknownAttribute] = field(default_factory=list)
    _waiting: list[Any] = field(default_factory=list)

    def through(self, expression: Any) -> None:
        """Note the unknown attributes of an expression."""
        self._waiting.append(expression)
        while self._waiting:
            self._types(self._waiting.pop())

    def _types(self, node: Any) -> Types:
        """The entity types that an expression may have; None when nothing is known of it."""
        if not isinstance(node, Mapping) or len(node) != 1:
            return None
        ((operator, operands),) = node.items()
        if operator == "Var":
            return self.words.variables.get(operands)
        if operator == "Value":
            entity = operands.get("__entity") if isinstance(operands, Mapping) else None
            return frozenset((entity["type"],)) if entity else None
        if operator in (".", "has"):
            found = self._attribute(self._types(operands["left"]), operands["attr"])
            return found if operator == "." else None
        if operator == "if-then-else":
            self._waiting.append(operands["if"])
            then, otherwise = self._types(operands["then"]), self._types(operands["else"])
            return None if then is None or otherwise is None else then | otherwise
        self._waiting.extend(operands.values() if isinstance(operands, Mapping) else _listed(operands))
        return None

    def _attribute(self, types: Types, name: str) -> Types:
        if types is None:
            return None
        kinds = [self.words.attributes[each] for each in types if each in self.words.attributes]
        found = {attributes[name].get("name") for attributes in kinds if name in attributes}
        if kinds and not found:
            self.unknown.append(UnknownAttribute(name, tuple(sorted(types))))
        return frozenset(found) if found and found <= self.words.attributes.keys() else None


def _listed(operands: Any) -> list[Any]:
    return operands if isinstance(operands, list) else []

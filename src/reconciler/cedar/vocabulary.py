"""The entity types, actions and attributes that policies may use, from the manifest schema."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

CONTEXT = "context"
ACTION = "Action"

Types = frozenset[str] | None
"""The types that a value may have, `context` among them; None when nothing is known of it."""


@dataclass(frozen=True)
class Vocabulary:
    """The entity types, actions and variables that a policy may name.

    Attributes:
        kinds: entity type -> the kind whose manifests describe such entities, None when none does.
        actions: names of actions.
        variables: `principal`, `action`, `resource` and `context` -> their types.
    """

    kinds: Mapping[str, str | None]
    actions: frozenset[str]
    variables: Mapping[str, frozenset[str]]
    _attributes: Mapping[str, Mapping[str, str | None]] = field(repr=False)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Vocabulary":
        """Read `x-cedar` of a manifest schema."""
        entities = content["entities"]
        attributes = {name: entity["attributes"] for name, entity in entities.items()}
        return cls(
            kinds={name: entity["kind"] for name, entity in entities.items()},
            actions=frozenset(content["actions"]),
            variables={
                "principal": frozenset(content["principals"]),
                "resource": frozenset(content["resources"]),
                "action": frozenset((ACTION,)),
                "context": frozenset((CONTEXT,)),
            },
            _attributes={**attributes, ACTION: {}, CONTEXT: content["context"]},
        )

    @property
    def types(self) -> frozenset[str]:
        """The entity types there are."""
        return frozenset(self.kinds) | {ACTION}

    def attributes(self, types: Iterable[str]) -> set[str]:
        """The attributes that a value of one of these types may have."""
        return {name for each in types for name in self._attributes.get(each, ())}

    def types_of(self, types: Iterable[str], attribute: str) -> Types:
        """The entity types of an attribute; None when it is no entity."""
        found = {
            self._attributes[each][attribute] for each in types if attribute in self._attributes.get(each, ())
        }
        return frozenset(each for each in found if each) if found and None not in found else None

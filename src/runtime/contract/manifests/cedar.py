"""The Cedar vocabulary in the manifest schemas, for tools that check policies without the engine."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.schema import Schema
from runtime.domain.kinds import BY_NAME
from runtime.domain.policy import schema


def cedar_words() -> Schema:
    """What `x-cedar` says: entity types with the kinds behind them, attributes, actions and variables.

    An attribute leads to its entity type, or to null when it is no entity. A word of any version of the
    schema is among them: which version a zone is at, only the service knows.
    """
    words: Schema = {"actions": [], "principals": [], "resources": [], "context": {}, "entities": {}}
    for version in schema.VERSIONS:
        _add(words, schema.as_json(version)[""])
    return {name: sorted(set(each)) if isinstance(each, list) else each for name, each in words.items()}


def _add(words: Schema, namespace: Mapping[str, Any]) -> None:
    entities = namespace["entityTypes"]
    for name, entity in entities.items():
        kind = BY_NAME.get(name)
        known = words["entities"].setdefault(name, {"attributes": {}})
        known["kind"] = name if kind is not None and kind.manifest else None
        known["attributes"] |= _attributes(entity["shape"], entities)
    for name, action in namespace["actions"].items():
        words["actions"].append(name)
        words["principals"].extend(action["appliesTo"]["principalTypes"])
        words["resources"].extend(action["appliesTo"]["resourceTypes"])
        common = namespace["commonTypes"][action["appliesTo"]["context"]["name"]]
        words["context"] |= _attributes(common, entities)


def _attributes(record: Mapping[str, Any], entities: Mapping[str, Any]) -> dict[str, str | None]:
    named = {name: attribute.get("name") for name, attribute in record["attributes"].items()}
    return {name: type_ if type_ in entities else None for name, type_ in named.items()}

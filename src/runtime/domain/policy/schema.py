"""The versions of the Cedar schema: entity types, actions and attributes that policies may use.

A version never changes once published. A newer one adds words; a zone moves to it when its policies are
ready.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, cast

VERSIONS = ("2026-11-21",)  # oldest first
CURRENT_VERSION = VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A published schema: its version (a date) and its text in Cedar's schema syntax."""

    version: str
    text: str


@lru_cache(maxsize=16)
def get(version: str) -> SchemaVersion:
    """The schema of that version. Raises KeyError when none was published under it."""
    if version not in VERSIONS:
        raise KeyError(version)
    source = files("runtime.domain.policy") / "schemas" / f"{version}.cedarschema"
    return SchemaVersion(version, source.read_text("utf-8"))


def current() -> SchemaVersion:
    """What a new zone starts with."""
    return get(CURRENT_VERSION)


@lru_cache(maxsize=16)
def as_json(version: str) -> dict[str, Any]:
    """The schema of that version in Cedar's JSON notation. Raises KeyError when there is none."""
    if version not in VERSIONS:
        raise KeyError(version)
    source = files("runtime.domain.policy") / "schemas" / f"{version}.json"
    return cast(dict[str, Any], json.loads(source.read_text("utf-8")))

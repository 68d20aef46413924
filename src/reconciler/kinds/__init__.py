"""The kinds, read from `schemas/`, and the plain values that pass between the other parts."""

from .reading import Kinds, load_kinds, schema_directory
from .shapes import ABSENT, Kind, Ref, Shape
from .values import (
    Beside,
    Entity,
    External,
    InForce,
    Manifest,
    MissingName,
    Origin,
    Outside,
    Ownership,
    Part,
    Snapshot,
    Tombstone,
    Write,
)

__all__ = [
    "ABSENT",
    "Beside",
    "Entity",
    "External",
    "InForce",
    "Kind",
    "Kinds",
    "Manifest",
    "MissingName",
    "Origin",
    "Outside",
    "Ownership",
    "Part",
    "Ref",
    "Shape",
    "Snapshot",
    "Tombstone",
    "Write",
    "load_kinds",
    "schema_directory",
]

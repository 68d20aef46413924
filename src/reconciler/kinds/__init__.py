"""The kinds, read from `schemas/`, and the plain values that pass between the other parts."""

from .reading import Kinds, load_kinds, schema_directory
from .shapes import ABSENT, Kind, Ref, Shape
from .values import (
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
    Undescribable,
    Write,
)

__all__ = [
    "ABSENT",
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
    "Undescribable",
    "Write",
    "load_kinds",
    "schema_directory",
]

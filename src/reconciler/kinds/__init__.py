"""Kinds read from `schemas/`, and the values that manifests, plan and client exchange."""

from .loading import Kinds, load_kinds, schema_directory
from .member_schemas import ABSENT, Kind, MemberSchema, Reference
from .values import (
    Entity,
    ExternalName,
    ExternalReference,
    IncludedVersion,
    InForce,
    Manifest,
    MissingName,
    Origin,
    Ownership,
    Snapshot,
    Tombstone,
    Undescribable,
    Write,
)

__all__ = [
    "ABSENT",
    "Entity",
    "ExternalName",
    "ExternalReference",
    "InForce",
    "IncludedVersion",
    "Kind",
    "Kinds",
    "Manifest",
    "MemberSchema",
    "MissingName",
    "Origin",
    "Ownership",
    "Reference",
    "Snapshot",
    "Tombstone",
    "Undescribable",
    "Write",
    "load_kinds",
    "schema_directory",
]

"""Cedar text as manifests hold it: read without the engine, for what it names and where it does."""

from .names import EntityName, parse_name
from .reading import CedarProblem, Mention, Reading, read_policies
from .tokens import stretch_at
from .words import Words

__all__ = [
    "CedarProblem",
    "EntityName",
    "Mention",
    "Reading",
    "Words",
    "parse_name",
    "read_policies",
    "stretch_at",
]

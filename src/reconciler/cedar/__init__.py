"""Cedar text as manifests hold it: read without the engine, for what it names and where it does."""

from .layout import is_laid_out, without_layout
from .names import EntityName, parse_name
from .reading import CedarProblem, Mention, Reading, read_policies
from .rules import Rule, is_covered
from .tokens import stretch_at
from .words import Words

__all__ = [
    "CedarProblem",
    "EntityName",
    "Mention",
    "Reading",
    "Rule",
    "Words",
    "is_covered",
    "is_laid_out",
    "parse_name",
    "read_policies",
    "stretch_at",
    "without_layout",
]

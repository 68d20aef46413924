"""Parses Cedar policies without the engine: the entities they name, and where."""

from .layout import is_laid_out, without_layout
from .names import EntityName, parse_name
from .parser import CedarProblem, EntityMention, ParsedPolicies, parse_policies
from .rules import Rule, is_covered
from .tokens import stretch_at
from .vocabulary import Vocabulary

__all__ = [
    "CedarProblem",
    "EntityMention",
    "EntityName",
    "ParsedPolicies",
    "Rule",
    "Vocabulary",
    "is_covered",
    "is_laid_out",
    "parse_name",
    "parse_policies",
    "stretch_at",
    "without_layout",
]

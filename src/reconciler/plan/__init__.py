"""Wanted and found into an ordered plan. Everything here is pure."""

from .building import PlanImpossible, build_plan
from .consequences import Deciding, Exempt, MissingName, Widened
from .guards import Refusal, check_guards
from .hidden import grounded, hidden
from .losses import Loss, Losses
from .model import Action, FieldChange, Plan, SimilarOwner, Unmanaged, read_plan
from .telling import misnamed, zones_of

__all__ = [
    "Action",
    "Deciding",
    "Exempt",
    "FieldChange",
    "Loss",
    "Losses",
    "MissingName",
    "Plan",
    "PlanImpossible",
    "Refusal",
    "SimilarOwner",
    "Unmanaged",
    "Widened",
    "build_plan",
    "check_guards",
    "grounded",
    "hidden",
    "misnamed",
    "read_plan",
    "zones_of",
]

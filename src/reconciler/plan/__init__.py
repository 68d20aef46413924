"""Wanted and found into an ordered plan. Everything here is pure."""

from .building import PlanImpossible, build_plan
from .guards import Refusal, check_guards
from .losses import Loss, Losses
from .model import Action, FieldChange, Plan, SimilarOwner, Unmanaged, read_plan

__all__ = [
    "Action",
    "FieldChange",
    "Loss",
    "Losses",
    "Plan",
    "PlanImpossible",
    "Refusal",
    "SimilarOwner",
    "Unmanaged",
    "build_plan",
    "check_guards",
    "read_plan",
]

"""Carries a plan out: the one place where secrets are read and something is sent that changes anything."""

from .applying import Applied, apply_plan, confirm_found, nothing_done
from .delivery import DeliveryImpossible, delivery_refusals, found_files
from .environment import AllowedNames, PatternWrong
from .interrupts import held_interrupts
from .planning import Trial, explain_rejection, make_plan, objection, try_plan
from .secrets import SecretMissing, SecretSources, secret_refusals, unset_variables

__all__ = [
    "AllowedNames",
    "Applied",
    "DeliveryImpossible",
    "PatternWrong",
    "SecretMissing",
    "SecretSources",
    "Trial",
    "apply_plan",
    "confirm_found",
    "delivery_refusals",
    "explain_rejection",
    "found_files",
    "held_interrupts",
    "make_plan",
    "nothing_done",
    "objection",
    "secret_refusals",
    "try_plan",
    "unset_variables",
]

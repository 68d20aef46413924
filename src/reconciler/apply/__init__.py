"""Applies a plan: the only package that reads secrets and sends writes."""

from .allowed_env import AllowedNames, PatternWrong
from .apply_plan import ApplyResult, apply_plan, confirm_delivered_files, empty_receipt
from .one_time_secrets import DeliveryImpossible, delivery_refusals, unconfirmed_files
from .planning import DryRunResult, dry_run_plan, make_plan, server_problems, server_rejection
from .secrets import SecretMissing, SecretSources, secret_refusals, unset_variables
from .signals import deferred_interrupts

__all__ = [
    "AllowedNames",
    "ApplyResult",
    "DeliveryImpossible",
    "DryRunResult",
    "PatternWrong",
    "SecretMissing",
    "SecretSources",
    "apply_plan",
    "confirm_delivered_files",
    "deferred_interrupts",
    "delivery_refusals",
    "dry_run_plan",
    "empty_receipt",
    "make_plan",
    "secret_refusals",
    "server_problems",
    "server_rejection",
    "unconfirmed_files",
    "unset_variables",
]

"""Applies a plan: the only package that reads secrets and sends writes."""

from .allowed_env import AllowedNames, PatternWrong
from .apply_plan import ApplyResult, apply_plan, confirm_delivered_files, empty_receipt
from .dry_run import DryRunResult, dry_run_plan
from .one_time_secrets import DeliveryImpossible, delivery_refusals, file_with_secret, unconfirmed_files
from .rejections import server_problems, server_rejection
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
    "file_with_secret",
    "secret_refusals",
    "server_problems",
    "server_rejection",
    "unconfirmed_files",
    "unset_variables",
]

"""Computes the plan: desired state (manifests) against actual state (a snapshot). Pure, without I/O."""

from .builder import PlanImpossible, build_plan
from .cascade import Cascade, Cascades
from .decision_impact import ChangedDecisions, ChangedRequest, NamedRule, ZoneDecisionImpact
from .drift import Drift, detect_drift
from .guards import Refusal, check_guards
from .model import Action, FieldChange, Plan, SimilarOwner, Unmanaged
from .plan_consistency import misidentified_objects, zone_ids_of
from .policy_impact import MissingPolicyName, PolicySetChange, PrefixExemption, WidenedAccess
from .saved_plan import read_plan
from .saved_plan_check import saved_plan_discrepancies, with_server_facts
from .unresolved_references import UnresolvedReference

__all__ = [
    "Action",
    "Cascade",
    "Cascades",
    "ChangedDecisions",
    "ChangedRequest",
    "Drift",
    "FieldChange",
    "MissingPolicyName",
    "NamedRule",
    "Plan",
    "PlanImpossible",
    "PolicySetChange",
    "PrefixExemption",
    "Refusal",
    "SimilarOwner",
    "Unmanaged",
    "UnresolvedReference",
    "WidenedAccess",
    "ZoneDecisionImpact",
    "build_plan",
    "check_guards",
    "detect_drift",
    "misidentified_objects",
    "read_plan",
    "saved_plan_discrepancies",
    "with_server_facts",
    "zone_ids_of",
]

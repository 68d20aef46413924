"""Every table: `TABLES` by kind name, and the hand-written ones by their own names."""

from runtime.storage.sql.columns import METADATA
from runtime.storage.sql.derived import TABLES
from runtime.storage.sql.name_records import assigned_names, subjects
from runtime.storage.sql.records import (
    application_dependencies,
    audit_events,
    changesets,
    group_invitees,
    group_members,
    organization_heads,
    outbox,
    ownerships,
    policy_set_bindings,
    token_events,
    tombstones,
    user_credentials,
    zone_internals,
    zone_keys,
)
from runtime.storage.sql.sign_in_records import consents, delegated_grants, refresh_families, sessions
from runtime.storage.sql.upkeep import epoch_changes, jobs, revocations, withdrawn_names

__all__ = [
    "METADATA",
    "TABLES",
    "application_dependencies",
    "assigned_names",
    "audit_events",
    "changesets",
    "consents",
    "delegated_grants",
    "epoch_changes",
    "group_invitees",
    "group_members",
    "jobs",
    "organization_heads",
    "outbox",
    "ownerships",
    "policy_set_bindings",
    "refresh_families",
    "revocations",
    "sessions",
    "subjects",
    "token_events",
    "tombstones",
    "user_credentials",
    "withdrawn_names",
    "zone_internals",
    "zone_keys",
]

"""Every table: `TABLES` by kind name, and the hand-written ones by their own names."""

from runtime.storage.sql.columns import METADATA
from runtime.storage.sql.job_tables import (
    epoch_changes,
    jobs,
    revocations,
    withdrawn_in_sessions,
    withdrawn_names,
    zone_changes,
)
from runtime.storage.sql.kind_tables import TABLES
from runtime.storage.sql.name_tables import assigned_names, subjects
from runtime.storage.sql.organization_tables import (
    application_dependencies,
    audit_anchors,
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
from runtime.storage.sql.session_tables import (
    consents,
    delegated_grants,
    refresh_families,
    sessions,
    vault_tokens,
)

__all__ = [
    "METADATA",
    "TABLES",
    "application_dependencies",
    "assigned_names",
    "audit_anchors",
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
    "vault_tokens",
    "withdrawn_in_sessions",
    "withdrawn_names",
    "zone_changes",
    "zone_internals",
    "zone_keys",
]

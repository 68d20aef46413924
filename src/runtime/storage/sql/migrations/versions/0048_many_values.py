"""What PostgreSQL's planner is told of columns that refer to what is deleted together."""

from alembic import op

revision = "0048"
down_revision = "0047"

_COLUMNS = {
    "application_credentials": ["application_id", "provider_id"],
    "application_dependencies": ["application_id", "resource_id"],
    "consents": ["application_id", "user_agent_id", "user_id"],
    "delegated_grants": ["provider_id", "resource_id", "user_id"],
    "group_invitees": ["group_id"],
    "group_members": ["group_id", "user_id"],
    "policy_set_bindings": ["policy_set_id", "policy_set_version_id"],
    "policy_set_versions": ["policy_set_id"],
    "policy_versions": ["policy_id"],
    "refresh_families": ["application_id", "session_id", "user_agent_id", "user_id"],
    "role_assignments": ["role_id"],
    "service_account_credentials": ["service_account_id"],
    "session_issuers": ["session_id"],
    "sessions": ["application_id", "browser_session_id", "parent_id", "user_agent_id", "user_id"],
    "user_credentials": ["user_id"],
    "vault_tokens": ["grant_id"],
    "zone_address_uses": ["issuer"],
}


def upgrade() -> None:
    """Tell it; `zoned migrate` has it count again afterwards."""
    if op.get_context().dialect.name != "postgresql":
        return
    for table, columns in _COLUMNS.items():
        told = ", ".join(f"ALTER COLUMN {column} SET (n_distinct = -1)" for column in columns)
        op.execute(f"ALTER TABLE {table} {told}")


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

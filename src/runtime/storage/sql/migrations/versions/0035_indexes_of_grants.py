"""Indexes of grants: of the credentials that are refreshed ahead, and of what lists of grants ask for."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Make them. Uses from before are forgotten, so that only those from now on are in the index."""
    op.execute("UPDATE vault_tokens SET used_at = NULL WHERE used_at IS NOT NULL")
    op.drop_index("vault_tokens_refresh_at_idx", "vault_tokens")
    in_use, revoked = sa.text("used_at IS NOT NULL"), sa.text("status = 'revoked'")
    op.create_index(
        "vault_tokens_in_use_idx",
        "vault_tokens",
        ["refresh_at", "used_at", "expires_at"],
        postgresql_where=in_use,
        sqlite_where=in_use,
    )
    op.drop_index("delegated_grants_resource_id_idx", "delegated_grants")
    op.create_index(
        "delegated_grants_resource_id_idx",
        "delegated_grants",
        ["zone_id", "resource_id", "created_at", "id"],
    )
    op.create_index(
        "delegated_grants_revoked_idx",
        "delegated_grants",
        ["zone_id", "created_at", "id"],
        postgresql_where=revoked,
        sqlite_where=revoked,
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

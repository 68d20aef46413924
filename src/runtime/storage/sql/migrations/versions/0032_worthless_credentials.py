"""Worthless credentials: indexes of the dead ones in the vault, and of those whose grants have expired."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Add the end of the grant, as the grants have it, and both indexes."""
    op.add_column("vault_tokens", sa.Column("grant_expires_at", INSTANT, nullable=True))
    op.execute(
        "UPDATE vault_tokens SET grant_expires_at = (SELECT expires_at FROM delegated_grants AS grants"
        " WHERE grants.zone_id = vault_tokens.zone_id AND grants.id = vault_tokens.grant_id)"
    )
    is_dead, ends = sa.text("state = 'dead'"), sa.text("grant_expires_at IS NOT NULL")
    op.create_index(
        "vault_tokens_dead_idx",
        "vault_tokens",
        ["updated_at"],
        postgresql_where=is_dead,
        sqlite_where=is_dead,
    )
    op.create_index(
        "vault_tokens_grant_expires_at_idx",
        "vault_tokens",
        ["grant_expires_at"],
        postgresql_where=ends,
        sqlite_where=ends,
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

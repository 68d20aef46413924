"""Upstream refresh: when an access token of the vault is refreshed, and when it was used last."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Add both; what is in the vault are keys, which are never refreshed."""
    op.add_column("vault_tokens", sa.Column("refresh_at", INSTANT, nullable=True))
    op.add_column("vault_tokens", sa.Column("used_at", INSTANT, nullable=True))
    op.create_index("vault_tokens_refresh_at_idx", "vault_tokens", ["refresh_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""The vault: upstream credentials of delegated grants, sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the table; no grant has a credential yet."""
    op.create_table(
        "vault_tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("grant_id", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("access_token", sa.LargeBinary(), nullable=False),
        sa.Column("refresh_token", sa.LargeBinary(), nullable=True),
        sa.Column("token_type", sa.String(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", INSTANT, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="vault_tokens_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "grant_id"],
            ["delegated_grants.zone_id", "delegated_grants.id"],
            name="vault_tokens_grant_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("vault_tokens_grant_id_key", "vault_tokens", ["zone_id", "grant_id"], unique=True)


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

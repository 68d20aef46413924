"""Who belongs to an organization, and what outlives one."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the table of organization users."""
    op.create_table(
        "organization_users",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("zone_user_id", sa.String(), nullable=False),
        sa.Column("account_issuer", sa.String(), nullable=False),
        sa.Column("account_subject", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "id", name="organization_users_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="organization_users_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "organization_users_account_key",
        "organization_users",
        ["account_issuer", "account_subject", "organization_id"],
        unique=True,
    )
    op.create_index(
        "organization_users_created_at_idx", "organization_users", ["organization_id", "created_at", "id"]
    )
    op.create_index(
        "organization_users_zone_user_id_key",
        "organization_users",
        ["organization_id", "zone_user_id"],
        unique=True,
    )

    # The head of the audit trail outlives the organization.
    with op.batch_alter_table("organization_heads") as heads:
        heads.drop_constraint("organization_heads_organization_id_fkey", type_="foreignkey")


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

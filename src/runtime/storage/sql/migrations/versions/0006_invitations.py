"""Invitations, what is waiting to be sent, and sign-in through an organization's provider."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the tables, parents first."""
    _invitations()
    _outbox()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("inviter_name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("zone_user_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "id", name="invitations_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="invitations_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("invitations_address_idx", "invitations", ["organization_id", "address"])
    op.create_index("invitations_created_at_idx", "invitations", ["organization_id", "created_at", "id"])
    op.create_index("invitations_token_hash_key", "invitations", ["token_hash"], unique=True)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=True),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("payload_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", INSTANT, nullable=False),
        sa.Column("parked_at", INSTANT, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="outbox_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="outbox_organization_id_fkey", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="outbox_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "outbox_next_attempt_at_idx",
        "outbox",
        ["next_attempt_at"],
        postgresql_where=sa.text("parked_at IS NULL"),
        sqlite_where=sa.text("parked_at IS NULL"),
    )

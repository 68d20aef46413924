"""Former issuers of zones that were moved, who asks there, and which sessions know which of them."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0044"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "zone_addresses",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("moved_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=True),
        sa.Column("has_ended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "issuer", name="zone_addresses_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id"], ["zones.id"], name="zone_addresses_zone_id_fkey", ondelete="CASCADE"
        ),
    )
    op.create_index("zone_addresses_ends_at_idx", "zone_addresses", ["ends_at"])
    op.create_table(
        "zone_address_uses",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("used_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "issuer", "endpoint", "client_id", name="zone_address_uses_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "issuer"],
            ["zone_addresses.zone_id", "zone_addresses.issuer"],
            name="zone_address_uses_issuer_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "session_issuers",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("issuer", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "session_id", name="session_issuers_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "session_id"],
            ["sessions.zone_id", "sessions.id"],
            name="session_issuers_session_id_fkey",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

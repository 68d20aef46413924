"""What was deleted that is managed from git; and which write of a secret its owner's was."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Make the table. What is archived is managed by nobody; until now its record went a little later."""
    op.create_table(
        "tombstones",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("entity_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", INSTANT, nullable=False),
        sa.Column("actor_type", sa.String(), nullable=False),
        sa.Column("actor_id", sa.String(), nullable=False),
        sa.Column("changeset_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "kind", "entity_id", name="tombstones_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="tombstones_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("tombstones_deleted_at_idx", "tombstones", ["deleted_at"])
    with op.batch_alter_table("ownerships") as table:
        table.add_column(sa.Column("secret_stamps", sa.JSON(), nullable=True))
    _drop_archived()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _drop_archived() -> None:
    records = sa.table("ownerships", sa.column("kind"), sa.column("entity_id"))
    for kind, name in (("Policy", "policies"), ("PolicySet", "policy_sets")):
        rows = sa.table(name, sa.column("id"), sa.column("archived_at"))
        archived = sa.select(rows.c.id).where(rows.c.archived_at.is_not(None))
        op.execute(sa.delete(records).where(records.c.kind == kind, records.c.entity_id.in_(archived)))

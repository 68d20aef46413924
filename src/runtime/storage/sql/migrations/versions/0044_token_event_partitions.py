"""Token events in partitions by time, on PostgreSQL: what there is becomes the default one, as it stands."""

from alembic import op

revision = "0044"
down_revision = "0043"

# Index of the table -> what PostgreSQL calls such an index of the default partition.
_INDEXES = {
    "token_events_at_idx": "token_events_default_organization_id_zone_id_at_idx",
    "token_events_age_idx": "token_events_default_at_idx",
    "token_events_request_id_idx": "token_events_default_organization_id_zone_id_request_id_idx",
}


def upgrade() -> None:
    """No row is read or moved: the catalog alone changes, and programs of before go on reading and writing.

    The job `token_event_partitions` gives it bounds, and makes the others.
    """
    if op.get_context().dialect.name != "postgresql":
        return
    op.rename_table("token_events", "token_events_default")
    op.execute(
        "ALTER TABLE token_events_default RENAME CONSTRAINT token_events_pkey TO token_events_default_pkey"
    )
    for of_table, of_partition in _INDEXES.items():
        op.execute(f"ALTER INDEX {of_table} RENAME TO {of_partition}")
    op.execute("CREATE TABLE token_events (LIKE token_events_default) PARTITION BY RANGE (at)")
    op.create_foreign_key(
        "token_events_organization_id_fkey",
        "token_events",
        "organizations",
        ["organization_id"],
        ["id"],
        ondelete="CASCADE",
    )
    op.create_index("token_events_at_idx", "token_events", ["organization_id", "zone_id", "at"])
    op.create_index(
        "token_events_request_id_idx", "token_events", ["organization_id", "zone_id", "request_id"]
    )
    op.execute("ALTER TABLE token_events ATTACH PARTITION token_events_default DEFAULT")


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""Decision records are found by the id of their request."""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """An index by request id."""
    op.create_index(
        "token_events_request_id_idx", "token_events", ["organization_id", "zone_id", "request_id"]
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

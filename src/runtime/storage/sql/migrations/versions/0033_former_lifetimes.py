"""Former lifetimes: until when tokens live that were issued under a lifetime that a resource has no more."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
LONGEST = timedelta(days=365)  # the most that a resource could say


def upgrade() -> None:
    """Add it. Of zones that are there nobody has noted it: it is as long as it can have been."""
    op.add_column("zone_internals", sa.Column("former_tokens_end_at", INSTANT, nullable=True))
    conn = op.get_bind()
    end = datetime.now(UTC) + LONGEST
    stored = end.isoformat(timespec="microseconds") if conn.dialect.name == "sqlite" else end
    conn.execute(sa.text("UPDATE zone_internals SET former_tokens_end_at = :end"), {"end": stored})


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

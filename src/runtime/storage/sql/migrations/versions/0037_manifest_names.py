"""Objects of a zone are found by the name of their manifest, whoever owns them."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

_NAME, _WHERE = "ownerships_zone_name_key", sa.text("zone_id IS NOT NULL")


def upgrade() -> None:
    """The same columns stay unique; the name comes before the owner."""
    op.drop_index(_NAME, table_name="ownerships")
    columns = ["zone_id", "kind", "name", "owner"]
    op.create_index(_NAME, "ownerships", columns, unique=True, postgresql_where=_WHERE, sqlite_where=_WHERE)


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""Who is accountable for an application: a user or a group of its zone."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add the references; nobody is accountable for an application yet."""
    for name in ("accountable_user_id", "accountable_group_id"):
        op.add_column("applications", sa.Column(name, sa.String(), nullable=True))
        op.create_index(f"applications_{name}_idx", "applications", ["zone_id", name])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

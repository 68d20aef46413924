"""Addresses of secrets: what a resource was called when the secret's value was given."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Add it. What is there was handed out for the resource as it is called now, and goes on to be."""
    op.add_column("secrets", sa.Column("resource_identifier", sa.String(), nullable=True))
    op.execute(
        "UPDATE secrets SET resource_identifier = (SELECT resources.identifier FROM resources"
        " WHERE resources.zone_id = secrets.zone_id AND resources.id = secrets.entity_id)"
    )


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""Adds the id of the credential provider that a resource had until that was deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Add the column; of providers that were deleted before, nothing is known."""
    op.add_column("resources", sa.Column("deleted_credential_provider_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

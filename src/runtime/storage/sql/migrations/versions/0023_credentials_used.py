"""Which of its credentials an application got a token by."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Of what was issued before nobody knows it: each credential of the application may have been used."""
    op.add_column("token_events", sa.Column("credential_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

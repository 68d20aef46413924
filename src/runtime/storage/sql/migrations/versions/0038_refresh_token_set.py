"""Grants whose refresh token was forgotten say so: those that were revoked, and those of dead accounts."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

_grants = sa.table(
    "delegated_grants",
    sa.column("zone_id", sa.String()),
    sa.column("id", sa.String()),
    sa.column("refresh_token_set", sa.Boolean()),
)
_tokens = sa.table(
    "vault_tokens",
    sa.column("zone_id", sa.String()),
    sa.column("grant_id", sa.String()),
    sa.column("refresh_token", sa.LargeBinary()),
)


def upgrade() -> None:
    """Have no grant say that there is a refresh token which the vault does not have."""
    kept = sa.exists().where(
        _tokens.c.zone_id == _grants.c.zone_id,
        _tokens.c.grant_id == _grants.c.id,
        _tokens.c.refresh_token.is_not(None),
    )
    op.execute(sa.update(_grants).where(_grants.c.refresh_token_set, ~kept).values(refresh_token_set=False))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""Credentials are bound to an owner and to zones; names of manifests, and plans, belong to their owner."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
_UNIQUE = {
    "ownerships_organization_name_key": ("organization_id", "zone_id IS NULL"),
    "ownerships_zone_name_key": ("zone_id", "zone_id IS NOT NULL"),
}


def upgrade() -> None:
    """Credentials that are there are bound to nothing. Names that are unique stay so beside the owner."""
    for table in ("api_keys", "service_account_credentials"):
        op.add_column(table, sa.Column("owner", sa.String(), nullable=True))
        op.add_column(table, sa.Column("zones", sa.JSON(), nullable=True))
    op.add_column("service_account_credentials", sa.Column("role", sa.String(), nullable=True))
    op.add_column("service_account_credentials", sa.Column("expires_at", INSTANT, nullable=True))
    for name, (within, where) in _UNIQUE.items():
        op.drop_index(name, table_name="ownerships")
        condition: dict[str, Any] = {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
        op.create_index(name, "ownerships", [within, "kind", "owner", "name"], unique=True, **condition)
    op.drop_index("changesets_plan_digest_key", table_name="changesets")
    columns = ["organization_id", "owner", "plan_digest"]
    op.create_index("changesets_plan_digest_key", "changesets", columns, unique=True)


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

"""API keys end: by a time, with the key or the person that made them, or by being revoked."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
_NOT_PLAIN = re.compile(r"[\x00-\x1f\x7f<>]")


def upgrade() -> None:
    """Make the table anew, as that of a kind. Keys that are there were made by an operator, and never end."""
    kept = sa.table(
        "api_keys",
        *(sa.column(name, sa.String()) for name in ("id", "organization_id", "name", "role")),
        sa.column("secret_hash", sa.LargeBinary()),
        *(sa.column(name, INSTANT) for name in ("created_at", "last_used_at")),
    )
    rows = [dict(row) for row in op.get_bind().execute(sa.select(kept)).mappings()]
    op.drop_table("api_keys")
    made = _make()
    if rows:
        op.bulk_insert(made, [_completed(row) for row in rows])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _make() -> sa.Table:
    table = op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=True),
        sa.Column("person_zone_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "id", name="api_keys_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="api_keys_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("api_keys_created_at_idx", "api_keys", ["organization_id", "created_at", "id"])
    op.create_index("api_keys_id_key", "api_keys", ["id"], unique=True)
    return table


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """A key as it is kept now. Its name was free text once; now it is shown, as other names are."""
    name = _NOT_PLAIN.sub("_", row["name"])[:255] or "unnamed"
    return {**row, "name": name, "updated_at": row["created_at"], "revision": 0, "created_by": "zoned"}

"""Heads, ownership, changes and logs; the audit log is append-only."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()
REFUSAL = "'audit_events is append-only'"
APPEND_ONLY = {
    "sqlite": (
        f"""CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events
        BEGIN SELECT RAISE(ABORT, {REFUSAL}); END""",
        f"""CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
        BEGIN SELECT RAISE(ABORT, {REFUSAL}); END""",
    ),
    "postgresql": (
        f"""CREATE FUNCTION audit_events_refuse() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE EXCEPTION {REFUSAL} USING ERRCODE = 'restrict_violation'; END $$""",
        """CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events
        FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse()""",
    ),
}


def upgrade() -> None:
    """Make the tables, parents first."""
    _heads()
    _ownerships()
    _events()
    for statement in APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def where(condition: str) -> dict[str, Any]:
    """The options of an index over some rows only."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _heads() -> None:
    """The head of an organization, and the keys it is called with."""
    op.create_table(
        "organization_heads",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("audit_sequence", sa.BigInteger(), nullable=False),
        sa.Column("audit_hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", name="organization_heads_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="organization_heads_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="api_keys_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="api_keys_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("api_keys_organization_id_idx", "api_keys", ["organization_id"])


def _ownerships() -> None:
    """What configuration sets own, and the changes they made."""
    op.create_table(
        "ownerships",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("entity_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("fields", JSON, nullable=False),
        sa.Column("applied", JSON, nullable=False),
        sa.Column("secret_versions", JSON, nullable=False),
        sa.Column("source", JSON, nullable=True),
        sa.Column("protect", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "kind", "entity_id", name="ownerships_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="ownerships_organization_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="ownerships_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ownerships_organization_name_key",
        "ownerships",
        ["organization_id", "kind", "name"],
        unique=True,
        **where("zone_id IS NULL"),
    )
    op.create_index(
        "ownerships_zone_name_key",
        "ownerships",
        ["zone_id", "kind", "name"],
        unique=True,
        **where("zone_id IS NOT NULL"),
    )
    op.create_table(
        "changesets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("plan_digest", sa.String(), nullable=False),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("base_revision", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("operations", sa.BigInteger(), nullable=False),
        sa.Column("source", JSON, nullable=True),
        sa.Column("result", JSON, nullable=False),
        sa.Column("audit_first", sa.BigInteger(), nullable=True),
        sa.Column("audit_last", sa.BigInteger(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "id", name="changesets_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="changesets_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("changesets_created_at_idx", "changesets", ["organization_id", "created_at", "id"])
    op.create_index(
        "changesets_plan_digest_key", "changesets", ["organization_id", "plan_digest"], unique=True
    )


def _events() -> None:
    """The audit log and the log of token decisions."""
    op.create_table(
        "audit_events",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor_type", sa.String(), nullable=False),
        sa.Column("actor_id", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("entity_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.Column("changeset_id", sa.String(), nullable=True),
        sa.Column("request_id", sa.String(), nullable=True),
        sa.Column("before", JSON, nullable=True),
        sa.Column("after", JSON, nullable=True),
        sa.Column("previous_hash", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("organization_id", "sequence", name="audit_events_pkey"),
    )
    op.create_index("audit_events_entity_id_idx", "audit_events", ["organization_id", "entity_id"])
    op.create_table(
        "token_events",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("application_id", sa.String(), nullable=True),
        sa.Column("resource_id", sa.String(), nullable=True),
        sa.Column("actors", JSON, nullable=True),
        sa.Column("determining", JSON, nullable=True),
        sa.Column("request_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "id", name="token_events_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="token_events_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("token_events_at_idx", "token_events", ["organization_id", "zone_id", "at"])

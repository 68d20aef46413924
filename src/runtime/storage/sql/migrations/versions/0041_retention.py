"""What else is forgotten by its age: refresh token families, receipts of changesets, and the audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
REFUSAL = "'audit_events is append-only'"
IS_KEPT = (
    "OLD.sequence > COALESCE((SELECT sequence FROM audit_anchors"
    " WHERE organization_id = OLD.organization_id), 0)"
)
GUARDS = {
    "sqlite": (
        "DROP TRIGGER audit_events_no_delete",
        f"""CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events WHEN {IS_KEPT}
        BEGIN SELECT RAISE(ABORT, {REFUSAL}); END""",
    ),
    "postgresql": (
        "DROP TRIGGER audit_events_append_only ON audit_events",
        """CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR TRUNCATE ON audit_events
        FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse()""",
        f"""CREATE FUNCTION audit_events_refuse_kept() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN IF {IS_KEPT}
        THEN RAISE EXCEPTION {REFUSAL} USING ERRCODE = 'restrict_violation'; END IF; RETURN OLD; END $$""",
        """CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
        FOR EACH ROW EXECUTE FUNCTION audit_events_refuse_kept()""",
    ),
}


def upgrade() -> None:
    """Let an audit trail begin later than with its first record, and nothing else of it be deleted."""
    op.create_table(
        "audit_anchors",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("organization_id", name="audit_anchors_pkey"),
    )
    for statement in GUARDS[op.get_bind().dialect.name]:
        op.execute(statement)
    op.create_index("refresh_families_expires_at_idx", "refresh_families", ["expires_at"])
    op.create_index("changesets_age_idx", "changesets", ["created_at"])


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")

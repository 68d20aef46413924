"""Clients that register themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()
ONE_PARTY = "(application_id IS NULL) <> (user_agent_id IS NULL)"
# 104 random bits, in the words of each database.
NEW_ID = {
    "sqlite": "lower(hex(randomblob(13)))",
    "postgresql": "substr(md5(random()::text || clock_timestamp()::text || ctid::text), 1, 26)",
}


def upgrade() -> None:
    """Make the table of user agents, and let what applications have be theirs too."""
    _user_agents()
    _sessions()
    _refresh_families()
    _consents()
    op.add_column("token_events", sa.Column("user_agent_id", sa.String(), nullable=True))


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _user_agents() -> None:
    op.create_table(
        "user_agents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("registration", sa.String(), nullable=False),
        sa.Column("client_metadata", JSON, nullable=False),
        sa.Column("used_at", INSTANT, nullable=False),
        sa.Column("fresh_until", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="user_agents_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="user_agents_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("user_agents_created_at_idx", "user_agents", ["zone_id", "created_at", "id"])
    op.create_index("user_agents_identifier_key", "user_agents", ["zone_id", "identifier"], unique=True)
    op.create_index("user_agents_slug_key", "user_agents", ["zone_id", "slug"], unique=True)


def _sessions() -> None:
    with op.batch_alter_table("sessions") as table:
        table.add_column(sa.Column("user_agent_id", sa.String(), nullable=True))
        table.create_foreign_key(
            "sessions_user_agent_id_fkey",
            "user_agents",
            ["zone_id", "user_agent_id"],
            ["zone_id", "id"],
            ondelete="CASCADE",
        )
    op.create_index("sessions_user_agent_id_idx", "sessions", ["zone_id", "user_agent_id"])


def _refresh_families() -> None:
    with op.batch_alter_table("refresh_families") as table:
        table.add_column(sa.Column("user_agent_id", sa.String(), nullable=True))
        table.alter_column("application_id", existing_type=sa.String(), nullable=True)
        table.create_foreign_key(
            "refresh_families_user_agent_id_fkey",
            "user_agents",
            ["zone_id", "user_agent_id"],
            ["zone_id", "id"],
            ondelete="CASCADE",
        )
        table.create_check_constraint("refresh_families_party_check", ONE_PARTY)
    op.create_index("refresh_families_user_agent_id_idx", "refresh_families", ["zone_id", "user_agent_id"])


def _consents() -> None:
    """The application was part of the primary key: the table is made anew around what it held."""
    kept = "zone_id, user_id, application_id, resource_id, scopes, redirect_host, created_at, updated_at"
    op.execute("CREATE TABLE consents_before AS SELECT * FROM consents")
    op.drop_table("consents")
    op.create_table(
        "consents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=True),
        sa.Column("user_agent_id", sa.String(), nullable=True),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("redirect_host", sa.String(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="consents_pkey"),
        sa.CheckConstraint(ONE_PARTY, name="consents_party_check"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="consents_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_agent_id"],
            ["user_agents.zone_id", "user_agents.id"],
            name="consents_user_agent_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="consents_user_id_fkey",
            ondelete="CASCADE",
        ),
    )
    new_id = NEW_ID[op.get_bind().dialect.name]
    # Constants alone go into the text.
    op.execute(f"INSERT INTO consents (id, {kept}) SELECT {new_id}, {kept} FROM consents_before")  # noqa: S608
    op.drop_table("consents_before")
    for client_ref in ("application_id", "user_agent_id"):
        op.create_index(
            f"consents_user_{client_ref}_key",
            "consents",
            ["zone_id", "user_id", client_ref, "resource_id"],
            unique=True,
        )
        op.create_index(f"consents_{client_ref}_idx", "consents", ["zone_id", client_ref])

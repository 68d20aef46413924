"""What a zone signs with, what its users are signed in to, and what they agreed to."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()


def upgrade() -> None:
    """Make the tables, parents first."""
    _zone_keys()
    _dependencies()
    _sessions()
    _grants()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _zone_keys() -> None:
    """What a zone keeps to itself."""
    op.create_table(
        "zone_internals",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("data_key_wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("access_token_algorithm", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("policy_schema_version", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", name="zone_internals_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="zone_internals_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "zone_keys",
        sa.Column("kid", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("algorithm", sa.String(), nullable=False),
        sa.Column("private_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("public_jwk", JSON, nullable=False),
        sa.Column("publish_at", INSTANT, nullable=False),
        sa.Column("activate_at", INSTANT, nullable=False),
        sa.Column("retire_at", INSTANT, nullable=True),
        sa.Column("remove_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("kid", name="zone_keys_pkey"),
        sa.ForeignKeyConstraint(["zone_id"], ["zones.id"], name="zone_keys_zone_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("zone_keys_zone_id_idx", "zone_keys", ["zone_id"])


def _dependencies() -> None:
    """What applications depend on."""
    op.create_table(
        "application_dependencies",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("when_accessing", JSON, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint(
            "zone_id", "application_id", "resource_id", name="application_dependencies_pkey"
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="application_dependencies_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "resource_id"],
            ["resources.zone_id", "resources.id"],
            name="application_dependencies_resource_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "application_dependencies_resource_id_idx", "application_dependencies", ["zone_id", "resource_id"]
    )


def _sessions() -> None:
    """Sessions, and the refresh tokens that follow from them."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("application_id", sa.String(), nullable=True),
        sa.Column("session_type", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("authenticated_at", INSTANT, nullable=True),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("acr", sa.String(), nullable=True),
        sa.Column("amr", JSON, nullable=True),
        sa.Column("provider_id", sa.String(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("session_data", JSON, nullable=True),
        sa.Column("metadata", JSON, nullable=True),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("cookie_hash", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="sessions_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="sessions_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "parent_id"],
            ["sessions.zone_id", "sessions.id"],
            name="sessions_parent_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="sessions_user_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="sessions_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("sessions_application_id_idx", "sessions", ["zone_id", "application_id"])
    op.create_index("sessions_cookie_hash_key", "sessions", ["cookie_hash"], unique=True)
    op.create_index("sessions_created_at_idx", "sessions", ["zone_id", "created_at", "id"])
    op.create_index("sessions_parent_id_idx", "sessions", ["zone_id", "parent_id"])
    op.create_index("sessions_user_id_idx", "sessions", ["zone_id", "user_id"])
    op.create_table(
        "refresh_families",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("resources", JSON, nullable=False),
        sa.Column("current_hash", sa.LargeBinary(), nullable=False),
        sa.Column("previous_hash", sa.LargeBinary(), nullable=True),
        sa.Column("successor_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("rotated_at", INSTANT, nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="refresh_families_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="refresh_families_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "session_id"],
            ["sessions.zone_id", "sessions.id"],
            name="refresh_families_session_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="refresh_families_user_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("refresh_families_application_id_idx", "refresh_families", ["zone_id", "application_id"])
    op.create_index("refresh_families_current_hash_key", "refresh_families", ["current_hash"], unique=True)
    op.create_index("refresh_families_previous_hash_idx", "refresh_families", ["previous_hash"])
    op.create_index("refresh_families_session_id_idx", "refresh_families", ["zone_id", "session_id"])
    op.create_index("refresh_families_user_id_idx", "refresh_families", ["zone_id", "user_id"])


def _grants() -> None:
    """What users agreed to."""
    op.create_table(
        "consents",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("redirect_host", sa.String(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "user_id", "application_id", "resource_id", name="consents_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="consents_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="consents_user_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("consents_application_id_idx", "consents", ["zone_id", "application_id"])
    op.create_table(
        "delegated_grants",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("refresh_token_set", sa.Boolean(), nullable=False),
        sa.Column("refreshed_at", INSTANT, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="delegated_grants_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "provider_id"],
            ["providers.zone_id", "providers.id"],
            name="delegated_grants_provider_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "resource_id"],
            ["resources.zone_id", "resources.id"],
            name="delegated_grants_resource_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="delegated_grants_user_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="delegated_grants_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("delegated_grants_created_at_idx", "delegated_grants", ["zone_id", "created_at", "id"])
    op.create_index("delegated_grants_provider_id_idx", "delegated_grants", ["zone_id", "provider_id"])
    op.create_index("delegated_grants_resource_id_idx", "delegated_grants", ["zone_id", "resource_id"])
    op.create_index(
        "delegated_grants_user_id_key",
        "delegated_grants",
        ["zone_id", "user_id", "resource_id", "provider_id"],
        unique=True,
    )

"""Organizations, zones, and what a zone's applications and resources are."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()


def upgrade() -> None:
    """Make the tables, parents first."""
    _service_secrets()
    _organizations()
    _zones()
    _providers()
    _applications()
    _resources()
    _application_credentials()
    if op.get_bind().dialect.name != "sqlite":  # which took them with the table
        _late_references()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def _service_secrets() -> None:
    """What all processes of the service share."""
    op.create_table(
        "service_secrets",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="service_secrets_pkey"),
    )


def _organizations() -> None:
    """Organizations and their service accounts."""
    op.create_table(
        "organizations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("sso_enabled", sa.Boolean(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="organizations_pkey"),
    )
    op.create_index("organizations_created_at_idx", "organizations", ["created_at", "id"])
    op.create_index("organizations_label_key", "organizations", ["label"], unique=True)
    op.create_table(
        "service_accounts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "id", name="service_accounts_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="service_accounts_organization_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "service_accounts_created_at_idx", "service_accounts", ["organization_id", "created_at", "id"]
    )
    op.create_index("service_accounts_name_key", "service_accounts", ["organization_id", "name"], unique=True)
    op.create_table(
        "service_account_credentials",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("service_account_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", "id", name="service_account_credentials_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name="service_account_credentials_organization_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "service_account_id"],
            ["service_accounts.organization_id", "service_accounts.id"],
            name="service_account_credentials_service_account_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "service_account_credentials_client_id_key", "service_account_credentials", ["client_id"], unique=True
    )
    op.create_index(
        "service_account_credentials_created_at_idx",
        "service_account_credentials",
        ["organization_id", "service_account_id", "created_at", "id"],
    )


def _zones() -> None:
    """Zones; their references to their own children follow in `_late_references`."""
    op.create_table(
        "zones",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("protocols", JSON, nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("default_mcp_gateway_application_id", sa.String(), nullable=True),
        sa.Column("default_resource_id", sa.String(), nullable=True),
        sa.Column("encryption_key", JSON, nullable=True),
        sa.Column("external_sync_enabled", sa.Boolean(), nullable=False),
        sa.Column("requires_invitation", sa.Boolean(), nullable=False),
        sa.Column("user_identity_provider_id", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="zones_pkey"),
        sa.ForeignKeyConstraint(
            ["id", "default_mcp_gateway_application_id"],
            ["applications.zone_id", "applications.id"],
            name="zones_default_mcp_gateway_application_id_fkey",
            use_alter=True,
        ),
        sa.ForeignKeyConstraint(
            ["id", "default_resource_id"],
            ["resources.zone_id", "resources.id"],
            name="zones_default_resource_id_fkey",
            use_alter=True,
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="zones_organization_id_fkey", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["id", "user_identity_provider_id"],
            ["providers.zone_id", "providers.id"],
            name="zones_user_identity_provider_id_fkey",
            use_alter=True,
        ),
    )
    op.create_index("zones_created_at_idx", "zones", ["organization_id", "created_at", "id"])
    op.create_index("zones_id_key", "zones", ["organization_id", "id"], unique=True)
    op.create_index("zones_slug_key", "zones", ["organization_id", "slug"], unique=True)


def _providers() -> None:
    """Identity providers and vaults."""
    op.create_table(
        "providers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=True),
        sa.Column("client_secret", sa.LargeBinary(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("metadata", JSON, nullable=True),
        sa.Column("protocols", JSON, nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="providers_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="providers_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("providers_created_at_idx", "providers", ["zone_id", "created_at", "id"])
    op.create_index("providers_identifier_key", "providers", ["zone_id", "identifier"], unique=True)
    op.create_index("providers_slug_key", "providers", ["zone_id", "slug"], unique=True)


def _applications() -> None:
    """The clients of a zone."""
    op.create_table(
        "applications",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("consent", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("metadata", JSON, nullable=True),
        sa.Column("protocols", JSON, nullable=True),
        sa.Column("traits", JSON, nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="applications_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="applications_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("applications_created_at_idx", "applications", ["zone_id", "created_at", "id"])
    op.create_index("applications_identifier_key", "applications", ["zone_id", "identifier"], unique=True)
    op.create_index("applications_slug_key", "applications", ["zone_id", "slug"], unique=True)


def _resources() -> None:
    """What tokens are for."""
    op.create_table(
        "resources",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=True),
        sa.Column("application_type", sa.String(), nullable=False),
        sa.Column("credential_lifetime_seconds", sa.BigInteger(), nullable=True),
        sa.Column("credential_provider_id", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("metadata", JSON, nullable=True),
        sa.Column("prefix", sa.Boolean(), nullable=False),
        sa.Column("scopes", JSON, nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="resources_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="resources_application_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "credential_provider_id"],
            ["providers.zone_id", "providers.id"],
            name="resources_credential_provider_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="resources_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("resources_application_id_idx", "resources", ["zone_id", "application_id"])
    op.create_index("resources_created_at_idx", "resources", ["zone_id", "created_at", "id"])
    op.create_index(
        "resources_credential_provider_id_idx", "resources", ["zone_id", "credential_provider_id"]
    )
    op.create_index("resources_identifier_key", "resources", ["zone_id", "identifier"], unique=True)
    op.create_index("resources_slug_key", "resources", ["zone_id", "slug"], unique=True)


def _application_credentials() -> None:
    """Client identifiers and secrets."""
    op.create_table(
        "application_credentials",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("slug", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=True),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("any_subject", sa.Boolean(), nullable=True),
        sa.Column("jwks_uri", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="application_credentials_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "application_id"],
            ["applications.zone_id", "applications.id"],
            name="application_credentials_application_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "provider_id"],
            ["providers.zone_id", "providers.id"],
            name="application_credentials_provider_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="application_credentials_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "application_credentials_application_id_idx", "application_credentials", ["zone_id", "application_id"]
    )
    op.create_index(
        "application_credentials_created_at_idx", "application_credentials", ["zone_id", "created_at", "id"]
    )
    op.create_index(
        "application_credentials_identifier_key",
        "application_credentials",
        ["zone_id", "identifier"],
        unique=True,
        postgresql_where=sa.text("type != 'token'"),
        sqlite_where=sa.text("type != 'token'"),
    )
    op.create_index(
        "application_credentials_token_identifier_key",
        "application_credentials",
        ["zone_id", "provider_id", "identifier"],
        unique=True,
        postgresql_where=sa.text("type = 'token'"),
        sqlite_where=sa.text("type = 'token'"),
    )
    op.create_index(
        "application_credentials_provider_id_idx", "application_credentials", ["zone_id", "provider_id"]
    )
    op.create_index(
        "application_credentials_slug_key", "application_credentials", ["zone_id", "slug"], unique=True
    )


def _late_references() -> None:
    """What a zone refers to among its own children."""
    for column, target in (
        ("default_mcp_gateway_application_id", "applications"),
        ("default_resource_id", "resources"),
        ("user_identity_provider_id", "providers"),
    ):
        op.create_foreign_key(f"zones_{column}_fkey", "zones", target, ["id", column], ["zone_id", "id"])

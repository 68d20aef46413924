"""Users, groups, roles, and the policies that decide about them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
JSON = sa.JSON()


def upgrade() -> None:
    """Make the tables, parents first."""
    _people()
    _memberships()
    _roles()
    _policies()
    _policy_sets()


def downgrade() -> None:
    """Going back would lose data: restore a backup instead."""
    raise RuntimeError("there is no way back before this version; restore a backup")


def where(condition: str) -> dict[str, Any]:
    """The options of an index over some rows only."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _people() -> None:
    """Users and groups."""
    op.create_table(
        "users",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("email_verified", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.Column("authenticated_at", INSTANT, nullable=True),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("provider_id", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="users_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="users_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("users_created_at_idx", "users", ["zone_id", "created_at", "id"])
    op.create_index("users_email_idx", "users", ["zone_id", "email"])
    op.create_index("users_identifier_key", "users", ["zone_id", "identifier"], unique=True)
    op.create_index("users_subject_idx", "users", ["zone_id", "issuer", "subject"])
    op.create_table(
        "groups",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("external", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="groups_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="groups_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("groups_created_at_idx", "groups", ["zone_id", "created_at", "id"])
    op.create_index("groups_identifier_key", "groups", ["zone_id", "identifier"], unique=True)


def _memberships() -> None:
    """How users authenticate, and which groups they are in."""
    op.create_table(
        "user_credentials",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("password_hash", sa.String(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="user_credentials_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "provider_id"],
            ["providers.zone_id", "providers.id"],
            name="user_credentials_provider_id_fkey",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="user_credentials_user_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "user_credentials_password_key",
        "user_credentials",
        ["zone_id", "user_id"],
        unique=True,
        **where("type = 'password'"),
    )
    op.create_index("user_credentials_provider_id_idx", "user_credentials", ["zone_id", "provider_id"])
    op.create_index(
        "user_credentials_subject_key", "user_credentials", ["zone_id", "issuer", "subject"], unique=True
    )
    op.create_index("user_credentials_user_id_idx", "user_credentials", ["zone_id", "user_id"])
    op.create_table(
        "group_members",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "group_id", "user_id", name="group_members_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "group_id"],
            ["groups.zone_id", "groups.id"],
            name="group_members_group_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "user_id"],
            ["users.zone_id", "users.id"],
            name="group_members_user_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("group_members_user_id_idx", "group_members", ["zone_id", "user_id"])
    op.create_table(
        "group_invitees",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "group_id", "email", name="group_invitees_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "group_id"],
            ["groups.zone_id", "groups.id"],
            name="group_invitees_group_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("group_invitees_email_idx", "group_invitees", ["zone_id", "email"])


def _roles() -> None:
    """Roles and who holds them."""
    op.create_table(
        "roles",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("identifier", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="roles_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="roles_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("roles_created_at_idx", "roles", ["zone_id", "created_at", "id"])
    op.create_index("roles_identifier_key", "roles", ["zone_id", "owner_type", "identifier"], unique=True)
    op.create_table(
        "role_assignments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("principal_id", sa.String(), nullable=False),
        sa.Column("principal_type", sa.String(), nullable=False),
        sa.Column("role_id", sa.String(), nullable=False),
        sa.Column("role_identifier", sa.String(), nullable=False),
        sa.Column("role_owner_type", sa.String(), nullable=False),
        sa.Column("scope_id", sa.String(), nullable=True),
        sa.Column("scope_type", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="role_assignments_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "role_id"],
            ["roles.zone_id", "roles.id"],
            name="role_assignments_role_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="role_assignments_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("role_assignments_created_at_idx", "role_assignments", ["zone_id", "created_at", "id"])
    op.create_index(
        "role_assignments_principal_id_idx", "role_assignments", ["zone_id", "principal_type", "principal_id"]
    )
    op.create_index("role_assignments_role_id_idx", "role_assignments", ["zone_id", "role_id"])


def _policies() -> None:
    """Policies and their versions."""
    op.create_table(
        "policies",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("target_type", sa.String(), nullable=False),
        sa.Column("archived_at", INSTANT, nullable=True),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("latest_schema_version", sa.String(), nullable=True),
        sa.Column("latest_version", sa.BigInteger(), nullable=True),
        sa.Column("latest_version_id", sa.String(), nullable=True),
        sa.Column("updated_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="policies_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="policies_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("policies_created_at_idx", "policies", ["zone_id", "created_at", "id"])
    op.create_index(
        "policies_name_key", "policies", ["zone_id", "name"], unique=True, **where("archived_at IS NULL")
    )
    op.create_table(
        "policy_versions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("policy_id", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("schema_version", sa.String(), nullable=False),
        sa.Column("cedar_json", JSON, nullable=True),
        sa.Column("cedar_raw", sa.String(), nullable=True),
        sa.Column("sha", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("archived_at", INSTANT, nullable=True),
        sa.Column("archived_by", sa.String(), nullable=True),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="policy_versions_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "policy_id"],
            ["policies.zone_id", "policies.id"],
            name="policy_versions_policy_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="policy_versions_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "policy_versions_created_at_idx", "policy_versions", ["zone_id", "policy_id", "created_at", "id"]
    )
    op.create_index(
        "policy_versions_version_key", "policy_versions", ["zone_id", "policy_id", "version"], unique=True
    )


def _policy_sets() -> None:
    """Policy sets, their versions, and which of them decide."""
    op.create_table(
        "policy_sets",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("target_type", sa.String(), nullable=False),
        sa.Column("target_id", sa.String(), nullable=True),
        sa.Column("archived_at", INSTANT, nullable=True),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("latest_version", sa.BigInteger(), nullable=True),
        sa.Column("latest_version_id", sa.String(), nullable=True),
        sa.Column("updated_by", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("zone_id", "id", name="policy_sets_pkey"),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="policy_sets_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index("policy_sets_created_at_idx", "policy_sets", ["zone_id", "created_at", "id"])
    op.create_index(
        "policy_sets_name_key",
        "policy_sets",
        ["zone_id", "name"],
        unique=True,
        **where("archived_at IS NULL"),
    )
    op.create_table(
        "policy_set_versions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("policy_set_id", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("schema_version", sa.String(), nullable=False),
        sa.Column("manifest", JSON, nullable=False),
        sa.Column("manifest_sha", sa.String(), nullable=False),
        sa.Column("attestation", JSON, nullable=True),
        sa.Column("owner_type", sa.String(), nullable=False),
        sa.Column("archived_at", INSTANT, nullable=True),
        sa.Column("archived_by", sa.String(), nullable=True),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "id", name="policy_set_versions_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "policy_set_id"],
            ["policy_sets.zone_id", "policy_sets.id"],
            name="policy_set_versions_policy_set_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organization_id", "zone_id"],
            ["zones.organization_id", "zones.id"],
            name="policy_set_versions_zone_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "policy_set_versions_created_at_idx",
        "policy_set_versions",
        ["zone_id", "policy_set_id", "created_at", "id"],
    )
    op.create_index(
        "policy_set_versions_version_key",
        "policy_set_versions",
        ["zone_id", "policy_set_id", "version"],
        unique=True,
    )
    op.create_table(
        "policy_set_bindings",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("target_type", sa.String(), nullable=False),
        sa.Column("target_id", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("policy_set_id", sa.String(), nullable=False),
        sa.Column("policy_set_version_id", sa.String(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint(
            "zone_id", "target_type", "target_id", "mode", name="policy_set_bindings_pkey"
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "policy_set_id"],
            ["policy_sets.zone_id", "policy_sets.id"],
            name="policy_set_bindings_policy_set_id_fkey",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["zone_id", "policy_set_version_id"],
            ["policy_set_versions.zone_id", "policy_set_versions.id"],
            name="policy_set_bindings_policy_set_version_id_fkey",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "policy_set_bindings_policy_set_id_idx", "policy_set_bindings", ["zone_id", "policy_set_id"]
    )
    op.create_index(
        "policy_set_bindings_policy_set_version_id_idx",
        "policy_set_bindings",
        ["zone_id", "policy_set_version_id"],
    )

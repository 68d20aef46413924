"""The tables of sessions, consents, delegated grants with their vault tokens, and refresh families.

Each belongs to a zone and a user, and goes with them.
"""

from sqlalchemy import Boolean, Column, Index, Table, literal_column

from runtime.storage.sql.client_refs import one_party
from runtime.storage.sql.columns import METADATA, belongs, binary, instant, json, number, primary_key, text

sessions = Table(
    "sessions",
    METADATA,
    text("id"),
    text("organization_id"),
    text("zone_id"),
    text("user_id", nullable=True),
    text("application_id", nullable=True),
    text("user_agent_id", nullable=True),
    text("client_id", nullable=True),
    text("session_type"),
    text("status"),
    number("epoch"),
    instant("authenticated_at", nullable=True),
    instant("expires_at"),
    text("acr", nullable=True),
    json("amr"),
    text("provider_id", nullable=True),
    text("issuer", nullable=True),
    text("subject", nullable=True),
    text("provider_subject", nullable=True),
    text("provider_session", nullable=True),
    binary("provider_id_token", nullable=True),
    json("session_data"),
    json("metadata"),
    text("parent_id", nullable=True),
    text("browser_session_id", nullable=True),
    binary("cookie_hash", nullable=True),
    instant("created_at"),
    instant("updated_at"),
    primary_key("sessions", "zone_id", "id"),
    belongs("sessions", "organization_id zone_id", "zones organization_id id"),
    belongs("sessions", "zone_id user_id", "users zone_id id"),
    belongs("sessions", "zone_id application_id", "applications zone_id id"),
    belongs("sessions", "zone_id user_agent_id", "user_agents zone_id id"),
    belongs("sessions", "zone_id parent_id", "sessions zone_id id"),
)
# Which issuer the client of a session was told last, where its zone was moved: a logout token says that one.
session_issuers = Table(
    "session_issuers",
    METADATA,
    text("zone_id"),
    text("session_id"),
    text("issuer"),
    primary_key("session_issuers", "zone_id", "session_id"),
    belongs("session_issuers", "zone_id session_id", "sessions zone_id id"),
)

Index("sessions_cookie_hash_key", sessions.c.cookie_hash, unique=True)
Index("sessions_expires_at_idx", sessions.c.expires_at)
Index("sessions_created_at_idx", sessions.c.zone_id, sessions.c.created_at, sessions.c.id)
Index("sessions_user_id_idx", sessions.c.zone_id, sessions.c.user_id)
Index("sessions_application_id_idx", sessions.c.zone_id, sessions.c.application_id)
Index("sessions_user_agent_id_idx", sessions.c.zone_id, sessions.c.user_agent_id)
Index("sessions_parent_id_idx", sessions.c.zone_id, sessions.c.parent_id)
Index("sessions_browser_session_id_idx", sessions.c.zone_id, sessions.c.browser_session_id)
Index("sessions_provider_subject_idx", sessions.c.zone_id, sessions.c.provider_subject)
Index("sessions_provider_session_idx", sessions.c.zone_id, sessions.c.provider_session)

# `resource_id` is empty for the scopes of signing in itself.
consents = Table(
    "consents",
    METADATA,
    text("id"),
    text("zone_id"),
    text("user_id"),
    text("application_id", nullable=True),
    text("user_agent_id", nullable=True),
    text("resource_id"),
    json("scopes", nullable=False),
    text("redirect_host", nullable=True),
    instant("created_at"),
    instant("updated_at"),
    primary_key("consents", "zone_id", "id"),
    belongs("consents", "zone_id user_id", "users zone_id id"),
    belongs("consents", "zone_id application_id", "applications zone_id id"),
    belongs("consents", "zone_id user_agent_id", "user_agents zone_id id"),
    one_party("consents"),
)
for _party in ("application_id", "user_agent_id"):
    Index(
        f"consents_user_{_party}_key",
        *(consents.c[name] for name in ("zone_id", "user_id", _party, "resource_id")),
        unique=True,
    )
    Index(f"consents_{_party}_idx", consents.c.zone_id, consents.c[_party])
Index("consents_resource_id_idx", consents.c.zone_id, consents.c.resource_id)

delegated_grants = Table(
    "delegated_grants",
    METADATA,
    text("id"),
    text("organization_id"),
    text("zone_id"),
    text("user_id"),
    text("resource_id"),
    text("provider_id"),
    json("scopes", nullable=False),
    text("status"),
    number("epoch"),
    instant("expires_at", nullable=True),
    Column("refresh_token_set", Boolean, nullable=False),
    instant("refreshed_at", nullable=True),
    instant("created_at"),
    instant("updated_at"),
    primary_key("delegated_grants", "zone_id", "id"),
    belongs("delegated_grants", "organization_id zone_id", "zones organization_id id"),
    belongs("delegated_grants", "zone_id user_id", "users zone_id id"),
    belongs("delegated_grants", "zone_id resource_id", "resources zone_id id"),
    belongs("delegated_grants", "zone_id provider_id", "providers zone_id id"),
)
Index(
    "delegated_grants_user_id_key",
    delegated_grants.c.zone_id,
    delegated_grants.c.user_id,
    delegated_grants.c.resource_id,
    delegated_grants.c.provider_id,
    unique=True,
)
Index(
    "delegated_grants_created_at_idx",
    delegated_grants.c.zone_id,
    delegated_grants.c.created_at,
    delegated_grants.c.id,
)
Index(
    "delegated_grants_resource_id_idx",
    delegated_grants.c.zone_id,
    delegated_grants.c.resource_id,
    delegated_grants.c.created_at,
    delegated_grants.c.id,
)
_REVOKED = delegated_grants.c.status == literal_column("'revoked'")
Index(
    "delegated_grants_revoked_idx",
    delegated_grants.c.zone_id,
    delegated_grants.c.created_at,
    delegated_grants.c.id,
    postgresql_where=_REVOKED,
    sqlite_where=_REVOKED,
)
_ENDING = delegated_grants.c.expires_at.is_not(None)
Index(
    "delegated_grants_ending_idx",
    delegated_grants.c.zone_id,
    delegated_grants.c.created_at,
    delegated_grants.c.id,
    postgresql_where=_ENDING,
    sqlite_where=_ENDING,
)
Index("delegated_grants_provider_id_idx", delegated_grants.c.zone_id, delegated_grants.c.provider_id)

# The upstream credential of a delegated grant. `version` is the one that a refresh compares and swaps; who
# holds the lease is the only one that refreshes. A lease without an owner is a pause after a failure. What
# nobody has used lately may have no `used_at`. The end of the grant is here as well, so that what nobody can
# use any more is found without reading the grants.
vault_tokens = Table(
    "vault_tokens",
    METADATA,
    text("id"),
    text("zone_id"),
    text("grant_id"),
    number("version"),
    binary("access_token"),
    binary("refresh_token", nullable=True),
    text("token_type"),
    instant("expires_at", nullable=True),
    text("state"),
    number("failures"),
    text("lease_owner", nullable=True),
    instant("lease_until", nullable=True),
    instant("refresh_at", nullable=True),
    instant("used_at", nullable=True),
    instant("grant_expires_at", nullable=True),
    instant("created_at"),
    instant("updated_at"),
    primary_key("vault_tokens", "zone_id", "id"),
    belongs("vault_tokens", "zone_id grant_id", "delegated_grants zone_id id"),
)
Index("vault_tokens_grant_id_key", vault_tokens.c.zone_id, vault_tokens.c.grant_id, unique=True)
# Of those in use, which are few: a credential that nobody uses is due for ever.
_IN_USE = vault_tokens.c.used_at.is_not(None)
Index(
    "vault_tokens_in_use_idx",
    vault_tokens.c.refresh_at,
    vault_tokens.c.used_at,
    vault_tokens.c.expires_at,
    postgresql_where=_IN_USE,
    sqlite_where=_IN_USE,
)
_DEAD = vault_tokens.c.state == literal_column("'dead'")
Index("vault_tokens_dead_idx", vault_tokens.c.updated_at, postgresql_where=_DEAD, sqlite_where=_DEAD)
_ENDS = vault_tokens.c.grant_expires_at.is_not(None)
Index(
    "vault_tokens_grant_expires_at_idx",
    vault_tokens.c.grant_expires_at,
    postgresql_where=_ENDS,
    sqlite_where=_ENDS,
)

# The refresh tokens that follow from one sign-in: one is current, the one before is tolerated for a moment.
refresh_families = Table(
    "refresh_families",
    METADATA,
    text("id"),
    text("zone_id"),
    text("application_id", nullable=True),
    text("user_agent_id", nullable=True),
    text("client_id"),
    text("session_id"),
    text("user_id"),
    json("scopes", nullable=False),
    json("resources", nullable=False),
    binary("current_hash"),
    binary("previous_hash", nullable=True),
    binary("successor_sealed", nullable=True),
    instant("rotated_at", nullable=True),
    text("status"),
    text("jkt", nullable=True),
    instant("expires_at"),
    instant("created_at"),
    primary_key("refresh_families", "zone_id", "id"),
    belongs("refresh_families", "zone_id application_id", "applications zone_id id"),
    belongs("refresh_families", "zone_id user_agent_id", "user_agents zone_id id"),
    belongs("refresh_families", "zone_id session_id", "sessions zone_id id"),
    belongs("refresh_families", "zone_id user_id", "users zone_id id"),
    one_party("refresh_families"),
)
Index("refresh_families_current_hash_key", refresh_families.c.current_hash, unique=True)
Index("refresh_families_previous_hash_idx", refresh_families.c.previous_hash)
Index("refresh_families_application_id_idx", refresh_families.c.zone_id, refresh_families.c.application_id)
Index("refresh_families_user_agent_id_idx", refresh_families.c.zone_id, refresh_families.c.user_agent_id)
Index("refresh_families_expires_at_idx", refresh_families.c.expires_at)
Index("refresh_families_session_id_idx", refresh_families.c.zone_id, refresh_families.c.session_id)
Index("refresh_families_user_id_idx", refresh_families.c.zone_id, refresh_families.c.user_id)

"""The tables of an organization besides those of the kinds: head, audit log, outbox, changesets and the like.

Each belongs to an organization or a zone and goes with it. The two logs are the exception: `audit_events` has
no foreign key at all and can only be appended to, and `token_events` outlives the zones it speaks of.
"""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Index,
    Table,
    and_,
    event,
    false,
    literal_column,
)

from runtime.storage.sql.columns import (
    METADATA,
    ONLY_ON,
    belongs,
    binary,
    instant,
    json,
    number,
    primary_key,
    text,
)

# What all processes of the service share: the pepper, the key of paging cursors. Wrapped by the master key.
service_secrets = Table(
    "service_secrets",
    METADATA,
    text("name"),
    binary("wrapped"),
    primary_key("service_secrets", "name"),
)

# One row an organization. Updating it is what puts an organization's writes one after the other. It outlives
# the organization, as its audit trail does: what that proves, it proves up to here.
organization_heads = Table(
    "organization_heads",
    METADATA,
    text("organization_id"),
    number("revision"),
    number("audit_sequence"),
    text("audit_hash"),
    primary_key("organization_heads", "organization_id"),
)

zone_internals = Table(
    "zone_internals",
    METADATA,
    text("zone_id"),
    text("organization_id"),
    binary("data_key_wrapped"),
    text("access_token_algorithm"),
    number("epoch"),
    text("policy_schema_version"),
    json("switches"),
    # How many single tokens were ever revoked: an epoch of its own.
    Column("denials", BigInteger, nullable=False, server_default="0"),
    # When the last token of a lifetime has expired that a resource of the zone had once, and has no more.
    instant("former_tokens_end_at", nullable=True),
    primary_key("zone_internals", "zone_id"),
    belongs("zone_internals", "organization_id zone_id", "zones organization_id id"),
)

# A signing key is published, then signs, then only verifies, then is gone: four instants.
zone_keys = Table(
    "zone_keys",
    METADATA,
    text("kid"),
    text("zone_id"),
    text("algorithm"),
    binary("private_sealed"),
    json("public_jwk", nullable=False),
    instant("publish_at"),
    instant("activate_at"),
    instant("retire_at", nullable=True),
    instant("remove_at", nullable=True),
    primary_key("zone_keys", "kid"),
    belongs("zone_keys", "zone_id", "zones id"),
)
Index("zone_keys_zone_id_idx", zone_keys.c.zone_id)

# The issuers that a zone had before it was moved. Those that have ended stay: an address of a zone that is
# gone is told from one that nobody knows, and no resource of the zone is ever called so.
zone_addresses = Table(
    "zone_addresses",
    METADATA,
    text("zone_id"),
    text("issuer"),
    instant("moved_at"),
    instant("ends_at", nullable=True),
    Column("has_ended", Boolean, nullable=False),
    primary_key("zone_addresses", "zone_id", "issuer"),
    belongs("zone_addresses", "zone_id", "zones id"),
)
Index("zone_addresses_ends_at_idx", zone_addresses.c.ends_at)

# Who still asks at a former address of a zone: each client that has proved who it is, and, without one, each
# sort of request that is made by nobody in particular.
zone_address_uses = Table(
    "zone_address_uses",
    METADATA,
    text("zone_id"),
    text("issuer"),
    text("endpoint"),
    text("client_id"),
    instant("used_at"),
    primary_key("zone_address_uses", "zone_id", "issuer", "endpoint", "client_id"),
    belongs("zone_address_uses", "zone_id issuer", "zone_addresses zone_id issuer"),
)

user_credentials = Table(
    "user_credentials",
    METADATA,
    text("id"),
    text("zone_id"),
    text("user_id"),
    text("type"),
    text("provider_id", nullable=True),
    text("issuer", nullable=True),
    text("subject", nullable=True),
    text("password_hash", nullable=True),
    instant("created_at"),
    instant("updated_at"),
    primary_key("user_credentials", "zone_id", "id"),
    belongs("user_credentials", "zone_id user_id", "users zone_id id"),
    belongs("user_credentials", "zone_id provider_id", "providers zone_id id", ondelete=None),
)
Index(
    "user_credentials_subject_key",
    user_credentials.c.zone_id,
    user_credentials.c.issuer,
    user_credentials.c.subject,
    unique=True,
)
Index(
    "user_credentials_password_key",
    user_credentials.c.zone_id,
    user_credentials.c.user_id,
    unique=True,
    postgresql_where=user_credentials.c.type == "password",
    sqlite_where=user_credentials.c.type == "password",
)
Index("user_credentials_user_id_idx", user_credentials.c.zone_id, user_credentials.c.user_id)
Index("user_credentials_provider_id_idx", user_credentials.c.zone_id, user_credentials.c.provider_id)

group_members = Table(
    "group_members",
    METADATA,
    text("zone_id"),
    text("group_id"),
    text("user_id"),
    instant("created_at"),
    primary_key("group_members", "zone_id", "group_id", "user_id"),
    belongs("group_members", "zone_id group_id", "groups zone_id id"),
    belongs("group_members", "zone_id user_id", "users zone_id id"),
)
Index("group_members_user_id_idx", group_members.c.zone_id, group_members.c.user_id)

# People named by e-mail address, in lower case, who have not signed in yet.
group_invitees = Table(
    "group_invitees",
    METADATA,
    text("zone_id"),
    text("group_id"),
    text("email"),
    instant("created_at"),
    primary_key("group_invitees", "zone_id", "group_id", "email"),
    belongs("group_invitees", "zone_id group_id", "groups zone_id id"),
)
Index("group_invitees_email_idx", group_invitees.c.zone_id, group_invitees.c.email)

application_dependencies = Table(
    "application_dependencies",
    METADATA,
    text("zone_id"),
    text("application_id"),
    text("resource_id"),
    json("when_accessing"),
    instant("created_at"),
    primary_key("application_dependencies", "zone_id", "application_id", "resource_id"),
    belongs("application_dependencies", "zone_id application_id", "applications zone_id id"),
    belongs("application_dependencies", "zone_id resource_id", "resources zone_id id"),
)
Index(
    "application_dependencies_resource_id_idx",
    application_dependencies.c.zone_id,
    application_dependencies.c.resource_id,
)

policy_set_bindings = Table(
    "policy_set_bindings",
    METADATA,
    text("zone_id"),
    text("target_type"),
    text("target_id"),
    text("mode"),
    text("policy_set_id"),
    text("policy_set_version_id"),
    instant("created_at"),
    primary_key("policy_set_bindings", "zone_id", "target_type", "target_id", "mode"),
    belongs("policy_set_bindings", "zone_id policy_set_id", "policy_sets zone_id id"),
    belongs("policy_set_bindings", "zone_id policy_set_version_id", "policy_set_versions zone_id id"),
)
Index(
    "policy_set_bindings_policy_set_id_idx",
    policy_set_bindings.c.zone_id,
    policy_set_bindings.c.policy_set_id,
)
Index(
    "policy_set_bindings_policy_set_version_id_idx",
    policy_set_bindings.c.zone_id,
    policy_set_bindings.c.policy_set_version_id,
)

# Which configuration set an entity belongs to. `zone_id` is null for zones and for what no zone owns.
ownerships = Table(
    "ownerships",
    METADATA,
    text("organization_id"),
    text("zone_id", nullable=True),
    text("kind"),
    text("entity_id"),
    text("owner"),
    text("name"),
    json("fields", nullable=False),
    json("applied", nullable=False),
    json("secret_versions", nullable=False),
    # Path of a secret -> digest of what is stored of it: another one, and somebody else has written it since.
    json("secret_stamps"),
    json("source"),
    Column("protect", Boolean, nullable=False),
    Column("undelivered", Boolean, nullable=False, server_default=false()),
    number("revision"),
    instant("updated_at"),
    primary_key("ownerships", "organization_id", "kind", "entity_id"),
    belongs("ownerships", "organization_id", "organizations id"),
    belongs("ownerships", "organization_id zone_id", "zones organization_id id"),
)
Index("ownerships_entity_id_idx", ownerships.c.zone_id, ownerships.c.kind, ownerships.c.entity_id)
Index(
    "ownerships_protect_idx",
    ownerships.c.organization_id,
    postgresql_where=ownerships.c.protect.is_(True),
    sqlite_where=ownerships.c.protect.is_(True),
)
Index(
    "ownerships_zone_name_key",
    ownerships.c.zone_id,
    ownerships.c.kind,
    ownerships.c.name,  # before the owner: people name objects without one
    ownerships.c.owner,
    unique=True,
    postgresql_where=ownerships.c.zone_id.is_not(None),
    sqlite_where=ownerships.c.zone_id.is_not(None),
)
Index(
    "ownerships_organization_name_key",
    ownerships.c.organization_id,
    ownerships.c.kind,
    ownerships.c.owner,
    ownerships.c.name,
    unique=True,
    postgresql_where=ownerships.c.zone_id.is_(None),
    sqlite_where=ownerships.c.zone_id.is_(None),
)

# What is gone and was managed, until its owner has heard of it. The zone may be gone, too.
tombstones = Table(
    "tombstones",
    METADATA,
    text("organization_id"),
    text("kind"),
    text("entity_id"),
    text("zone_id", nullable=True),
    text("zone", nullable=True),
    text("owner"),
    text("name"),
    number("revision"),
    instant("deleted_at"),
    text("actor_type"),
    text("actor_id"),
    text("changeset_id", nullable=True),
    primary_key("tombstones", "organization_id", "kind", "entity_id"),
    belongs("tombstones", "organization_id", "organizations id"),
)
Index("tombstones_deleted_at_idx", tombstones.c.deleted_at)

changesets = Table(
    "changesets",
    METADATA,
    text("id"),
    text("organization_id"),
    text("owner"),
    text("plan_digest"),
    text("body_digest"),
    number("base_revision"),
    number("revision"),
    number("operations"),
    json("source"),
    json("result", nullable=False),
    number("audit_first", nullable=True),
    number("audit_last", nullable=True),
    instant("created_at"),
    text("created_by"),
    primary_key("changesets", "organization_id", "id"),
    belongs("changesets", "organization_id", "organizations id"),
)
Index(
    "changesets_plan_digest_key",
    changesets.c.organization_id,
    changesets.c.owner,
    changesets.c.plan_digest,
    unique=True,
)
Index("changesets_age_idx", changesets.c.created_at)
Index("changesets_created_at_idx", changesets.c.organization_id, changesets.c.created_at, changesets.c.id)

audit_events = Table(
    "audit_events",
    METADATA,
    text("organization_id"),
    number("sequence"),
    text("id"),
    instant("at"),
    text("actor_type"),
    text("actor_id"),
    text("action"),
    text("kind"),
    text("entity_id"),
    text("zone_id", nullable=True),
    text("changeset_id", nullable=True),
    text("request_id", nullable=True),
    json("before"),
    json("after"),
    text("previous_hash"),
    text("hash"),
    primary_key("audit_events", "organization_id", "sequence"),
)
Index("audit_events_entity_id_idx", audit_events.c.organization_id, audit_events.c.entity_id)

# A row stands for as many `requests` as it says, for one where that is null. PostgreSQL has partitions of it,
# each with a key of its own: one of all of them would have to have the time, which the id has in it already.
token_events = Table(
    "token_events",
    METADATA,
    text("id"),
    text("organization_id"),
    text("zone_id"),
    instant("at"),
    text("event"),
    text("outcome"),
    text("reason", nullable=True),
    number("step", nullable=True),
    text("user_id", nullable=True),
    text("application_id", nullable=True),
    text("user_agent_id", nullable=True),
    text("resource_id", nullable=True),
    json("actors"),
    json("determining"),
    text("request_id", nullable=True),
    number("requests", nullable=True),
    text("credential_id", nullable=True),
    primary_key("token_events", "organization_id", "id").ddl_if(dialect="sqlite"),
    belongs("token_events", "organization_id", "organizations id"),
    postgresql_partition_by="RANGE (at)",
)
Index("token_events_at_idx", token_events.c.organization_id, token_events.c.zone_id, token_events.c.at)
# PostgreSQL drops partitions by their age.
Index("token_events_age_idx", token_events.c.at, info={ONLY_ON: "sqlite"}).ddl_if(dialect="sqlite")
Index(
    "token_events_request_id_idx",
    token_events.c.organization_id,
    token_events.c.zone_id,
    token_events.c.request_id,
)
DEFAULT_PARTITION = (
    "CREATE TABLE token_events_default (LIKE token_events, PRIMARY KEY (organization_id, id))",
    "ALTER TABLE token_events ATTACH PARTITION token_events_default DEFAULT",
)
for _statement in DEFAULT_PARTITION:
    _partition = DDL(_statement).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]
    event.listen(token_events, "after_create", _partition)

# Where an organization's audit trail begins, once its older records were pruned: `sequence` and `hash` are
# those of the last that were. Like the trail itself it stays when the organization goes.
audit_anchors = Table(
    "audit_anchors",
    METADATA,
    text("organization_id"),
    number("sequence"),
    text("hash"),
    instant("at"),
    primary_key("audit_anchors", "organization_id"),
)

# The audit log is append-only for everyone who does not first drop these; what is before an anchor may go.
_REFUSAL = "'audit_events is append-only'"
_IS_KEPT = (
    "OLD.sequence > COALESCE((SELECT sequence FROM audit_anchors"
    " WHERE organization_id = OLD.organization_id), 0)"
)
GUARDS: dict[str, tuple[str, ...]] = {
    "sqlite": (
        f"""CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events
    BEGIN SELECT RAISE(ABORT, {_REFUSAL}); END""",
        f"""CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events WHEN {_IS_KEPT}
    BEGIN SELECT RAISE(ABORT, {_REFUSAL}); END""",
    ),
    "postgresql": (
        f"""CREATE FUNCTION audit_events_refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION {_REFUSAL} USING ERRCODE = 'restrict_violation'; END $$""",
        """CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse()""",
        f"""CREATE FUNCTION audit_events_refuse_kept() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN IF {_IS_KEPT}
    THEN RAISE EXCEPTION {_REFUSAL} USING ERRCODE = 'restrict_violation'; END IF; RETURN OLD; END $$""",
        """CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_events_refuse_kept()""",
    ),
}
for _dialect, _statements in GUARDS.items():
    for _statement in _statements:
        _guard = DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]
        event.listen(audit_events, "after_create", _guard)

# What leaves the service because of a write. A parked row is tried no more.
outbox = Table(
    "outbox",
    METADATA,
    text("id"),
    text("organization_id", nullable=True),
    text("zone_id", nullable=True),
    text("topic"),
    binary("payload_sealed"),
    number("attempts"),
    instant("next_attempt_at"),
    instant("parked_at", nullable=True),
    instant("created_at"),
    text("receiver", nullable=True),
    primary_key("outbox", "id"),
    belongs("outbox", "organization_id", "organizations id"),
    belongs("outbox", "organization_id zone_id", "zones organization_id id"),
)
Index(
    "outbox_next_attempt_at_idx",
    outbox.c.next_attempt_at,
    postgresql_where=outbox.c.parked_at.is_(None),
    sqlite_where=outbox.c.parked_at.is_(None),
)
_TRIED = and_(outbox.c.parked_at.is_(None), outbox.c.attempts > literal_column("0"))
Index(
    "outbox_receiver_idx", outbox.c.zone_id, outbox.c.receiver, postgresql_where=_TRIED, sqlite_where=_TRIED
)

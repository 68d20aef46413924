-- Written from the kinds and the hand-written tables, for PostgreSQL. SQLite has the same tables.

CREATE TABLE api_keys (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    created_by VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    owner VARCHAR,
    zones JSON,
    expires_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    secret_hash BYTEA NOT NULL,
    person_id VARCHAR,
    person_zone_id VARCHAR,
    CONSTRAINT api_keys_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX api_keys_created_at_idx ON api_keys (organization_id, created_at, id);

CREATE UNIQUE INDEX api_keys_id_key ON api_keys (id);

CREATE TABLE application_credentials (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    application_id VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    last_used_at TIMESTAMP WITH TIME ZONE,
    secret_hash BYTEA,
    slot BIGINT DEFAULT '0' NOT NULL,
    type VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    provider_id VARCHAR,
    subject VARCHAR,
    any_subject BOOLEAN,
    jwks_uri VARCHAR,
    CONSTRAINT application_credentials_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT application_credentials_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT application_credentials_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT application_credentials_provider_id_fkey FOREIGN KEY(zone_id, provider_id) REFERENCES providers (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX application_credentials_application_id_idx ON application_credentials (zone_id, application_id);

CREATE INDEX application_credentials_created_at_idx ON application_credentials (zone_id, created_at, id);

CREATE UNIQUE INDEX application_credentials_identifier_key ON application_credentials (zone_id, identifier, slot) WHERE type != 'token';

CREATE INDEX application_credentials_provider_id_idx ON application_credentials (zone_id, provider_id);

CREATE UNIQUE INDEX application_credentials_slug_key ON application_credentials (zone_id, slug);

CREATE UNIQUE INDEX application_credentials_token_identifier_key ON application_credentials (zone_id, provider_id, identifier) WHERE type = 'token';

CREATE TABLE application_dependencies (
    zone_id VARCHAR NOT NULL,
    application_id VARCHAR NOT NULL,
    resource_id VARCHAR NOT NULL,
    when_accessing JSON,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT application_dependencies_pkey PRIMARY KEY (zone_id, application_id, resource_id),
    CONSTRAINT application_dependencies_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT application_dependencies_resource_id_fkey FOREIGN KEY(zone_id, resource_id) REFERENCES resources (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX application_dependencies_resource_id_idx ON application_dependencies (zone_id, resource_id);

CREATE TABLE applications (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    consent VARCHAR NOT NULL,
    description VARCHAR,
    metadata JSON,
    protocols JSON,
    traits JSON,
    accountable_user_id VARCHAR,
    accountable_group_id VARCHAR,
    CONSTRAINT applications_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT applications_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX applications_accountable_group_id_idx ON applications (zone_id, accountable_group_id);

CREATE INDEX applications_accountable_user_id_idx ON applications (zone_id, accountable_user_id);

CREATE INDEX applications_created_at_idx ON applications (zone_id, created_at, id);

CREATE UNIQUE INDEX applications_identifier_key ON applications (zone_id, identifier);

CREATE UNIQUE INDEX applications_slug_key ON applications (zone_id, slug);

CREATE TABLE assigned_names (
    kind VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    holder_id VARCHAR NOT NULL,
    assigned_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT assigned_names_pkey PRIMARY KEY (kind, name)
);

CREATE TABLE audit_anchors (
    organization_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    hash VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT audit_anchors_pkey PRIMARY KEY (organization_id)
);

CREATE TABLE audit_events (
    organization_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    id VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    actor_type VARCHAR NOT NULL,
    actor_id VARCHAR NOT NULL,
    action VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    entity_id VARCHAR NOT NULL,
    zone_id VARCHAR,
    changeset_id VARCHAR,
    request_id VARCHAR,
    before JSON,
    after JSON,
    previous_hash VARCHAR NOT NULL,
    hash VARCHAR NOT NULL,
    CONSTRAINT audit_events_pkey PRIMARY KEY (organization_id, sequence)
);

CREATE INDEX audit_events_entity_id_idx ON audit_events (organization_id, entity_id);

CREATE TABLE changesets (
    id VARCHAR NOT NULL,
    organization_id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    plan_digest VARCHAR NOT NULL,
    body_digest VARCHAR NOT NULL,
    base_revision BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    operations BIGINT NOT NULL,
    source JSON,
    result JSON NOT NULL,
    audit_first BIGINT,
    audit_last BIGINT,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_by VARCHAR NOT NULL,
    CONSTRAINT changesets_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT changesets_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX changesets_age_idx ON changesets (created_at);

CREATE INDEX changesets_created_at_idx ON changesets (organization_id, created_at, id);

CREATE UNIQUE INDEX changesets_plan_digest_key ON changesets (organization_id, owner, plan_digest);

CREATE TABLE consents (
    id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    application_id VARCHAR,
    user_agent_id VARCHAR,
    resource_id VARCHAR NOT NULL,
    scopes JSON NOT NULL,
    redirect_host VARCHAR,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT consents_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT consents_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT consents_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT consents_user_agent_id_fkey FOREIGN KEY(zone_id, user_agent_id) REFERENCES user_agents (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT consents_party_check CHECK ((application_id IS NULL) <> (user_agent_id IS NULL))
);

CREATE INDEX consents_application_id_idx ON consents (zone_id, application_id);

CREATE INDEX consents_resource_id_idx ON consents (zone_id, resource_id);

CREATE INDEX consents_user_agent_id_idx ON consents (zone_id, user_agent_id);

CREATE UNIQUE INDEX consents_user_application_id_key ON consents (zone_id, user_id, application_id, resource_id);

CREATE UNIQUE INDEX consents_user_user_agent_id_key ON consents (zone_id, user_id, user_agent_id, resource_id);

CREATE TABLE delegated_grants (
    id VARCHAR NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    resource_id VARCHAR NOT NULL,
    provider_id VARCHAR NOT NULL,
    scopes JSON NOT NULL,
    status VARCHAR NOT NULL,
    epoch BIGINT NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    refresh_token_set BOOLEAN NOT NULL,
    refreshed_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT delegated_grants_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT delegated_grants_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT delegated_grants_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT delegated_grants_resource_id_fkey FOREIGN KEY(zone_id, resource_id) REFERENCES resources (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT delegated_grants_provider_id_fkey FOREIGN KEY(zone_id, provider_id) REFERENCES providers (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX delegated_grants_created_at_idx ON delegated_grants (zone_id, created_at, id);

CREATE INDEX delegated_grants_ending_idx ON delegated_grants (zone_id, created_at, id) WHERE expires_at IS NOT NULL;

CREATE INDEX delegated_grants_provider_id_idx ON delegated_grants (zone_id, provider_id);

CREATE INDEX delegated_grants_resource_id_idx ON delegated_grants (zone_id, resource_id, created_at, id);

CREATE INDEX delegated_grants_revoked_idx ON delegated_grants (zone_id, created_at, id) WHERE status = 'revoked';

CREATE UNIQUE INDEX delegated_grants_user_id_key ON delegated_grants (zone_id, user_id, resource_id, provider_id);

CREATE TABLE epoch_changes (
    id VARCHAR NOT NULL,
    position BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    epochs JSON NOT NULL,
    CONSTRAINT epoch_changes_pkey PRIMARY KEY (id)
);

CREATE INDEX epoch_changes_position_idx ON epoch_changes (position);

CREATE TABLE group_invitees (
    zone_id VARCHAR NOT NULL,
    group_id VARCHAR NOT NULL,
    email VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT group_invitees_pkey PRIMARY KEY (zone_id, group_id, email),
    CONSTRAINT group_invitees_group_id_fkey FOREIGN KEY(zone_id, group_id) REFERENCES groups (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX group_invitees_email_idx ON group_invitees (zone_id, email);

CREATE TABLE group_members (
    zone_id VARCHAR NOT NULL,
    group_id VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT group_members_pkey PRIMARY KEY (zone_id, group_id, user_id),
    CONSTRAINT group_members_group_id_fkey FOREIGN KEY(zone_id, group_id) REFERENCES groups (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT group_members_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX group_members_user_id_idx ON group_members (zone_id, user_id);

CREATE TABLE groups (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    external BOOLEAN NOT NULL,
    CONSTRAINT groups_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT groups_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX groups_created_at_idx ON groups (zone_id, created_at, id);

CREATE UNIQUE INDEX groups_identifier_key ON groups (zone_id, identifier);

CREATE TABLE invitations (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    created_by VARCHAR NOT NULL,
    email VARCHAR NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    role VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    address VARCHAR NOT NULL,
    inviter_name VARCHAR NOT NULL,
    token_hash BYTEA NOT NULL,
    zone_user_id VARCHAR,
    CONSTRAINT invitations_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT invitations_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX invitations_address_idx ON invitations (organization_id, address);

CREATE INDEX invitations_created_at_idx ON invitations (organization_id, created_at, id);

CREATE UNIQUE INDEX invitations_token_hash_key ON invitations (token_hash);

CREATE TABLE jobs (
    name VARCHAR NOT NULL,
    next_at TIMESTAMP WITH TIME ZONE NOT NULL,
    holder VARCHAR,
    leased_until TIMESTAMP WITH TIME ZONE,
    failures BIGINT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE,
    succeeded_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT jobs_pkey PRIMARY KEY (name)
);

CREATE TABLE organization_heads (
    organization_id VARCHAR NOT NULL,
    revision BIGINT NOT NULL,
    audit_sequence BIGINT NOT NULL,
    audit_hash VARCHAR NOT NULL,
    CONSTRAINT organization_heads_pkey PRIMARY KEY (organization_id)
);

CREATE TABLE organization_users (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    email VARCHAR,
    role VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    zone_user_id VARCHAR NOT NULL,
    account_issuer VARCHAR NOT NULL,
    account_subject VARCHAR NOT NULL,
    CONSTRAINT organization_users_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT organization_users_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX organization_users_account_key ON organization_users (account_issuer, account_subject, organization_id);

CREATE INDEX organization_users_created_at_idx ON organization_users (organization_id, created_at, id);

CREATE UNIQUE INDEX organization_users_zone_user_id_key ON organization_users (organization_id, zone_user_id);

CREATE TABLE organizations (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    label VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    sso_enabled BOOLEAN NOT NULL,
    zone_id VARCHAR,
    CONSTRAINT organizations_pkey PRIMARY KEY (id)
);

CREATE INDEX organizations_created_at_idx ON organizations (created_at, id);

CREATE UNIQUE INDEX organizations_label_key ON organizations (label);

CREATE TABLE outbox (
    id VARCHAR NOT NULL,
    organization_id VARCHAR,
    zone_id VARCHAR,
    topic VARCHAR NOT NULL,
    payload_sealed BYTEA NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE NOT NULL,
    parked_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    receiver VARCHAR,
    CONSTRAINT outbox_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE,
    CONSTRAINT outbox_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX outbox_next_attempt_at_idx ON outbox (next_attempt_at) WHERE parked_at IS NULL;

CREATE INDEX outbox_receiver_idx ON outbox (zone_id, receiver) WHERE parked_at IS NULL AND attempts > 0;

CREATE TABLE ownerships (
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR,
    kind VARCHAR NOT NULL,
    entity_id VARCHAR NOT NULL,
    owner VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    fields JSON NOT NULL,
    applied JSON NOT NULL,
    secret_versions JSON NOT NULL,
    secret_stamps JSON,
    source JSON,
    protect BOOLEAN NOT NULL,
    undelivered BOOLEAN DEFAULT false NOT NULL,
    revision BIGINT NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT ownerships_pkey PRIMARY KEY (organization_id, kind, entity_id),
    CONSTRAINT ownerships_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE,
    CONSTRAINT ownerships_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX ownerships_entity_id_idx ON ownerships (zone_id, kind, entity_id);

CREATE UNIQUE INDEX ownerships_organization_name_key ON ownerships (organization_id, kind, owner, name) WHERE zone_id IS NULL;

CREATE INDEX ownerships_protect_idx ON ownerships (organization_id) WHERE protect IS true;

CREATE UNIQUE INDEX ownerships_zone_name_key ON ownerships (zone_id, kind, name, owner) WHERE zone_id IS NOT NULL;

CREATE TABLE policies (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR,
    absent_names JSON,
    owner_type VARCHAR NOT NULL,
    target_type VARCHAR NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE,
    created_by VARCHAR NOT NULL,
    latest_schema_version VARCHAR,
    latest_version BIGINT,
    latest_version_id VARCHAR,
    updated_by VARCHAR,
    CONSTRAINT policies_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT policies_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX policies_created_at_idx ON policies (zone_id, created_at, id);

CREATE UNIQUE INDEX policies_name_key ON policies (zone_id, name) WHERE archived_at IS NULL;

CREATE TABLE policy_set_bindings (
    zone_id VARCHAR NOT NULL,
    target_type VARCHAR NOT NULL,
    target_id VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    policy_set_id VARCHAR NOT NULL,
    policy_set_version_id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT policy_set_bindings_pkey PRIMARY KEY (zone_id, target_type, target_id, mode),
    CONSTRAINT policy_set_bindings_policy_set_id_fkey FOREIGN KEY(zone_id, policy_set_id) REFERENCES policy_sets (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT policy_set_bindings_policy_set_version_id_fkey FOREIGN KEY(zone_id, policy_set_version_id) REFERENCES policy_set_versions (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX policy_set_bindings_policy_set_id_idx ON policy_set_bindings (zone_id, policy_set_id);

CREATE INDEX policy_set_bindings_policy_set_version_id_idx ON policy_set_bindings (zone_id, policy_set_version_id);

CREATE TABLE policy_set_versions (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    policy_set_id VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    schema_version VARCHAR NOT NULL,
    manifest JSON NOT NULL,
    manifest_sha VARCHAR NOT NULL,
    attestation JSON,
    owner_type VARCHAR NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE,
    archived_by VARCHAR,
    created_by VARCHAR NOT NULL,
    CONSTRAINT policy_set_versions_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT policy_set_versions_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT policy_set_versions_policy_set_id_fkey FOREIGN KEY(zone_id, policy_set_id) REFERENCES policy_sets (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX policy_set_versions_created_at_idx ON policy_set_versions (zone_id, policy_set_id, created_at, id);

CREATE UNIQUE INDEX policy_set_versions_version_key ON policy_set_versions (zone_id, policy_set_id, version);

CREATE TABLE policy_sets (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    target_type VARCHAR NOT NULL,
    target_id VARCHAR,
    archived_at TIMESTAMP WITH TIME ZONE,
    created_by VARCHAR NOT NULL,
    latest_version BIGINT,
    latest_version_id VARCHAR,
    updated_by VARCHAR,
    CONSTRAINT policy_sets_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT policy_sets_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX policy_sets_created_at_idx ON policy_sets (zone_id, created_at, id);

CREATE UNIQUE INDEX policy_sets_name_key ON policy_sets (zone_id, name) WHERE archived_at IS NULL;

CREATE TABLE policy_versions (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    policy_id VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    schema_version VARCHAR NOT NULL,
    cedar_json JSON,
    cedar_raw VARCHAR,
    sha VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE,
    archived_by VARCHAR,
    created_by VARCHAR NOT NULL,
    CONSTRAINT policy_versions_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT policy_versions_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT policy_versions_policy_id_fkey FOREIGN KEY(zone_id, policy_id) REFERENCES policies (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX policy_versions_created_at_idx ON policy_versions (zone_id, policy_id, created_at, id);

CREATE UNIQUE INDEX policy_versions_version_key ON policy_versions (zone_id, policy_id, version);

CREATE TABLE providers (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    client_id VARCHAR,
    client_secret BYTEA,
    description VARCHAR,
    metadata JSON,
    protocols JSON,
    CONSTRAINT providers_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT providers_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX providers_created_at_idx ON providers (zone_id, created_at, id);

CREATE UNIQUE INDEX providers_identifier_key ON providers (zone_id, identifier);

CREATE UNIQUE INDEX providers_slug_key ON providers (zone_id, slug);

CREATE TABLE refresh_families (
    id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    application_id VARCHAR,
    user_agent_id VARCHAR,
    client_id VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    scopes JSON NOT NULL,
    resources JSON NOT NULL,
    current_hash BYTEA NOT NULL,
    previous_hash BYTEA,
    successor_sealed BYTEA,
    rotated_at TIMESTAMP WITH TIME ZONE,
    status VARCHAR NOT NULL,
    jkt VARCHAR,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT refresh_families_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT refresh_families_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT refresh_families_user_agent_id_fkey FOREIGN KEY(zone_id, user_agent_id) REFERENCES user_agents (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT refresh_families_session_id_fkey FOREIGN KEY(zone_id, session_id) REFERENCES sessions (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT refresh_families_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT refresh_families_party_check CHECK ((application_id IS NULL) <> (user_agent_id IS NULL))
);

CREATE INDEX refresh_families_application_id_idx ON refresh_families (zone_id, application_id);

CREATE UNIQUE INDEX refresh_families_current_hash_key ON refresh_families (current_hash);

CREATE INDEX refresh_families_expires_at_idx ON refresh_families (expires_at);

CREATE INDEX refresh_families_previous_hash_idx ON refresh_families (previous_hash);

CREATE INDEX refresh_families_session_id_idx ON refresh_families (zone_id, session_id);

CREATE INDEX refresh_families_user_agent_id_idx ON refresh_families (zone_id, user_agent_id);

CREATE INDEX refresh_families_user_id_idx ON refresh_families (zone_id, user_id);

CREATE TABLE resources (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    application_id VARCHAR,
    application_type VARCHAR NOT NULL,
    credential_lifetime_seconds BIGINT,
    credential_provider_id VARCHAR,
    deleted_credential_provider_id VARCHAR,
    description VARCHAR,
    metadata JSON,
    prefix BOOLEAN NOT NULL,
    scopes JSON,
    CONSTRAINT resources_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT resources_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT resources_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id),
    CONSTRAINT resources_credential_provider_id_fkey FOREIGN KEY(zone_id, credential_provider_id) REFERENCES providers (zone_id, id)
);

CREATE INDEX resources_application_id_idx ON resources (zone_id, application_id);

CREATE INDEX resources_created_at_idx ON resources (zone_id, created_at, id);

CREATE INDEX resources_credential_lifetime_seconds_idx ON resources (zone_id, credential_lifetime_seconds);

CREATE INDEX resources_credential_provider_id_idx ON resources (zone_id, credential_provider_id);

CREATE UNIQUE INDEX resources_identifier_key ON resources (zone_id, identifier);

CREATE UNIQUE INDEX resources_slug_key ON resources (zone_id, slug);

CREATE TABLE revocations (
    zone_id VARCHAR NOT NULL,
    id VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    forget_at TIMESTAMP WITH TIME ZONE NOT NULL,
    claims JSON NOT NULL,
    token_id VARCHAR,
    CONSTRAINT revocations_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT revocations_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX revocations_at_idx ON revocations (zone_id, at);

CREATE INDEX revocations_forget_at_idx ON revocations (forget_at);

CREATE UNIQUE INDEX revocations_token_id_key ON revocations (zone_id, token_id);

CREATE TABLE role_assignments (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    principal_id VARCHAR NOT NULL,
    principal_type VARCHAR NOT NULL,
    role_id VARCHAR NOT NULL,
    role_identifier VARCHAR NOT NULL,
    role_owner_type VARCHAR NOT NULL,
    scope_id VARCHAR,
    scope_type VARCHAR,
    CONSTRAINT role_assignments_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT role_assignments_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT role_assignments_role_id_fkey FOREIGN KEY(zone_id, role_id) REFERENCES roles (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX role_assignments_created_at_idx ON role_assignments (zone_id, created_at, id);

CREATE INDEX role_assignments_principal_id_idx ON role_assignments (zone_id, principal_type, principal_id);

CREATE INDEX role_assignments_role_id_idx ON role_assignments (zone_id, role_id);

CREATE TABLE roles (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    description VARCHAR,
    CONSTRAINT roles_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT roles_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX roles_created_at_idx ON roles (zone_id, created_at, id);

CREATE UNIQUE INDEX roles_identifier_key ON roles (zone_id, owner_type, identifier);

CREATE TABLE secrets (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    description VARCHAR,
    entity_id VARCHAR NOT NULL,
    metadata JSON,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    data BYTEA NOT NULL,
    resource_identifier VARCHAR,
    CONSTRAINT secrets_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT secrets_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX secrets_created_at_idx ON secrets (zone_id, created_at, id);

CREATE INDEX secrets_entity_id_idx ON secrets (zone_id, entity_id);

CREATE TABLE service_account_credentials (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    service_account_id VARCHAR NOT NULL,
    client_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR,
    role VARCHAR,
    owner VARCHAR,
    zones JSON,
    expires_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    secret_hash BYTEA,
    CONSTRAINT service_account_credentials_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT service_account_credentials_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE,
    CONSTRAINT service_account_credentials_service_account_id_fkey FOREIGN KEY(organization_id, service_account_id) REFERENCES service_accounts (organization_id, id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX service_account_credentials_client_id_key ON service_account_credentials (client_id);

CREATE INDEX service_account_credentials_created_at_idx ON service_account_credentials (organization_id, service_account_id, created_at, id);

CREATE TABLE service_accounts (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    description VARCHAR,
    CONSTRAINT service_accounts_pkey PRIMARY KEY (organization_id, id),
    CONSTRAINT service_accounts_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX service_accounts_created_at_idx ON service_accounts (organization_id, created_at, id);

CREATE UNIQUE INDEX service_accounts_name_key ON service_accounts (organization_id, name);

CREATE TABLE service_secrets (
    name VARCHAR NOT NULL,
    wrapped BYTEA NOT NULL,
    CONSTRAINT service_secrets_pkey PRIMARY KEY (name)
);

CREATE TABLE session_issuers (
    zone_id VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    issuer VARCHAR NOT NULL,
    CONSTRAINT session_issuers_pkey PRIMARY KEY (zone_id, session_id),
    CONSTRAINT session_issuers_session_id_fkey FOREIGN KEY(zone_id, session_id) REFERENCES sessions (zone_id, id) ON DELETE CASCADE
);

CREATE TABLE sessions (
    id VARCHAR NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    user_id VARCHAR,
    application_id VARCHAR,
    user_agent_id VARCHAR,
    client_id VARCHAR,
    session_type VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    epoch BIGINT NOT NULL,
    authenticated_at TIMESTAMP WITH TIME ZONE,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    acr VARCHAR,
    amr JSON,
    provider_id VARCHAR,
    issuer VARCHAR,
    subject VARCHAR,
    provider_subject VARCHAR,
    provider_session VARCHAR,
    provider_id_token BYTEA,
    session_data JSON,
    metadata JSON,
    parent_id VARCHAR,
    browser_session_id VARCHAR,
    cookie_hash BYTEA,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT sessions_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT sessions_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT sessions_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT sessions_application_id_fkey FOREIGN KEY(zone_id, application_id) REFERENCES applications (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT sessions_user_agent_id_fkey FOREIGN KEY(zone_id, user_agent_id) REFERENCES user_agents (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT sessions_parent_id_fkey FOREIGN KEY(zone_id, parent_id) REFERENCES sessions (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX sessions_application_id_idx ON sessions (zone_id, application_id);

CREATE INDEX sessions_browser_session_id_idx ON sessions (zone_id, browser_session_id);

CREATE UNIQUE INDEX sessions_cookie_hash_key ON sessions (cookie_hash);

CREATE INDEX sessions_created_at_idx ON sessions (zone_id, created_at, id);

CREATE INDEX sessions_expires_at_idx ON sessions (expires_at);

CREATE INDEX sessions_parent_id_idx ON sessions (zone_id, parent_id);

CREATE INDEX sessions_provider_session_idx ON sessions (zone_id, provider_session);

CREATE INDEX sessions_provider_subject_idx ON sessions (zone_id, provider_subject);

CREATE INDEX sessions_user_agent_id_idx ON sessions (zone_id, user_agent_id);

CREATE INDEX sessions_user_id_idx ON sessions (zone_id, user_id);

CREATE TABLE subjects (
    zone_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    holder_id VARCHAR NOT NULL,
    identity VARCHAR,
    is_held BOOLEAN NOT NULL,
    CONSTRAINT subjects_pkey PRIMARY KEY (zone_id, key),
    CONSTRAINT subjects_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX subjects_holder_id_idx ON subjects (zone_id, holder_id);

CREATE TABLE token_events (
    id VARCHAR NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    event VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    reason VARCHAR,
    step BIGINT,
    user_id VARCHAR,
    application_id VARCHAR,
    user_agent_id VARCHAR,
    resource_id VARCHAR,
    actors JSON,
    determining JSON,
    request_id VARCHAR,
    requests BIGINT,
    credential_id VARCHAR,
    CONSTRAINT token_events_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
)
 PARTITION BY RANGE (at);

CREATE INDEX token_events_at_idx ON token_events (organization_id, zone_id, at);

CREATE INDEX token_events_request_id_idx ON token_events (organization_id, zone_id, request_id);

CREATE TABLE tombstones (
    organization_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    entity_id VARCHAR NOT NULL,
    zone_id VARCHAR,
    zone VARCHAR,
    owner VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    revision BIGINT NOT NULL,
    deleted_at TIMESTAMP WITH TIME ZONE NOT NULL,
    actor_type VARCHAR NOT NULL,
    actor_id VARCHAR NOT NULL,
    changeset_id VARCHAR,
    CONSTRAINT tombstones_pkey PRIMARY KEY (organization_id, kind, entity_id),
    CONSTRAINT tombstones_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX tombstones_deleted_at_idx ON tombstones (deleted_at);

CREATE TABLE user_agents (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    registration VARCHAR NOT NULL,
    client_metadata JSON NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE NOT NULL,
    fresh_until TIMESTAMP WITH TIME ZONE,
    CONSTRAINT user_agents_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT user_agents_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX user_agents_created_at_idx ON user_agents (zone_id, created_at, id);

CREATE UNIQUE INDEX user_agents_identifier_key ON user_agents (zone_id, identifier);

CREATE UNIQUE INDEX user_agents_slug_key ON user_agents (zone_id, slug);

CREATE TABLE user_credentials (
    id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    user_id VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    provider_id VARCHAR,
    issuer VARCHAR,
    subject VARCHAR,
    password_hash VARCHAR,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT user_credentials_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT user_credentials_user_id_fkey FOREIGN KEY(zone_id, user_id) REFERENCES users (zone_id, id) ON DELETE CASCADE,
    CONSTRAINT user_credentials_provider_id_fkey FOREIGN KEY(zone_id, provider_id) REFERENCES providers (zone_id, id)
);

CREATE UNIQUE INDEX user_credentials_password_key ON user_credentials (zone_id, user_id) WHERE type = 'password';

CREATE INDEX user_credentials_provider_id_idx ON user_credentials (zone_id, provider_id);

CREATE UNIQUE INDEX user_credentials_subject_key ON user_credentials (zone_id, issuer, subject);

CREATE INDEX user_credentials_user_id_idx ON user_credentials (zone_id, user_id);

CREATE TABLE users (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    identifier VARCHAR NOT NULL,
    email VARCHAR NOT NULL,
    email_verified BOOLEAN NOT NULL,
    status VARCHAR NOT NULL,
    external BOOLEAN NOT NULL,
    authenticated_at TIMESTAMP WITH TIME ZONE,
    issuer VARCHAR,
    provider_id VARCHAR,
    subject VARCHAR,
    epoch BIGINT NOT NULL,
    CONSTRAINT users_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT users_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE INDEX users_created_at_idx ON users (zone_id, created_at, id);

CREATE INDEX users_email_idx ON users (zone_id, email);

CREATE UNIQUE INDEX users_identifier_key ON users (zone_id, identifier);

CREATE INDEX users_subject_idx ON users (zone_id, issuer, subject);

CREATE TABLE vault_tokens (
    id VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    grant_id VARCHAR NOT NULL,
    version BIGINT NOT NULL,
    access_token BYTEA NOT NULL,
    refresh_token BYTEA,
    token_type VARCHAR NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    state VARCHAR NOT NULL,
    failures BIGINT NOT NULL,
    lease_owner VARCHAR,
    lease_until TIMESTAMP WITH TIME ZONE,
    refresh_at TIMESTAMP WITH TIME ZONE,
    used_at TIMESTAMP WITH TIME ZONE,
    grant_expires_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT vault_tokens_pkey PRIMARY KEY (zone_id, id),
    CONSTRAINT vault_tokens_grant_id_fkey FOREIGN KEY(zone_id, grant_id) REFERENCES delegated_grants (zone_id, id) ON DELETE CASCADE
);

CREATE INDEX vault_tokens_dead_idx ON vault_tokens (updated_at) WHERE state = 'dead';

CREATE INDEX vault_tokens_grant_expires_at_idx ON vault_tokens (grant_expires_at) WHERE grant_expires_at IS NOT NULL;

CREATE UNIQUE INDEX vault_tokens_grant_id_key ON vault_tokens (zone_id, grant_id);

CREATE INDEX vault_tokens_in_use_idx ON vault_tokens (refresh_at, used_at, expires_at) WHERE used_at IS NOT NULL;

CREATE TABLE withdrawn_in_sessions (
    zone_id VARCHAR NOT NULL,
    session_id VARCHAR NOT NULL,
    claim VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    forget_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT withdrawn_in_sessions_pkey PRIMARY KEY (zone_id, session_id, claim, name),
    CONSTRAINT withdrawn_in_sessions_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX withdrawn_in_sessions_forget_at_idx ON withdrawn_in_sessions (forget_at);

CREATE TABLE withdrawn_names (
    zone_id VARCHAR NOT NULL,
    claim VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    forget_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT withdrawn_names_pkey PRIMARY KEY (zone_id, claim, name),
    CONSTRAINT withdrawn_names_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX withdrawn_names_forget_at_idx ON withdrawn_names (forget_at);

CREATE TABLE zone_address_uses (
    zone_id VARCHAR NOT NULL,
    issuer VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    client_id VARCHAR NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT zone_address_uses_pkey PRIMARY KEY (zone_id, issuer, endpoint, client_id),
    CONSTRAINT zone_address_uses_issuer_fkey FOREIGN KEY(zone_id, issuer) REFERENCES zone_addresses (zone_id, issuer) ON DELETE CASCADE
);

CREATE TABLE zone_addresses (
    zone_id VARCHAR NOT NULL,
    issuer VARCHAR NOT NULL,
    moved_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE,
    has_ended BOOLEAN NOT NULL,
    CONSTRAINT zone_addresses_pkey PRIMARY KEY (zone_id, issuer),
    CONSTRAINT zone_addresses_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX zone_addresses_ends_at_idx ON zone_addresses (ends_at);

CREATE TABLE zone_changes (
    zone_id VARCHAR NOT NULL,
    epoch BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    tags JSON NOT NULL,
    CONSTRAINT zone_changes_pkey PRIMARY KEY (zone_id, epoch),
    CONSTRAINT zone_changes_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX zone_changes_noted_at_idx ON zone_changes (noted_at);

CREATE TABLE zone_internals (
    zone_id VARCHAR NOT NULL,
    organization_id VARCHAR NOT NULL,
    data_key_wrapped BYTEA NOT NULL,
    access_token_algorithm VARCHAR NOT NULL,
    epoch BIGINT NOT NULL,
    policy_schema_version VARCHAR NOT NULL,
    switches JSON,
    denials BIGINT DEFAULT '0' NOT NULL,
    former_tokens_end_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT zone_internals_pkey PRIMARY KEY (zone_id),
    CONSTRAINT zone_internals_zone_id_fkey FOREIGN KEY(organization_id, zone_id) REFERENCES zones (organization_id, id) ON DELETE CASCADE
);

CREATE TABLE zone_keys (
    kid VARCHAR NOT NULL,
    zone_id VARCHAR NOT NULL,
    algorithm VARCHAR NOT NULL,
    private_sealed BYTEA NOT NULL,
    public_jwk JSON NOT NULL,
    publish_at TIMESTAMP WITH TIME ZONE NOT NULL,
    activate_at TIMESTAMP WITH TIME ZONE NOT NULL,
    retire_at TIMESTAMP WITH TIME ZONE,
    remove_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT zone_keys_pkey PRIMARY KEY (kid),
    CONSTRAINT zone_keys_zone_id_fkey FOREIGN KEY(zone_id) REFERENCES zones (id) ON DELETE CASCADE
);

CREATE INDEX zone_keys_zone_id_idx ON zone_keys (zone_id);

CREATE TABLE zones (
    id VARCHAR NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL,
    revision BIGINT NOT NULL,
    organization_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    slug VARCHAR NOT NULL,
    owner_type VARCHAR NOT NULL,
    protocols JSON NOT NULL,
    description VARCHAR,
    default_mcp_gateway_application_id VARCHAR,
    default_resource_id VARCHAR,
    encryption_key JSON,
    external_sync_enabled BOOLEAN NOT NULL,
    requires_invitation BOOLEAN NOT NULL,
    user_identity_provider_id VARCHAR,
    CONSTRAINT zones_pkey PRIMARY KEY (id),
    CONSTRAINT zones_organization_id_fkey FOREIGN KEY(organization_id) REFERENCES organizations (id) ON DELETE CASCADE
);

CREATE INDEX zones_created_at_idx ON zones (organization_id, created_at, id);

CREATE UNIQUE INDEX zones_id_key ON zones (organization_id, id);

CREATE UNIQUE INDEX zones_slug_key ON zones (organization_id, slug);

ALTER TABLE zones ADD CONSTRAINT zones_default_mcp_gateway_application_id_fkey FOREIGN KEY(id, default_mcp_gateway_application_id) REFERENCES applications (zone_id, id);

ALTER TABLE zones ADD CONSTRAINT zones_default_resource_id_fkey FOREIGN KEY(id, default_resource_id) REFERENCES resources (zone_id, id);

ALTER TABLE zones ADD CONSTRAINT zones_user_identity_provider_id_fkey FOREIGN KEY(id, user_identity_provider_id) REFERENCES providers (zone_id, id);

CREATE TABLE token_events_default (LIKE token_events, PRIMARY KEY (organization_id, id));

ALTER TABLE token_events ATTACH PARTITION token_events_default DEFAULT;

CREATE FUNCTION audit_events_refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'restrict_violation'; END $$;

CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse();

CREATE FUNCTION audit_events_refuse_kept() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN IF OLD.sequence > COALESCE((SELECT sequence FROM audit_anchors WHERE organization_id = OLD.organization_id), 0)
    THEN RAISE EXCEPTION 'audit_events is append-only' USING ERRCODE = 'restrict_violation'; END IF; RETURN OLD; END $$;

CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_events_refuse_kept();

ALTER TABLE application_credentials ALTER COLUMN application_id SET (n_distinct = -1);
ALTER TABLE application_credentials ALTER COLUMN provider_id SET (n_distinct = -1);
ALTER TABLE application_dependencies ALTER COLUMN application_id SET (n_distinct = -1);
ALTER TABLE application_dependencies ALTER COLUMN resource_id SET (n_distinct = -1);
ALTER TABLE consents ALTER COLUMN application_id SET (n_distinct = -1);
ALTER TABLE consents ALTER COLUMN user_agent_id SET (n_distinct = -1);
ALTER TABLE consents ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE delegated_grants ALTER COLUMN provider_id SET (n_distinct = -1);
ALTER TABLE delegated_grants ALTER COLUMN resource_id SET (n_distinct = -1);
ALTER TABLE delegated_grants ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE group_invitees ALTER COLUMN group_id SET (n_distinct = -1);
ALTER TABLE group_members ALTER COLUMN group_id SET (n_distinct = -1);
ALTER TABLE group_members ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE policy_set_bindings ALTER COLUMN policy_set_id SET (n_distinct = -1);
ALTER TABLE policy_set_bindings ALTER COLUMN policy_set_version_id SET (n_distinct = -1);
ALTER TABLE policy_set_versions ALTER COLUMN policy_set_id SET (n_distinct = -1);
ALTER TABLE policy_versions ALTER COLUMN policy_id SET (n_distinct = -1);
ALTER TABLE refresh_families ALTER COLUMN application_id SET (n_distinct = -1);
ALTER TABLE refresh_families ALTER COLUMN session_id SET (n_distinct = -1);
ALTER TABLE refresh_families ALTER COLUMN user_agent_id SET (n_distinct = -1);
ALTER TABLE refresh_families ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE role_assignments ALTER COLUMN role_id SET (n_distinct = -1);
ALTER TABLE service_account_credentials ALTER COLUMN service_account_id SET (n_distinct = -1);
ALTER TABLE session_issuers ALTER COLUMN session_id SET (n_distinct = -1);
ALTER TABLE sessions ALTER COLUMN application_id SET (n_distinct = -1);
ALTER TABLE sessions ALTER COLUMN browser_session_id SET (n_distinct = -1);
ALTER TABLE sessions ALTER COLUMN parent_id SET (n_distinct = -1);
ALTER TABLE sessions ALTER COLUMN user_agent_id SET (n_distinct = -1);
ALTER TABLE sessions ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE user_credentials ALTER COLUMN user_id SET (n_distinct = -1);
ALTER TABLE vault_tokens ALTER COLUMN grant_id SET (n_distinct = -1);
ALTER TABLE zone_address_uses ALTER COLUMN issuer SET (n_distinct = -1);

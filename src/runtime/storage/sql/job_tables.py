"""The tables of periodic jobs, revocations and epoch changes."""

from sqlalchemy import Index, PrimaryKeyConstraint, Table

from runtime.storage.sql.columns import METADATA, belongs, instant, json, number, text

# Whoever holds a job's lease works on it; it is anybody's again once `leased_until` has passed.
jobs = Table(
    "jobs",
    METADATA,
    text("name"),
    instant("next_at"),
    text("holder", nullable=True),
    instant("leased_until", nullable=True),
    number("failures"),
    instant("started_at", nullable=True),
    instant("succeeded_at", nullable=True),
    PrimaryKeyConstraint("name", name="jobs_pkey"),
)

# What was revoked before its time, told until it would have ended anyway; `token_id` for single tokens.
revocations = Table(
    "revocations",
    METADATA,
    text("zone_id"),
    text("id"),
    instant("at"),
    instant("forget_at"),
    json("claims", nullable=False),
    text("token_id", nullable=True),
    PrimaryKeyConstraint("zone_id", "id", name="revocations_pkey"),
    belongs("revocations", "zone_id", "zones id"),
)
Index("revocations_at_idx", revocations.c.zone_id, revocations.c.at)
Index("revocations_forget_at_idx", revocations.c.forget_at)
Index("revocations_token_id_key", revocations.c.zone_id, revocations.c.token_id, unique=True)

# Client ids, actors, audiences and subjects whose tokens are worth nothing when they were issued no later
# than *at*: an application, a credential or a resource of that name went, and another one of it does not
# bring them back.
withdrawn_names = Table(
    "withdrawn_names",
    METADATA,
    text("zone_id"),
    text("claim"),
    text("name"),
    instant("at"),
    instant("forget_at"),
    PrimaryKeyConstraint("zone_id", "claim", "name", name="withdrawn_names_pkey"),
    belongs("withdrawn_names", "zone_id", "zones id"),
)
Index("withdrawn_names_forget_at_idx", withdrawn_names.c.forget_at)

# The same within one session: what its user has taken back, and may allow again.
withdrawn_in_sessions = Table(
    "withdrawn_in_sessions",
    METADATA,
    text("zone_id"),
    text("session_id"),
    text("claim"),
    text("name"),
    instant("at"),
    instant("forget_at"),
    PrimaryKeyConstraint("zone_id", "session_id", "claim", "name", name="withdrawn_in_sessions_pkey"),
    belongs("withdrawn_in_sessions", "zone_id", "zones id"),
)
Index("withdrawn_in_sessions_forget_at_idx", withdrawn_in_sessions.c.forget_at)

# Which epochs have moved: key -> epoch, from the commit on and for as long as anybody may not have read it.
# `position` is the transaction that moved them, on SQLite a running number; `noted_at` seconds since 1970.
epoch_changes = Table(
    "epoch_changes",
    METADATA,
    text("id"),
    number("position"),
    number("noted_at"),
    json("epochs", nullable=False),
    PrimaryKeyConstraint("id", name="epoch_changes_pkey"),
)
Index("epoch_changes_position_idx", epoch_changes.c.position)

# What a change of a zone was about, by the epoch that it made. A change without a row is one of everything.
zone_changes = Table(
    "zone_changes",
    METADATA,
    text("zone_id"),
    number("epoch"),
    number("noted_at"),
    json("tags", nullable=False),
    PrimaryKeyConstraint("zone_id", "epoch", name="zone_changes_pkey"),
    belongs("zone_changes", "zone_id", "zones id"),
)
Index("zone_changes_noted_at_idx", zone_changes.c.noted_at)

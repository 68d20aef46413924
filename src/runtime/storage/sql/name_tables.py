"""The tables of names that are never reused: `sub` values, issuers, labels."""

from sqlalchemy import Boolean, Column, Index, Table

from runtime.storage.sql.columns import METADATA, belongs, instant, primary_key, text

# What tokens of a zone call `sub`, of users and applications alike. A row outlives whom it names, and goes
# with the zone. `key` and `identity` are digests: names of people who are gone are not kept in clear.
subjects = Table(
    "subjects",
    METADATA,
    text("zone_id"),
    text("key"),
    text("kind"),
    text("holder_id"),
    text("identity", nullable=True),  # the person whom a provider knows
    Column("is_held", Boolean, nullable=False),
    primary_key("subjects", "zone_id", "key"),
    belongs("subjects", "zone_id", "zones id"),
)
Index("subjects_holder_id_idx", subjects.c.zone_id, subjects.c.holder_id)

# Names that mean one thing in the whole service, and for ever: issuers of zones, labels of organizations.
# Nothing goes with what they named.
assigned_names = Table(
    "assigned_names",
    METADATA,
    text("kind"),
    text("name"),
    text("holder_id"),
    instant("assigned_at"),
    primary_key("assigned_names", "kind", "name"),
)

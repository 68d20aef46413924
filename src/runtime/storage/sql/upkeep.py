"""The tables of what the service does by itself, whoever asks: one row a job, for all processes."""

from sqlalchemy import PrimaryKeyConstraint, Table

from runtime.storage.sql.columns import METADATA, instant, number, text

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

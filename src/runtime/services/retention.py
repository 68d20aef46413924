"""The retention job: deletes rows past their time, in batches; `RULES` has the tables and their settings."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.services.container import Services
from runtime.services.management import audit
from runtime.storage.sql import audit as audit_storage
from runtime.storage.sql import (
    changes,
    invitations,
    outbox,
    refresh_families,
    sessions,
    token_events,
    tombstones,
    vault_tokens,
)

JOB = "retention"
_BATCH = 1_000
_PAUSE_SECONDS = 0.02  # between two batches: SQLite lets one write at a time
_MOST_BATCHES = 2_000  # of one table in one run; what is left is for the next


class _Forget(Protocol):
    """Forgets some of what is older than an instant; how many that were, *limit* at most."""

    async def __call__(self, conn: AsyncConnection, *, before: datetime, limit: int) -> int: ...


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long rows of a table are kept.

    Attributes:
        setting: has the days; 0 keeps them for ever.
        forget: deletes some of those that are past their time and that nothing needs any more.
    """

    table: str
    setting: str
    forget: _Forget


# The audit trail is not among them: it is a chain, and `audit.prune` decides where it begins.
RULES = (
    RetentionRule("token_events", "token_events_days", token_events.forget),
    RetentionRule("sessions", "ended_sessions_days", sessions.forget_ended),
    RetentionRule("refresh_families", "ended_sessions_days", refresh_families.forget_expired),
    RetentionRule("vault_tokens", "ended_credentials_days", vault_tokens.forget),
    RetentionRule("invitations", "ended_invitations_days", invitations.forget_expired),
    RetentionRule("changesets", "changesets_days", changes.forget_changesets),
    RetentionRule("tombstones", "tombstones_days", tombstones.forget),
    RetentionRule("outbox", "dead_letters_days", outbox.forget_dead_letters),
)
AUDIT_TABLE, AUDIT_SETTING = "audit_events", "audit_events_days"
# Table -> the setting that has its days.
SETTINGS = {rule.table: rule.setting for rule in RULES} | {AUDIT_TABLE: AUDIT_SETTING}


async def run(services: Services) -> int:
    """Forget what is past its time; how many rows that were."""
    gone = 0
    for rule in RULES:
        if days := getattr(services.settings, rule.setting):
            gone += await _all(services, rule.forget, services.clock() - timedelta(days=days))
    if days := getattr(services.settings, AUDIT_SETTING):
        await audit.prune(services, before=services.clock() - timedelta(days=days))
    # What an earlier run has left behind the beginning of a trail goes also when it is kept for ever by now.
    return gone + await _all(services, _forget_pruned, services.clock())


async def _forget_pruned(conn: AsyncConnection, *, before: datetime, limit: int) -> int:
    return await audit_storage.forget_pruned(conn, limit=limit)


async def _all(services: Services, forget: _Forget, before: datetime) -> int:
    gone = 0
    for _ in range(_MOST_BATCHES):
        async with services.database.transaction() as conn:
            batch = await forget(conn, before=before, limit=_BATCH)
        if not batch:
            break
        gone += batch
        await asyncio.sleep(_PAUSE_SECONDS)
    return gone

"""The tables of the database: configuration, or else who writes rows, what limits and what deletes them."""

from dataclasses import dataclass

from runtime.domain.kinds import ALL
from runtime.quotas.state import ANYBODY, CLIENTS, SERVICE, USERS
from runtime.services import epochs, retention
from runtime.services.clients import unused_clients
from runtime.services.management.organizations import api_keys
from runtime.services.outbox import delivery
from runtime.settings import Settings
from runtime.storage.sql.tables import TABLES

PEOPLE = "people and programs with a role"


@dataclass(frozen=True, slots=True)
class GrowingTable:
    """A table that others than the people of an organization fill.

    Attributes:
        by: who causes a row.
        limited: names of limits, or in words what else bounds it.
        until: when a row goes.
    """

    table: str
    what: str
    by: str
    limited: tuple[str, ...]
    until: str


def _days(setting: str) -> str:
    default = Settings.model_fields[setting].default
    return f"`ZONED_{setting.upper()}` ({default} days)"


RECORDS: tuple[GrowingTable, ...] = (
    GrowingTable(
        "token_events",
        "the log of sign-ins, token requests and ended sessions",
        ANYBODY,
        (
            "recorded-refusals-address",
            "recorded-refusals",
            "sign-ins, codes and tokens issued, and refusals of known applications: one each",
            "one a day for a credential that proves an application, in each process",
        ),
        f"{_days('token_events_days')}; job `retention`",
    ),
    GrowingTable(
        "user_agents",
        "clients from dynamic registration or client ID metadata documents",
        ANYBODY,
        ("register", "register-zone", "documents", "new-clients"),
        f"{unused_clients.UNUSED.days} days without use; job `unused_clients`",
    ),
    GrowingTable(
        "users",
        "users",
        "anybody, where registration is open; else the provider's users and invited users",
        ("sign-ups", "passwords", "tries"),
        "deleted by an administrator, or with its zone",
    ),
    GrowingTable("user_credentials", "passwords, as hashes", USERS, ("one for a user",), "with its user"),
    GrowingTable(
        "sessions",
        "sessions",
        "users; applications that act on their own behalf",
        ("passwords", "authorize", "codes", "a few at a time for a client id of an application"),
        f"{_days('ended_sessions_days')} after its time; job `retention`",
    ),
    GrowingTable(
        "refresh_families",
        "refresh tokens, as hashes",
        USERS,
        ("codes",),
        "with its session",
    ),
    GrowingTable(
        "consents",
        "consents of users to applications",
        USERS,
        ("one for a user, an application and a resource",),
        "withdrawn, or with its user or application",
    ),
    GrowingTable(
        "delegated_grants",
        "delegated access of applications to a resource for a user",
        USERS,
        ("one for a user, a resource and a provider",),
        "withdrawn, or with its user or resource",
    ),
    GrowingTable(
        "vault_tokens",
        "credentials of users for outside services, sealed",
        USERS,
        ("forms-sent", "one for a delegated grant"),
        "with its delegated grant, or when that is revoked; "
        f"{_days('ended_credentials_days')} after its provider has ended it; job `retention`",
    ),
    GrowingTable(
        "revocations",
        "revoked sessions, tokens and grants",
        f"{USERS}, {CLIENTS}, {PEOPLE}",
        ("one for a session, token or grant that ends",),
        "until it would have expired; job `revocations`",
    ),
    GrowingTable(
        "withdrawn_names",
        "client ids, actors and audiences whose earlier tokens are revoked",
        PEOPLE,
        ("one for a deleted application, credential or resource",),
        "until every token from before has expired: a day, or the longest lifetime that a resource of the "
        "zone had; job `revocations`",
    ),
    GrowingTable(
        "subjects",
        "`sub` values of users and applications; digests after deletion",
        f"{PEOPLE}, and new users",
        ("one for a user or an application, and for each name it ever had",),
        "with its zone: names are never reused",
    ),
    GrowingTable(
        "assigned_names",
        "issuers of zones and labels of organizations, given once",
        PEOPLE,
        ("one for a zone or an organization", "organizations-made"),
        "never: tokens and keys that contain them may still exist",
    ),
    GrowingTable(
        "outbox",
        "e-mails and logout tokens to be sent",
        f"{PEOPLE}, and sessions that end",
        ("invitations", "invitations-to-one", "one for a client of a session that ends"),
        f"sent, or {delivery.DEAD_LETTERS_KEPT.days} days after it was given up; job `outbox`",
    ),
    GrowingTable(
        "epoch_changes",
        "cache invalidations",
        SERVICE,
        ("one for a change",),
        f"{epochs.KEPT_SECONDS // 60} minutes; job `{epochs.JOB}`",
    ),
    GrowingTable(
        "zone_changes",
        "what changes of zones were about",
        PEOPLE,
        ("one for a change",),
        f"{epochs.KEPT_SECONDS // 60} minutes, or with its zone; job `{epochs.JOB}`",
    ),
    GrowingTable(
        "audit_events",
        "the audit trail, a chain of hashes",
        PEOPLE,
        ("one for a change",),
        "never: it is kept after its objects are deleted",
    ),
    GrowingTable(
        "organization_heads",
        "the end of an organization's audit trail",
        PEOPLE,
        ("one for an organization", "organizations-made"),
        "never: with the trail",
    ),
    GrowingTable(
        "changesets",
        "receipts of changesets",
        PEOPLE,
        ("one for a changeset that was applied",),
        "with its organization",
    ),
    GrowingTable(
        "tombstones",
        "deleted objects of a configuration",
        PEOPLE,
        ("one for an object that a changeset has made or adopted",),
        f"the next changeset of the configuration, or {retention.TOMBSTONE_DAYS} days; job `retention`",
    ),
    GrowingTable(
        "api_keys",
        "keys that call the management API",
        PEOPLE,
        (f"{api_keys.MAX_API_KEYS} in an organization, expired ones included",),
        f"revoked, or with its creator; {api_keys.KEPT_EXPIRED.days} days after its end; job `api_keys`",
    ),
    GrowingTable("jobs", "when a job is due", SERVICE, ("one for a job",), "never"),
    GrowingTable(
        "service_secrets", "keys of this service, wrapped", SERVICE, ("one for a purpose",), "never"
    ),
)

# What only people and programs with a role write, and is there until one of them deletes it.
CONFIGURATION: frozenset[str] = frozenset(TABLES[kind.name].name for kind in ALL) - {
    each.table for each in RECORDS
} | {
    "application_dependencies",
    "group_invitees",
    "group_members",
    "ownerships",
    "policy_set_bindings",
    "zone_internals",
    "zone_keys",
}

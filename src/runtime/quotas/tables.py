"""The tables of the database: configuration, or else who writes rows, what limits and what deletes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from runtime.domain.kinds import ALL
from runtime.quotas.state import ANYBODY, CLIENTS, SERVICE, USERS
from runtime.services import epochs, retention
from runtime.services.clients import unused_clients
from runtime.services.management.organizations import api_keys
from runtime.settings import Settings
from runtime.storage.sql.tables import TABLES

PEOPLE = "people and programs with a role"
OPERATORS = "operators, at the command line"


class Kept(StrEnum):
    """What keeps a table from growing for ever."""

    RETAINED = "retained"  # rows past the days of a setting are deleted: `retention.SETTINGS`
    BOUNDED = "bounded"  # by the number of what rows belong to, or by a time that needs no setting
    FOR_EVER = "for ever"  # by decision: `until` says why


@dataclass(frozen=True, slots=True)
class GrowingTable:
    """A table that others than the people of an organization fill.

    Attributes:
        by: who causes a row.
        limited: names of limits, or in words what else bounds it.
        until: when a row goes.
        kept: by what the table is kept small, or that it is not.
    """

    table: str
    what: str
    by: str
    limited: tuple[str, ...]
    until: str
    kept: Kept


def _days(table: str) -> str:
    setting = retention.SETTINGS[table]
    default = Settings.model_fields[setting].default
    return f"`ZONED_{setting.upper()}` ({f'{default} days' if default else 'for ever'})"


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
        f"{_days('token_events')}, on PostgreSQL until its partition is past; jobs `retention` and"
        " `token_event_partitions`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "user_agents",
        "clients from dynamic registration or client ID metadata documents",
        ANYBODY,
        ("register", "register-zone", "documents", "new-clients"),
        f"{unused_clients.UNUSED.days} days without use; job `unused_clients`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "users",
        "users",
        "anybody, where registration is open; else the provider's users and invited users",
        ("sign-ups", "passwords", "tries"),
        "deleted by an administrator, or with its zone",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "user_credentials", "passwords, as hashes", USERS, ("one for a user",), "with its user", Kept.BOUNDED
    ),
    GrowingTable(
        "sessions",
        "sessions",
        "users; applications that act on their own behalf",
        ("passwords", "authorize", "codes", "a few at a time for a client id of an application"),
        f"{_days('sessions')} after its time; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "refresh_families",
        "refresh tokens, as hashes",
        USERS,
        ("codes",),
        f"with its session, or {_days('refresh_families')} after its expiry; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "consents",
        "consents of users to applications",
        USERS,
        ("one for a user, an application and a resource",),
        "withdrawn, or with its user or application",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "delegated_grants",
        "delegated access of applications to a resource for a user",
        USERS,
        ("one for a user, a resource and a provider",),
        "withdrawn, or with its user or resource",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "vault_tokens",
        "credentials of users for outside services, sealed",
        USERS,
        ("forms-sent", "one for a delegated grant"),
        "with its delegated grant, or when that is revoked; "
        f"{_days('vault_tokens')} after its provider has ended it; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "revocations",
        "revoked sessions, tokens and grants",
        f"{USERS}, {CLIENTS}, {PEOPLE}",
        ("one for a session, token or grant that ends",),
        "until it would have expired; job `revocations`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "withdrawn_names",
        "client ids, actors, audiences and subjects whose earlier tokens are revoked",
        PEOPLE,
        ("one for a deleted application, credential or resource",),
        "until every token from before has expired: a day, or the longest lifetime that a resource of the "
        "zone had; job `revocations`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "withdrawn_in_sessions",
        "what users have taken back from the tokens of a session",
        USERS,
        ("one for a session and an application or a resource",),
        "until the session would have expired; job `revocations`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "subjects",
        "`sub` values of users and applications; digests after deletion",
        f"{PEOPLE}, and new users",
        ("one for a user or an application, and for each name it ever had",),
        "with its zone: names are never reused",
        Kept.FOR_EVER,
    ),
    GrowingTable(
        "assigned_names",
        "issuers of zones and labels of organizations, given once",
        PEOPLE,
        ("one for a zone or an organization", "organizations-made"),
        "never: tokens and keys that contain them may still exist",
        Kept.FOR_EVER,
    ),
    GrowingTable(
        "zone_addresses",
        "issuers that zones had before they were moved",
        OPERATORS,
        ("one for a move of a zone",),
        "with its zone: an issuer is never of another zone",
        Kept.FOR_EVER,
    ),
    GrowingTable(
        "zone_address_uses",
        "who asks at former issuers of a zone",
        "clients, while a zone is moved",
        ("one for an endpoint, and for each client of the zone at each endpoint that it proves itself at",),
        "with its zone",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "session_issuers",
        "the issuer that the client of a session was told, where its zone was moved",
        "clients, while a zone is moved",
        ("one for a session",),
        "with its session",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "outbox",
        "e-mails and logout tokens to be sent",
        f"{PEOPLE}, and sessions that end",
        ("invitations", "invitations-to-one", "one for a client of a session that ends"),
        f"sent, or {_days('outbox')} after it was given up; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "epoch_changes",
        "cache invalidations",
        SERVICE,
        ("one for a change",),
        f"{epochs.KEPT_SECONDS // 60} minutes; job `{epochs.JOB}`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "zone_changes",
        "what changes of zones were about",
        PEOPLE,
        ("one for a change",),
        f"{epochs.KEPT_SECONDS // 60} minutes, or with its zone; job `{epochs.JOB}`",
        Kept.BOUNDED,
    ),
    GrowingTable(
        "audit_events",
        "the audit trail, a chain of hashes",
        PEOPLE,
        ("one for a change",),
        f"{_days('audit_events')}, also after its objects are deleted; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "audit_anchors",
        "where a pruned audit trail begins",
        SERVICE,
        ("one for an organization", "organizations-made"),
        "never: with the trail",
        Kept.FOR_EVER,
    ),
    GrowingTable(
        "invitations",
        "invitations to an organization",
        PEOPLE,
        ("invitations", "invitations-to-one"),
        f"deleted, or {_days('invitations')} after its expiry; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "organization_heads",
        "the end of an organization's audit trail",
        PEOPLE,
        ("one for an organization", "organizations-made"),
        "never: with the trail",
        Kept.FOR_EVER,
    ),
    GrowingTable(
        "changesets",
        "receipts of changesets",
        PEOPLE,
        ("one for a changeset that was applied",),
        f"{_days('changesets')}, but the newest of a configuration; with its organization; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "tombstones",
        "deleted objects of a configuration",
        PEOPLE,
        ("one for an object that a changeset has made or adopted",),
        f"the next changeset of the configuration, or {_days('tombstones')}; job `retention`",
        Kept.RETAINED,
    ),
    GrowingTable(
        "api_keys",
        "keys that call the management API",
        PEOPLE,
        (f"{api_keys.MAX_API_KEYS} in an organization, expired ones included",),
        f"revoked, or with its creator; {api_keys.KEPT_EXPIRED.days} days after its end; job `api_keys`",
        Kept.BOUNDED,
    ),
    GrowingTable("jobs", "when a job is due", SERVICE, ("one for a job",), "never", Kept.BOUNDED),
    GrowingTable(
        "service_secrets",
        "keys of this service, wrapped",
        SERVICE,
        ("one for a purpose",),
        "never",
        Kept.BOUNDED,
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


def unclassified(tables: Iterable[str]) -> set[str]:
    """The tables of which nobody has decided for how long a row is kept."""
    return set(tables) - {each.table for each in RECORDS} - CONFIGURATION

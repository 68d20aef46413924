"""The in-memory collections of a process that outlive a request, each with its bound."""

from dataclasses import dataclass

from runtime import logs
from runtime.adapters import shared_fetch
from runtime.adapters.upstream_oauth import circuit_breaker
from runtime.services import cache_sizes as sizes
from runtime.services import decision_log, epochs, upstream_refreshes
from runtime.services.management.authentication import callers
from runtime.services.zones import tagged_cache
from runtime.storage import batching
from runtime.storage.sql import shares

_REQUESTS = "as many as are worked on"
_ZONES = sizes.ZONES
_ZONE = "runtime.services.zones.registry.ZoneRegistry"
_KEYS = "runtime.services.data_keys.DataKeys"
_OF_ZONE = "of a zone"


@dataclass(frozen=True, slots=True)
class BoundedMemory:
    """A container that lives as long as a process, or as a cached zone in it.

    Attributes:
        place: module, class and attribute.
        most: entries; or in words what else bounds it.
        whose: one for the process, or one for each zone that it knows.
    """

    place: str
    what: str
    most: int | str
    whose: str = "of a process"


def _of_zone(place: str, what: str, most: int | str) -> BoundedMemory:
    return BoundedMemory(f"runtime.services.{place}", what, most, _OF_ZONE)


MEMORY: tuple[BoundedMemory, ...] = (
    BoundedMemory(
        "runtime.services.clients.authentication_throttling.FailedAuthenticationThrottle._blocked",
        "clients delayed after wrong secrets",
        sizes.BLOCKED_CLIENTS,
    ),
    BoundedMemory(
        "runtime.services.clients.last_used.LastUsedRecorder._recorded",
        "credentials of applications whose use was recorded",
        sizes.CREDENTIALS_IN_USE,
    ),
    BoundedMemory(
        "runtime.services.clients.last_used.LastUsedRecorder._writes",
        "writes of their last use",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.address_uses.AddressUseRecorder._recorded",
        "recorded uses of former addresses of zones",
        sizes.ADDRESS_USES,
    ),
    BoundedMemory(
        "runtime.services.address_uses.AddressUseRecorder._writes",
        "writes of their last use",
        _REQUESTS,
    ),
    BoundedMemory("runtime.logs.ThrottledWarnings._logged", "recently logged warnings", logs.MOST_TROUBLES),
    BoundedMemory(
        "runtime.services.rate_limiter.RateLimiter._local", "counts of rate limits", "the number of limits"
    ),
    BoundedMemory(
        "runtime.services.rate_limiter._LocalCounts._counted", "counts of one limit", sizes.RATE_LIMIT_COUNTS
    ),
    BoundedMemory(
        "runtime.services.decision_log.DecisionLog._queued",
        "token events to be written; beyond it requests are answered 503",
        decision_log.MAX_QUEUED,
    ),
    BoundedMemory(
        "runtime.services.decision_log.DecisionLog._seen",
        "credentials whose use was recorded within a day",
        decision_log.MOST_SEEN,
    ),
    BoundedMemory(
        "runtime.services.decision_log.DecisionLog._tallies",
        "counts of refused requests without a row, by zone, grant type and code",
        "the number of zones, for a minute",
    ),
    BoundedMemory(
        "runtime.storage.sql.database.Database._at_one_instant",
        "requests that read the database as of one instant; others wait",
        f"{shares.MOST_INSTANTS}, and the explanations that are worked on",
    ),
    BoundedMemory(
        "runtime.storage.sql.shares.TenantShares._holders",
        "requests that have a connection of an organization's share, or wait for one",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.storage.sql.shares.ConnectionShares._brief_users",
        "requests that use a connection for a moment",
        "the connections",
    ),
    BoundedMemory(
        "runtime.storage.sql.group_commit.GroupCommit._running",
        "SQLite transactions that small writes share",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.storage.sql.prepared.PreparedStatement._compiled",
        "texts of one statement of a hot path",
        "the sorts of databases, which are two",
    ),
    BoundedMemory(
        "runtime.services.epochs.Epochs._answered",
        "epochs as they were asked for since the last reading, without Redis",
        epochs.MOST_ANSWERED,
    ),
    BoundedMemory("runtime.services.epochs._Moved._newer", "recently changed epochs", epochs.MOST_MOVED),
    BoundedMemory(
        "runtime.services.epochs._Moved._older", "the previous generation of the same", epochs.MOST_MOVED
    ),
    BoundedMemory(
        "runtime.services.revocation_list.Revocations._logs", "zones' revocations", sizes.REVOCATION_LISTS
    ),
    BoundedMemory(
        "runtime.services.management.authentication.callers._noted",
        "recently used API keys",
        callers.MAX_NOTED,
    ),
    BoundedMemory(
        "runtime.services.management.authentication.callers._background",
        "writes of their last use",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.management.changesets.concurrency_limits._taken",
        "changesets, snapshots and explanations under way, by organization and caller",
        _REQUESTS,
    ),
    BoundedMemory("runtime.services.time_slices._turns", "the turn among long operations", 1),
    BoundedMemory(
        "runtime.services.job_notifier.JobNotifier._notified", "jobs with work", "the number of jobs"
    ),
    BoundedMemory(
        "runtime.services.outbox.delivery.Outbox._handlers",
        "handlers of outbox messages",
        "the number of topics",
    ),
    BoundedMemory(
        "runtime.adapters.shared_fetch._Partitions._partitions",
        "fetched documents (key sets, metadata of clients and providers) and failed fetches; "
        f"{shared_fetch.MAX_OF_ONE} for one zone",
        shared_fetch.MAX_ENTRIES,
    ),
    BoundedMemory(
        "runtime.adapters.upstream_oauth.circuit_breaker.CircuitBreakers._zones",
        "zones with OAuth providers that fail, each with the circuit breakers of "
        f"{circuit_breaker.MOST_CIRCUITS_OF_A_ZONE} of them",
        circuit_breaker.MOST_ZONES,
    ),
    BoundedMemory(
        "runtime.adapters.upstream_oauth.concurrency_limit.ConcurrencyLimit._slots",
        "requests to OAuth providers waiting for a slot, by provider and by zone",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.upstream_refreshes.UpstreamRefreshes._tasks",
        "refreshes of upstream tokens under way, one for a grant",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.upstream_refreshes.UpstreamRefreshes._noted",
        "upstream tokens whose use was noted within ten minutes",
        upstream_refreshes.MOST_NOTED,
    ),
    BoundedMemory(
        "runtime.services.upstream_refreshes.UpstreamRefreshes._unwritten",
        "uses of upstream tokens to be written",
        upstream_refreshes.MOST_UNWRITTEN,
    ),
    BoundedMemory("runtime.adapters.shared_fetch.SharedFetch._running", "fetches under way", _REQUESTS),
    BoundedMemory(
        "runtime.storage.state.partitions.PartitionedEntries._shares",
        "short-lived state without Redis, by kind and zone",
        "see *Short-lived state*",
    ),
    BoundedMemory(
        "runtime.storage.batching.RequestBatcher._waiting",
        "requests waiting for Redis or a row",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.storage.batching.RequestBatcher._sendings",
        "batches to Redis or the database",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.storage.batching.RequestBatcher._awaited",
        "batches that others wait for",
        str(batching.AT_ONCE),
    ),
    BoundedMemory(f"{_ZONE}._zones", "zones", _ZONES),
    BoundedMemory(f"{_KEYS}._held", "data keys that a key-management service has unwrapped", sizes.DATA_KEYS),
    BoundedMemory(f"{_KEYS}._refused", "zones whose key was refused, for ten seconds", sizes.DATA_KEYS),
    BoundedMemory(f"{_KEYS}._unreachable", "keys that cannot be asked, for five seconds", sizes.DATA_KEYS),
    BoundedMemory(f"{_KEYS}._loading", "data keys that are being unwrapped", _REQUESTS),
    BoundedMemory(
        "runtime.adapters.keys.aws_kms.AwsKms._clients",
        "clients of AWS KMS",
        "the regions of the keys that settings name",
    ),
    BoundedMemory(f"{_ZONE}._parsed_keys", "zones' keys", _ZONES),
    BoundedMemory(
        "runtime.services.zones.policies.PolicyCache._compiled", "policy sets, parsed", sizes.POLICY_SETS
    ),
    BoundedMemory(
        "runtime.services.zones.policies.PolicyCache._latest", "the latest set of a zone", sizes.POLICY_SETS
    ),
    BoundedMemory(
        "runtime.services.zones.policies.PolicyCache._by_set_version",
        "users' policy sets, parsed",
        sizes.POLICY_SETS,
    ),
    BoundedMemory(f"{_ZONE}._ids_by_slug", "ids of zones by slug", _ZONES),
    BoundedMemory(f"{_ZONE}._ids_by_issuer", "ids of zones by former address", _ZONES),
    _of_zone(
        "zones.cached_zone.CachedZone._at_former",
        "the zone at former addresses, with caches of its own",
        "the number of former addresses that are answered",
    ),
    _of_zone("zones.cached_zone.CachedZone.keys", "its keys", "the number of keys"),
    _of_zone("zones.cached_zone.CachedZone._signing", "its signing keys", "the number of keys"),
    _of_zone("zones.cached_zone.CachedZone._caches", "the caches below", "the number of caches"),
    _of_zone(
        "zones.denied_tokens.DeniedTokens._ids",
        "ids of revoked tokens",
        "twice the number of those that have not expired, and 1,000",
    ),
    _of_zone("zones.tagged_cache.ChangeHistory._newer", "what has changed lately", tagged_cache.MOST_TAGS),
    _of_zone(
        "zones.tagged_cache.ChangeHistory._older",
        "the previous generation of the same",
        tagged_cache.MOST_TAGS,
    ),
    _of_zone("zones.clients.ClientCache._by_id", "clients by client id", sizes.CLIENTS),
    _of_zone("zones.clients.ClientCache._by_subject", "workloads by subject", sizes.WORKLOADS),
    _of_zone("zones.applications.ApplicationCache._by_id", "applications by id", sizes.APPLICATIONS),
    _of_zone(
        "zones.applications.ApplicationCache._by_identifier", "applications by name", sizes.APPLICATIONS
    ),
    _of_zone(
        "zones.applications.ApplicationCache._policy_facts",
        "policy attributes of applications",
        sizes.APPLICATIONS,
    ),
    _of_zone("zones.applications.ApplicationCache._roles", "roles of applications", sizes.APPLICATIONS),
    _of_zone(
        "zones.applications.ApplicationCache._principals",
        "applications that may act as principals",
        sizes.APPLICATIONS,
    ),
    _of_zone(
        "zones.applications.ApplicationCache._dependencies",
        "dependencies of applications",
        sizes.APPLICATIONS,
    ),
    _of_zone("zones.resources.ResourceCache._by_identifier", "resources by identifier", sizes.RESOURCES),
    _of_zone("zones.resources.ResourceCache._by_id", "resources by id", sizes.RESOURCES),
    _of_zone(
        "zones.resources.ResourceCache._by_application",
        "resources by providing application",
        sizes.RESOURCES_BY_APPLICATION,
    ),
    _of_zone("zones.providers.ProviderCache._by_id", "providers", sizes.PROVIDERS),
    _of_zone(
        "zones.withdrawals.WithdrawalCache._instants",
        "names whose earlier tokens are revoked",
        sizes.WITHDRAWALS,
    ),
    _of_zone(
        "zones.withdrawals.WithdrawalCache._latest",
        "the same of all names of a token",
        sizes.WITHDRAWALS_OF_TOKENS,
    ),
    _of_zone("zones.session_roots.SessionRootCache._roots", "sessions", sizes.SESSIONS),
    _of_zone("zones.session_roots.SessionRootCache._principals", "users", sizes.USERS),
    _of_zone(
        "authority.subject_tokens.VerifiedTokenCache.tokens",
        "verified access tokens",
        sizes.VERIFIED_TOKENS,
    ),
    _of_zone("authority.consents.ConsentCache.scopes", "consents", sizes.CONSENTS),
    _of_zone("authority.consents.ConsentCache.agreed", "scopes that users consented to", sizes.CONSENTS),
    _of_zone("authority.browser_sessions.BrowserSessionCache.sessions", "browsers' sessions", sizes.SESSIONS),
    _of_zone(
        "zones.application_sessions.ApplicationSessionCache._by_id",
        "applications' sessions",
        sizes.SESSIONS,
    ),
    _of_zone(
        "authority.application_sessions.CurrentApplicationSessions.sessions",
        "applications' current sessions",
        sizes.CLIENTS,
    ),
    _of_zone(
        "grants.authorized_exchanges.AllowedTargetCache._entries",
        "allowed targets of exchanges",
        sizes.ALLOWED_TARGETS,
    ),
    _of_zone(
        "grants.known_exchanges.KnownExchanges._entries",
        "exchange requests that were answered before",
        sizes.KNOWN_EXCHANGES,
    ),
    _of_zone(
        "vault.credentials.SharedCredentialCache._sealed",
        "credentials that all users of a resource share",
        sizes.SHARED_CREDENTIALS,
    ),
    _of_zone("issuing.token_cache.OpenedTokens._opened", "cached tokens, decrypted", sizes.OPENED_TOKENS),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.decisions", "policy decisions", sizes.POLICY_DECISIONS
    ),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.reads",
        "attributes that policies read",
        sizes.POLICY_READS,
    ),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.participants",
        "policy attributes of applications and resources",
        sizes.POLICY_PARTICIPANTS,
    ),
    BoundedMemory(
        "runtime.api.oauth.discovery.DiscoveryDocumentCache.documents",
        "discovery documents",
        2,
        _OF_ZONE,
    ),
)

"""The in-memory collections of a process that outlive a request, each with its bound."""

from dataclasses import dataclass

from runtime import logs
from runtime.adapters import shared_fetch
from runtime.services import cache_sizes as sizes
from runtime.services import decision_log, epochs
from runtime.services.management.authentication import callers

_REQUESTS = "as many as are worked on"
_ZONES = sizes.ZONES
_ZONE = "runtime.services.zones.cache.Zones"
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
        "runtime.services.clients.guessing.SecretGuessing._blocked",
        "clients that wait",
        sizes.BLOCKED_CLIENTS,
    ),
    BoundedMemory("runtime.logs.ThrottledWarnings._told", "warnings of a moment ago", logs.MOST_TROUBLES),
    BoundedMemory(
        "runtime.services.rate_limiter.RateLimiter._local", "limits counted here", "the limits there are"
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
        "refusals that were only counted, by zone, grant type and code",
        "zones there are, for a minute",
    ),
    BoundedMemory(
        "runtime.storage.sql.database.Database._at_one_instant",
        "requests that read the database at one instant",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.epochs._Moved._newer", "epochs that have moved lately", epochs.MOST_MOVED
    ),
    BoundedMemory("runtime.services.epochs._Moved._older", "the same, of before", epochs.MOST_MOVED),
    BoundedMemory(
        "runtime.services.revocation_list.Revocations._logs", "zones' revocations", sizes.REVOCATION_LISTS
    ),
    BoundedMemory(
        "runtime.services.management.authentication.callers._noted",
        "API keys that were seen in use",
        callers.MAX_NOTED,
    ),
    BoundedMemory(
        "runtime.services.management.authentication.callers._background",
        "notes of that, being written",
        _REQUESTS,
    ),
    BoundedMemory(
        "runtime.services.management.changesets.concurrency_limits._taken",
        "changesets and snapshots under way, by organization and caller",
        _REQUESTS,
    ),
    BoundedMemory("runtime.services.management.time_slices._turns", "who of long work goes on next", 1),
    BoundedMemory(
        "runtime.services.job_notifier.JobNotifier._notified", "jobs with work", "the jobs there are"
    ),
    BoundedMemory(
        "runtime.services.outbox.delivery.Outbox._handlers", "how messages are sent", "the topics there are"
    ),
    BoundedMemory(
        "runtime.adapters.shared_fetch._Partitions._partitions",
        "documents of others (keys, descriptions of clients and providers), and failures to fetch one; "
        f"{shared_fetch.MAX_OF_ONE} of one zone's",
        shared_fetch.MAX_ENTRIES,
    ),
    BoundedMemory("runtime.adapters.shared_fetch.SharedFetch._running", "fetches under way", _REQUESTS),
    BoundedMemory("runtime.adapters.outbound.Outbound._turns", "whose turn it is to fetch", _REQUESTS),
    BoundedMemory(
        "runtime.storage.state.partitions.PartitionedEntries._shares",
        "short-lived state without Redis, by kind and zone",
        "see the list of that",
    ),
    BoundedMemory("runtime.storage.state.batching.RequestBatcher._waiting", "questions to Redis", _REQUESTS),
    BoundedMemory("runtime.storage.state.batching.RequestBatcher._trips", "trips to Redis", _REQUESTS),
    BoundedMemory(f"{_ZONE}._views", "cached zones", _ZONES),
    BoundedMemory(f"{_ZONE}._loading", "zones that are being read", _ZONES),
    BoundedMemory(f"{_ZONE}._parsed_keys", "zones' keys", _ZONES),
    BoundedMemory(
        "runtime.services.zones.policies.PolicyCache._compiled", "policy sets, parsed", sizes.POLICY_SETS
    ),
    BoundedMemory(
        "runtime.services.zones.policies.PolicyCache._by_set_version",
        "users' policy sets, parsed",
        sizes.POLICY_SETS,
    ),
    BoundedMemory(f"{_ZONE}._ids_by_slug", "ids of zones by slug", _ZONES),
    _of_zone("zones.cached_zone.CachedZone.keys", "its keys", "those there are"),
    _of_zone("zones.cached_zone.CachedZone._signing", "its signing keys", "those there are"),
    _of_zone("zones.cached_zone.CachedZone._caches", "the caches below", "those there are"),
    _of_zone("zones.clients.ClientCache._by_id", "clients by client id", sizes.CLIENTS),
    _of_zone("zones.clients.ClientCache._by_subject", "workloads by subject", sizes.WORKLOADS),
    _of_zone("zones.applications.ApplicationCache._by_id", "applications by id", sizes.APPLICATIONS),
    _of_zone(
        "zones.applications.ApplicationCache._by_identifier", "applications by name", sizes.APPLICATIONS
    ),
    _of_zone(
        "zones.applications.ApplicationCache._policy_facts",
        "what policies know of applications",
        sizes.APPLICATIONS,
    ),
    _of_zone(
        "zones.applications.ApplicationCache._principals",
        "applications whose name is their own",
        sizes.APPLICATIONS,
    ),
    _of_zone(
        "zones.applications.ApplicationCache._dependencies",
        "what applications may ask for",
        sizes.APPLICATIONS,
    ),
    _of_zone("zones.resources.ResourceCache._by_identifier", "resources by identifier", sizes.RESOURCES),
    _of_zone("zones.resources.ResourceCache._by_id", "resources by id", sizes.RESOURCES),
    _of_zone(
        "zones.resources.ResourceCache._by_application",
        "resources by who provides them",
        sizes.RESOURCES_BY_APPLICATION,
    ),
    _of_zone("zones.providers.ProviderCache._by_id", "providers", sizes.PROVIDERS),
    _of_zone(
        "zones.withdrawals.WithdrawalCache._instants",
        "names whose earlier tokens are worth nothing",
        sizes.WITHDRAWALS,
    ),
    _of_zone("zones.session_roots.SessionRootCache._roots", "sessions", sizes.SESSIONS),
    _of_zone("zones.session_roots.SessionRootCache._principals", "users", sizes.USERS),
    _of_zone(
        "authority.subject_tokens.VerifiedTokenCache.tokens",
        "access tokens that were verified",
        sizes.VERIFIED_TOKENS,
    ),
    _of_zone("authority.consents.ConsentCache.scopes", "consents", sizes.CONSENTS),
    _of_zone("authority.consents.ConsentCache.agreed", "what users agreed to", sizes.CONSENTS),
    _of_zone("authority.browser_sessions.BrowserSessionCache.sessions", "browsers' sessions", sizes.SESSIONS),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.decisions", "policy decisions", sizes.POLICY_DECISIONS
    ),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.reads", "what policies look at", sizes.POLICY_READS
    ),
    _of_zone(
        "issuing.policy_decision.PolicyDecisionCache.parties",
        "what policies know of applications and resources",
        sizes.POLICY_PARTIES,
    ),
    BoundedMemory(
        "runtime.api.oauth.discovery.DiscoveryDocumentCache.documents",
        "documents about the zone",
        2,
        _OF_ZONE,
    ),
)

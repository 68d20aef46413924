"""What a process remembers from one request to the next: each dictionary, list and set, with its bound."""

from dataclasses import dataclass

from runtime import logs
from runtime.adapters import shared_fetch
from runtime.services import bounded_cache, decisions, epochs, rate_limiter, revocation_list
from runtime.services.management.authentication import callers
from runtime.services.zones import cache, cached_zone, policies

_REQUESTS = "as many as are worked on"
_ZONES = cache.KEPT_ZONES
_ZONE, _VIEW = "runtime.services.zones.cache.Zones", "runtime.services.zones.cached_zone.CachedZone"
_OF_ZONE = "of a zone"


@dataclass(frozen=True, slots=True)
class Memory:
    """A container that lives as long as a process, or as a zone's view in it.

    Attributes:
        place: module, class and attribute.
        most: entries; or in words what else bounds it.
        whose: one for the process, or one for each zone that it knows.
    """

    place: str
    what: str
    most: int | str
    whose: str = "of a process"


def _of_zone(name: str, what: str, most: int | str = bounded_cache.LIMIT) -> Memory:
    return Memory(f"{_VIEW}.{name}", what, most, _OF_ZONE)


MEMORY: tuple[Memory, ...] = (
    Memory(
        "runtime.services.clients.guessing.SecretGuessing._blocked", "clients that wait", bounded_cache.LIMIT
    ),
    Memory("runtime.logs.ThrottledWarnings._told", "warnings of a moment ago", logs.MOST_TROUBLES),
    Memory("runtime.services.rate_limiter.RateLimiter._local", "limits counted here", "the limits there are"),
    Memory(
        "runtime.services.rate_limiter._LocalCounts._counted", "counts of one limit", rate_limiter.MAX_COUNTED
    ),
    Memory(
        "runtime.services.decisions.Decisions._queued",
        "token events to be written; beyond it requests are answered 503",
        decisions.MAX_QUEUED,
    ),
    Memory(
        "runtime.services.decisions.Decisions._seen",
        "credentials whose use was recorded within a day",
        decisions.MOST_SEEN,
    ),
    Memory(
        "runtime.services.decisions.Decisions._tallies",
        "refusals that were only counted, by zone, grant type and code",
        "zones there are, for a minute",
    ),
    Memory(
        "runtime.storage.sql.database.Database._at_one_instant",
        "requests that read the database at one instant",
        _REQUESTS,
    ),
    Memory("runtime.services.epochs._Moved._newer", "epochs that have moved lately", epochs.MOST_MOVED),
    Memory("runtime.services.epochs._Moved._older", "the same, of before", epochs.MOST_MOVED),
    Memory(
        "runtime.services.revocation_list.Revocations._logs", "zones' revocations", revocation_list.KEPT_LOGS
    ),
    Memory(
        "runtime.services.management.authentication.callers._noted",
        "API keys that were seen in use",
        callers.MAX_NOTED,
    ),
    Memory(
        "runtime.services.management.authentication.callers._background",
        "notes of that, being written",
        _REQUESTS,
    ),
    Memory(
        "runtime.services.management.changesets.admission._taken",
        "changesets and snapshots under way, by organization and caller",
        _REQUESTS,
    ),
    Memory("runtime.services.management.time_slices._turns", "who of long work goes on next", 1),
    Memory("runtime.services.job_notifier.JobNotifier._notified", "jobs with work", "the jobs there are"),
    Memory(
        "runtime.services.outbox.delivery.Outbox._handlers", "how messages are sent", "the topics there are"
    ),
    Memory(
        "runtime.adapters.shared_fetch._Partitions._partitions",
        "documents of others (keys, descriptions of clients and providers), and failures to fetch one; "
        f"{shared_fetch.MAX_OF_ONE} of one zone's",
        shared_fetch.MAX_ENTRIES,
    ),
    Memory("runtime.adapters.shared_fetch.SharedFetch._running", "fetches under way", _REQUESTS),
    Memory("runtime.adapters.outbound.Outbound._turns", "whose turn it is to fetch", _REQUESTS),
    Memory(
        "runtime.storage.state.partitions.PartitionedEntries._shares",
        "short-lived state without Redis, by kind and zone",
        "see the list of that",
    ),
    Memory("runtime.storage.state.batching.RequestBatcher._waiting", "questions to Redis", _REQUESTS),
    Memory("runtime.storage.state.batching.RequestBatcher._trips", "trips to Redis", _REQUESTS),
    Memory(f"{_ZONE}._views", "zones, as they stand", _ZONES),
    Memory(f"{_ZONE}._loading", "zones that are being read", _ZONES),
    Memory(f"{_ZONE}._parsed_keys", "zones' keys", _ZONES),
    Memory(
        "runtime.services.zones.policies.PolicyCache._compiled", "policy sets, parsed", policies.KEPT_SETS
    ),
    Memory(
        "runtime.services.zones.policies.PolicyCache._by_set_version",
        "users' policy sets, parsed",
        policies.KEPT_SETS,
    ),
    Memory(f"{_ZONE}._ids_by_slug", "ids of zones by slug", _ZONES),
    _of_zone("memo", "documents about the zone", 2),
    _of_zone("keys", "its keys", "those there are"),
    _of_zone("_signing", "its signing keys", "those there are"),
    _of_zone("verified", "access tokens that were verified"),
    _of_zone("decisions", "policy decisions"),
    _of_zone("looked_at", "what policies look at", cached_zone.KEPT_SMALL),
    _of_zone("parties", "what policies know of applications and resources", cached_zone.KEPT_SMALL),
    _of_zone("consents", "consents"),
    _of_zone("agreed", "what users agreed to"),
    _of_zone("signed_in", "browsers' sessions"),
    _of_zone("_clients", "clients by client id", cached_zone.KEPT_SMALL),
    _of_zone("_workloads", "workloads by subject", cached_zone.KEPT_SMALL),
    _of_zone("_applications", "applications by id", cached_zone.KEPT_SMALL),
    _of_zone("_named_applications", "applications by name", cached_zone.KEPT_SMALL),
    _of_zone("_withdrawn", "names whose earlier tokens are worth nothing", cached_zone.KEPT_SMALL),
    _of_zone("_application_facts", "what policies know of applications", cached_zone.KEPT_SMALL),
    _of_zone("_provided", "resources by who provides them", cached_zone.KEPT_SMALL),
    _of_zone("_resources", "resources by identifier"),
    _of_zone("_resources_by_id", "resources by id"),
    _of_zone("_providers", "providers", cached_zone.KEPT_SMALL),
    _of_zone("_principals", "applications whose name is their own", cached_zone.KEPT_SMALL),
    _of_zone("_dependencies", "what applications may ask for", cached_zone.KEPT_SMALL),
    _of_zone("_roots", "sessions"),
    _of_zone("_users", "users"),
)

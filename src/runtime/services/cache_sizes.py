"""The maximum number of entries of each cache of a process: the source of docs/limits.md, and of metrics."""

from typing import Any, Self
from weakref import WeakValueDictionary


class CacheSize(int):
    """The maximum number of entries of a cache, and what metrics tell of all caches of that sort together.

    Attributes:
        name: what metrics call them.
        hits, misses: lookups in this process.
        caches: those that there are, one for each zone or one for the process.
    """

    name: str
    hits: int
    misses: int
    caches: WeakValueDictionary[int, Any]

    def __new__(cls, name: str, entries: int) -> Self:
        size = super().__new__(cls, entries)
        size.name, size.hits, size.misses, size.caches = name, 0, 0, WeakValueDictionary()
        return size

    @property
    def entries(self) -> int:
        """The number of entries that there are in this process."""
        return sum(map(len, list(self.caches.values())))


# Of the process.
ZONES = CacheSize("zones", 1_000)
DATA_KEYS = CacheSize("data_keys", 1_000)
POLICY_SETS = CacheSize("policy_sets", 1_000)
REVOCATION_LISTS = CacheSize("revocation_lists", 1_000)
RATE_LIMIT_COUNTS = CacheSize("rate_limit_counts", 20_000)  # of one limit
BLOCKED_CLIENTS = CacheSize("blocked_clients", 20_000)
CREDENTIALS_IN_USE = CacheSize("credentials_in_use", 20_000)
ADDRESS_USES = CacheSize("address_uses", 20_000)

# Of each zone. What there is one of for each application, policy or provider:
CLIENTS = CacheSize("clients", 2_000)
WORKLOADS = CacheSize("workloads", 2_000)
APPLICATIONS = CacheSize("applications", 2_000)
RESOURCES_BY_APPLICATION = CacheSize("resources_by_application", 2_000)
PROVIDERS = CacheSize("providers", 2_000)
SHARED_CREDENTIALS = CacheSize("shared_credentials", 2_000)
WITHDRAWALS = CacheSize("withdrawals", 2_000)  # by one name
WITHDRAWALS_OF_TOKENS = CacheSize("withdrawals_of_tokens", 2_000)  # by all names of a token
POLICY_READS = CacheSize("policy_reads", 2_000)
POLICY_PARTICIPANTS = CacheSize("policy_participants", 2_000)
# What there is one of for each user, session, token or resource:
RESOURCES = CacheSize("resources", 20_000)
USERS = CacheSize("users", 20_000)
SESSIONS = CacheSize("sessions", 20_000)
VERIFIED_TOKENS = CacheSize("verified_tokens", 20_000)
POLICY_DECISIONS = CacheSize("policy_decisions", 20_000)
CONSENTS = CacheSize("consents", 20_000)
ALLOWED_TARGETS = CacheSize("allowed_targets", 20_000)
OPENED_TOKENS = CacheSize("opened_tokens", 20_000)  # a kilobyte or two each
KNOWN_EXCHANGES = CacheSize("known_exchanges", 5_000)  # with a token each

ALL = tuple(size for size in list(globals().values()) if isinstance(size, CacheSize))

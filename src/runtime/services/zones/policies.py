"""The active policies of a zone: parsed, with the context members that each reads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, PolicyRule
from runtime.adapters.tenant_threads import TenantThreads, TooManyWaiting
from runtime.domain.errors import Unavailable
from runtime.domain.policy import schema
from runtime.domain.policy.context_usage import ContextUsage
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.storage.sql.zone_data import ActivePolicies

# Sets of one organization that are parsed, or wait for that.
MAX_WAITING = 64


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a set, parsed, with what each of their rules looks at.

    Attributes:
        rules: of each policy, by its version.
    """

    compiled: CompiledPolicies
    reads: tuple[ContextUsage, ...]
    rules: Mapping[str, tuple[PolicyRule, ...]]


class PolicyCache:
    """Compiled policies, by the versions they were made of: a version never changes.

    A large set takes half a second. That is done in a thread, where organizations take turns; once for all
    who ask; and where a zone's set was changed, for the policies that are new in it.
    """

    def __init__(self, beside: "PolicyCache | None" = None) -> None:
        """Args:
        beside: the cache whose thread it shares, and whose parsed policies it goes by.
        """
        self._compiled: BoundedCache[Policies] = BoundedCache(cache_sizes.POLICY_SETS)
        self._beside = beside
        self._latest: BoundedCache[Policies] = BoundedCache(cache_sizes.POLICY_SETS)
        self._by_set_version: BoundedCache[Policies] = BoundedCache(cache_sizes.POLICY_SETS)
        self._compiling: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads: TenantThreads = (
            beside._threads if beside else TenantThreads(1, name="policies", max_waiting=MAX_WAITING)
        )

    def apart(self) -> "PolicyCache":
        """A cache for one request, which puts nothing into this one: for policies that are only tried."""
        return PolicyCache(self)

    async def compiled(self, active: ActivePolicies, *, zone_id: str, tenant: str) -> Policies:
        """The compiled policies of a zone's active set.

        Args:
            tenant: the organization whose turn it is.
        Raises: InvalidPolicy; Unavailable while too many sets of the organization wait.
        """
        key = "\0".join([active.schema_version, *(each[0] for each in active.policies)])
        if (found := self._compiled.get(key)) is None:
            async with self._one_of(key):
                if (found := self._compiled.get(key)) is None:
                    found = await self._compile(active, self._known(zone_id), tenant)
                    self._compiled[key] = found
        self._latest[zone_id] = found
        return found

    async def of_set_version(
        self, set_version_id: str, read: Callable[[], Awaitable[ActivePolicies | None]], *, tenant: str
    ) -> Policies | None:
        """The compiled policies of one set version, read when not cached; None when it is gone.

        Raises: as `compiled`.
        """
        if (found := self._by_set_version.get(set_version_id)) is None:
            async with self._one_of(set_version_id):
                if (found := self._by_set_version.get(set_version_id)) is None and (
                    active := await read()
                ) is not None:
                    found = await self._compile(active, None, tenant)
                    self._by_set_version[set_version_id] = found
        return found

    def _known(self, zone_id: str) -> Policies | None:
        """The zone's policies as they were compiled last."""
        known = self._latest.get(zone_id)
        return self._beside._known(zone_id) if known is None and self._beside else known

    def close(self) -> None:
        """Stop the thread."""
        self._threads.close()

    def _one_of(self, key: str) -> asyncio.Lock:
        """Held by who compiles what others ask for, too."""
        return self._compiling.setdefault(key, asyncio.Lock())

    async def _compile(self, active: ActivePolicies, former: Policies | None, tenant: str) -> Policies:
        known = former.rules if former is not None else {}
        try:
            return await self._threads.run(tenant, lambda: _compiled(active, known))
        except TooManyWaiting:
            raise Unavailable("too many policy sets are being compiled: please try again shortly") from None


def _compiled(active: ActivePolicies, known: Mapping[str, tuple[PolicyRule, ...]]) -> Policies:
    """Policies parsed, but for those that are known. Raises InvalidPolicy."""
    rules = {
        version_id: known.get(version_id)
        or cedar.parse_rules(raw if raw is not None else cedar.from_json(parsed or {}))
        for version_id, raw, parsed in active.policies
    }
    words = cedar.parse_schema(schema.get(active.schema_version).text)
    reads = tuple(rule.reads for each in rules.values() for rule in each)
    return Policies(cedar.compile_policies(rules, words), reads, rules)

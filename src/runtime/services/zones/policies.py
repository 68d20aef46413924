"""The active policies of a zone: parsed, with the context members that each reads."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, InvalidPolicy
from runtime.domain.policy import schema
from runtime.domain.policy.context_usage import UNKNOWN, ContextUsage, context_usage_of
from runtime.services import cache_sizes
from runtime.services.bounded_cache import BoundedCache
from runtime.storage.sql.zone_data import ActivePolicies


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a set, parsed, with what each of their rules looks at."""

    compiled: CompiledPolicies
    reads: tuple[ContextUsage, ...]


class PolicyCache:
    """Compiled policies, by the versions they were made of: a version never changes."""

    def __init__(self) -> None:
        self._compiled: BoundedCache[Policies] = BoundedCache(cache_sizes.POLICY_SETS)
        self._by_set_version: BoundedCache[Policies] = BoundedCache(cache_sizes.POLICY_SETS)

    def compiled(self, active: ActivePolicies) -> Policies:
        """The compiled policies of an active set. Raises InvalidPolicy."""
        key = "\0".join([active.schema_version, *(each[0] for each in active.policies)])
        if (found := self._compiled.get(key)) is None:
            found = compiled(active)
            self._compiled[key] = found
        return found

    async def of_set_version(
        self, set_version_id: str, read: Callable[[], Awaitable[ActivePolicies | None]]
    ) -> Policies | None:
        """The compiled policies of one set version, read when not cached; None when it is gone.

        Raises: InvalidPolicy.
        """
        if (found := self._by_set_version.get(set_version_id)) is None and (
            active := await read()
        ) is not None:
            found = compiled(active)
            self._by_set_version[set_version_id] = found
        return found


def compiled(active: ActivePolicies) -> Policies:
    """Policies parsed. Raises InvalidPolicy."""
    words = cedar.parse_schema(schema.get(active.schema_version).text)
    texts = [
        (version_id, raw if raw is not None else cedar.from_json(parsed or {}))
        for version_id, raw, parsed in active.policies
    ]
    reads = tuple(each for _, text in texts for each in _reads(text))
    return Policies(cedar.compile_policies(texts, words), reads)


def _reads(text: str) -> list[ContextUsage]:
    try:
        return context_usage_of(cedar.to_json(text))
    except InvalidPolicy:  # too deep for that form
        return [UNKNOWN]

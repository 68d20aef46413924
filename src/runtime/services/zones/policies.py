"""Policies as zones decide by them: parsed, with what each of their rules looks at."""

from dataclasses import dataclass

from runtime.adapters import cedar
from runtime.adapters.cedar import CompiledPolicies, PolicyBroken
from runtime.domain.policy import schema
from runtime.domain.policy.circumstances import UNKNOWN, Reads, reads_of
from runtime.storage.sql.exchange import ActivePolicies


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a set, parsed, with what each of their rules looks at."""

    compiled: CompiledPolicies
    reads: tuple[Reads, ...]


def compiled(active: ActivePolicies) -> Policies:
    """Policies parsed. Raises PolicyBroken."""
    words = cedar.parse_schema(schema.get(active.schema_version).text)
    texts = [
        (version_id, raw if raw is not None else cedar.from_json(parsed or {}))
        for version_id, raw, parsed in active.policies
    ]
    reads = tuple(each for _, text in texts for each in _reads(text))
    return Policies(cedar.compile_policies(texts, words), reads)


def _reads(text: str) -> list[Reads]:
    try:
        return reads_of(cedar.to_json(text))
    except PolicyBroken:  # too deep for that form
        return [UNKNOWN]

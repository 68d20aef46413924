"""Finds names in active policies that no object of the zone has: a `forbid` about one never applies.

The server checks the names in a policy when it is written. The objects can be renamed or deleted by hand
afterwards, which changes no member of the policy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.cedar import EntityName, Vocabulary, parse_name, parse_policies
from reconciler.kinds import Entity, Kinds, MissingName
from reconciler.kinds.policy_lists import POLICY

from .matching import Match, Matcher
from .policy_impact import MissingPolicyName
from .policy_preview import TEXT

_ABSENT = "absent_names"


@dataclass(frozen=True)
class MissingNameSearch:
    """The search for names that no object has, also after the plan.

    Attributes:
        zones: the zones in which the configuration has objects: id -> name for people.
        hint: the suggestion at the end of a message for an unknown name, given the known ones.
    """

    matcher: Matcher
    kinds: Kinds
    zones: Mapping[str, str]
    hint: Callable[[str, Iterable[str]], str]

    def all(self) -> tuple[MissingPolicyName, ...]:
        """All missing names of these zones, by zone, policy and name."""
        found = [each for zone_id in self.zones for each in self._in_zone(zone_id)]
        return tuple(sorted(found, key=lambda each: (each.zone, each.policy, each.name)))

    def _in_zone(self, zone_id: str) -> Iterator[MissingPolicyName]:
        entities = self.matcher.index.in_zone.get(zone_id, ())
        missing = [one for each in entities if each.in_force for one in each.in_force.missing_names]
        if not missing:
            return
        vocabulary = Vocabulary.read(self.kinds.by_name[POLICY].cedar[TEXT])
        matches = {
            match.found.id: match
            for match in self.matcher.matches.values()
            if match.found is not None and match.manifest.kind.name == POLICY and not match.foreign
        }
        described = {
            (match.manifest.kind.name, match.handle)
            for match in self.matcher.matches.values()
            if not match.released and self.matcher.zone_id(match.manifest) == zone_id
        }
        for one in missing:
            kind = vocabulary.kinds.get(one.type)
            if (kind, one.id) not in described:
                known = [each.handle for each in entities if each.kind == kind and each.handle is not None]
                yield from self._missing_name(zone_id, one, vocabulary, matches.get(one.policy_id), known)

    def _missing_name(
        self,
        zone_id: str,
        one: MissingName,
        vocabulary: Vocabulary,
        match: Match | None,
        known: Sequence[str],
    ) -> Iterator[MissingPolicyName]:
        """The name as git's text has it now; None where the text lacks it, or lists it as absent."""
        name, place = EntityName(one.type, one.id), f"line {one.line} of its text"
        policy = self.matcher.index.by_id.get(one.policy_id)
        managed = self._is_managed(policy)
        if match is None and managed:
            return  # no manifest describes the policy any more: it is deleted
        if match is not None:
            if name in map(parse_name, match.wanted.get(_ABSENT) or ()):
                return
            text = str(match.wanted.get(TEXT) or "")
            reading = parse_policies(text, vocabulary)
            at = next((each.begin for each in reading.mentions if each.name == name), None)
            if at is None and reading.readable:
                return
            file = match.manifest.files.get(TEXT)
            if at is not None and file is not None:
                line = text.count("\n", 0, at) + 1
                place = f"{file}:{line}:{at - text.rfind(chr(10), 0, at)}"
            elif file is None:
                place = str(match.manifest.origin)
        label = policy.ownership.name if policy and policy.ownership else one.policy
        hint = self.hint(one.id, known)
        yield MissingPolicyName(self.zones[zone_id], str(name), label, place, managed, hint)

    def _is_managed(self, policy: Entity | None) -> bool:
        record = policy.ownership if policy is not None else None
        return record is not None and record.owner == self.matcher.owner

"""Predicts the policy impact of a plan, zone by zone: what policies in force no longer restrict.

A policy means whoever belongs to a name when it decides. A plan that empties a group says that of the group
alone; that a `forbid` goes by this group stands in a text that the plan need not touch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from reconciler.cedar import EntityMention, ParsedPolicies, Rule, Vocabulary, is_covered, parse_policies
from reconciler.kinds import Entity, Kinds

from .operations import CreateOperation, Operation, WriteOperation, zone_id_of
from .policy_impact import PolicyImpact, PolicySetChange, PrefixExemption, WidenedAccess
from .resource_prefixes import RESOURCE, exempt_from_prefix, reached_by_prefix
from .zone_state import ASSIGNMENT, Item, ZoneState, key_of, zone_before_and_after

POLICY, TEXT = "Policy", "cedar"
POLICY_SET, ACTIVE = "PolicySet", "active"


_Rules = Mapping[str, tuple[Rule, ...]]  # of the policies that decide, by id or by the changeset's name


@dataclass(frozen=True)
class PolicyPreview:
    """What is known to work it out.

    Attributes:
        in_zone: zone id -> what is in it.
        names: zone id -> its name for people.
        same: the changeset's name of what replaces something -> the id of that.
        displaced: git's policy sets that somebody keeps from deciding on the server; as in `written`.
        written: policy -> its text in git and the file that it is from; by id, or by the changeset's name.
        label: key -> `Kind/name` for people.
    """

    kinds: Kinds
    in_zone: Mapping[str, Sequence[Entity]]
    names: Callable[[str], str]
    same: Mapping[str, str]
    written: Mapping[str, tuple[str, str | None]]
    displaced: frozenset[str]
    label: Callable[[str], str]
    words: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", Vocabulary.read(self.kinds.by_name[POLICY].cedar[TEXT]))

    def of(self, operations: Sequence[Operation]) -> PolicyImpact:
        """What follows from these operations, zone by zone."""
        by_zone: dict[str, list[Operation]] = defaultdict(list)
        gone = {each["id"] for each in operations if each["op"] == "delete"}
        for each in operations:
            zone_id = zone_id_of(each)
            if zone_id is not None and zone_id not in gone:
                by_zone[zone_id].append(each)
        deciding: list[PolicySetChange] = []
        widened: list[WidenedAccess] = []
        apart: list[PrefixExemption] = []
        for zone_id in sorted(by_zone, key=self.names):
            zone = self._zone(zone_id, by_zone[zone_id])
            deciding += zone.deciding()
            widened += sorted(set(zone.widened()), key=lambda each: (each.name, each.policy, each.place))
            apart += zone.exempt()
        return PolicyImpact(tuple(deciding), tuple(widened), tuple(apart))

    def _zone(self, zone_id: str, operations: Sequence[Operation]) -> "_Zone":
        told = {*self.words.kinds.values(), ASSIGNMENT, POLICY, POLICY_SET}
        entities = [each for each in self.in_zone.get(zone_id, ()) if each.kind in told]
        before, after = zone_before_and_after(entities, operations, self.kinds, self.same)
        return _Zone(self, self.names(zone_id), entities, operations, before, after)


@dataclass
class _Zone:
    all: PolicyPreview
    name: str
    entities: Sequence[Entity]
    operations: Sequence[Operation]
    before: ZoneState
    after: ZoneState
    _by_id: Mapping[str, Entity] = field(init=False)

    def __post_init__(self) -> None:
        self._by_id = {each.id: each for each in self.entities}

    # --- which set decides

    @cached_property
    def _decides_before(self) -> str | None:
        """The set that decides now, as far as it is to be seen."""
        sets = [each for each in self.entities if each.kind == POLICY_SET]
        in_force = [each.id for each in sets if each.in_force is not None]
        return next(iter(in_force or [each.id for each in sets if each.spec.get(ACTIVE) is True]), None)

    @cached_property
    def _decides_after(self) -> str | None:
        """The set that the changeset lets decide; else the one that decides now, while it may.

        Where none is left, the server goes back to the set that the zone began with.
        """
        former = self._decides_before
        for each in self._written(POLICY_SET):
            key = self._key(each)
            if self.after.things[key].spec.get(ACTIVE, True) is True:
                return key
            former = None if key == former else former
        return former if former in self.after.things else self._first_set

    @cached_property
    def _first_set(self) -> str | None:
        found = (each for each in self.entities if each.kind == POLICY_SET and each.owner_type == "platform")
        return next((each.id for each in found), None)

    def _written(self, kind: str) -> Iterator[CreateOperation | WriteOperation]:
        there = (each for each in self.operations if each["kind"] == kind and "spec" in each)
        return (each for each in there if self._key(each) in self.after.things)

    def _key(self, operation: Operation) -> str:
        return key_of(operation, self.all.same)

    def deciding(self) -> Iterator[PolicySetChange]:
        """That another set decides than before, or that the same may forbid less or permit more."""
        before, after = self._decides_before, self._decides_after
        if before is None:
            return
        lost, gained = list(self._holding_less("forbid")), list(self._gaining("permit"))
        if before == after and not lost and not gained:
            return
        drift = before != after and after in self.all.displaced
        first = tuple(self._described(after)) if before != after else ()
        new = [each for each in gained if each not in self._texts_before]
        yield PolicySetChange(
            self.name,
            self.all.label(before),
            self.all.label(after) if after is not None else None,
            forbids=self._labels(each for each in lost if each not in self._texts_after),
            forbids_less=self._labels(each for each in lost if each in self._texts_after),
            permits=self._labels(new) if not first else (),  # what those permit is described
            permits_more=self._labels(each for each in gained if each in self._texts_before),
            first=first,
            first_ended=tuple(self._described(before)) if before != after else (),
            drift=drift,
            forbids_again=self._labels(self._gaining("forbid")) if drift else (),
        )

    def _holding_less(self, effect: str) -> Iterator[str]:
        """Policies with a rule of that effect which may apply to less afterwards, or decide no longer."""
        return self._compared(effect, self._rules_before, self._rules_after)

    def _gaining(self, effect: str) -> Iterator[str]:
        """Policies with a rule of that effect which may apply to more than before, or decides newly."""
        return self._compared(effect, self._rules_after, self._rules_before)

    @staticmethod
    def _compared(effect: str, ours: "_Rules", theirs: "_Rules") -> Iterator[str]:
        """The policies of ours with a rule that none of theirs in the same policy covers.

        Of rules that move to another policy this is told, too: what each names may change beside that.
        """
        for policy, rules in ours.items():
            others = theirs.get(policy, ())
            if any(each.effect == effect and not is_covered(each, others) for each in rules):
                yield policy

    @cached_property
    def _rules_before(self) -> "_Rules":
        return {policy: self._rules(text) for policy, text in self._texts_before.items()}

    @cached_property
    def _rules_after(self) -> "_Rules":
        return {policy: self._rules(text) for policy, text in self._texts_after.items()}

    def _rules(self, text: str) -> tuple[Rule, ...]:
        """The rules of a text; of one that only the engine can read, that it may be any."""
        found = self._read(text)
        if found.readable or not text:
            return found.rules
        return tuple(Rule(effect, ((text,), (), ())) for effect in ("forbid", "permit"))

    def _labels(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.all.label(each) for each in keys)

    def _described(self, policy_set: str | None) -> Iterator[str]:
        """What the policies say of themselves that the zone began with; nothing for another set."""
        if policy_set is None or policy_set != self._first_set:
            return
        for each in self._entity(policy_set).spec.get("policies", ()):
            if each in self._by_id and (described := self._entity(each).spec.get("description")):
                yield described

    # --- what the policies say that decide

    @cached_property
    def _texts_before(self) -> Mapping[str, str]:
        """The policies that decide now: id -> text."""
        if self._decides_before is None:
            return {}
        entity = self._entity(self._decides_before)
        said = entity.in_force.spec if entity.in_force is not None else {}
        parts = entity.in_force.contents if entity.in_force is not None else ()
        texts = {each.id: str(each.spec.get(TEXT, "")) for each in parts}
        for policy in said.get("policies", entity.spec.get("policies")) or ():
            if policy in self._by_id:
                texts[policy] = self._text_in_force(self._entity(policy))
        return texts

    @staticmethod
    def _text_in_force(policy: Entity) -> str:
        said = policy.in_force.spec if policy.in_force is not None else {}
        return str(said.get(TEXT, policy.spec.get(TEXT)) or "")

    @cached_property
    def _texts_after(self) -> Mapping[str, str]:
        """The policies that decide afterwards: key -> text."""
        after = self._decides_after
        if after is None:
            return {}
        rewritten = {self._key(each): each["spec"] for each in self._written(POLICY)}
        composed = {self._key(each) for each in self._written(POLICY_SET) if "policies" in each["spec"]}
        if after == self._decides_before and after not in composed:
            policies: Iterable[str] = self._texts_before
        else:
            policies = self.after.things[after].spec.get("policies") or ()
        texts = {}
        for policy in policies:
            thing = self.after.things.get(policy)
            if policy in self.all.written:
                texts[policy] = self.all.written[policy][0]
            elif TEXT in rewritten.get(policy, {}) and thing is not None:
                texts[policy] = str(thing.spec.get(TEXT) or "")
            elif policy in self._texts_before:
                texts[policy] = self._texts_before[policy]
            elif thing is not None:
                texts[policy] = str(thing.spec.get(TEXT) or "")
        return texts

    def _entity(self, entity_id: str) -> Entity:
        return self._by_id[entity_id]

    def _read(self, text: str) -> ParsedPolicies:
        return parse_policies(text, self.all.words)

    # --- what they do not hold back

    def exempt(self) -> Iterator[PrefixExemption]:
        """What stands beneath a new prefix, for which policies that name the prefix do not hold."""
        for prefix, keys in exempt_from_prefix(self.before, self.after):
            yield PrefixExemption(self.name, prefix, tuple(sorted(self._labels(keys))))

    def widened(self) -> Iterator[WidenedAccess]:
        """Policies in force, before and after, that hold back less for what they name."""
        changed = dict(self._changed())
        if not changed:
            return
        for policy, text in self._texts_after.items():
            if policy not in self._texts_before or not _may_name(text, changed):
                continue
            former = {
                (each.name, each.effect, each.sense)
                for each in self._read(self._texts_before[policy]).mentions
            }
            for mention in self._read(text).mentions:
                kind = self.all.words.kinds.get(mention.name.type)
                change = changed.get((kind or "", mention.name.id))
                if change is not None and (mention.name, mention.effect, mention.sense) in former:
                    yield from self._by(policy, text, mention, change)

    def _changed(self) -> Iterator[tuple[tuple[str, str], "_Change"]]:
        kinds = {kind for kind in self.all.words.kinds.values() if kind is not None}
        names = {name for name in {*self.before.by_name, *self.after.by_name} if name[0] in kinds}
        beneath, none = reached_by_prefix(self.before, self.after), frozenset[Item]()
        for name in names:
            old, new = self.before.belonging(*name), self.after.belonging(*name)
            if name[0] == RESOURCE:
                old, new = old | beneath[0].get(name[1], none), new | beneath[1].get(name[1], none)
            gone = name in self.before.by_name and name not in self.after.by_name
            if old != new or gone:
                former = self.after.things.get(self.before.by_name.get(name, ""))
                now = former.handle if gone and former is not None else None
                yield name, _Change(old - new, new - old, not new, gone, now)

    def _by(
        self, policy: str, text: str, mention: EntityMention, change: "_Change"
    ) -> Iterator[WidenedAccess]:
        """What of a change widens access: to whom a `forbid` applies no longer, or a `permit` from now on."""
        holds_back = mention.effect == "forbid"
        told = WidenedAccess(
            self.name,
            str(mention.name),
            self.all.label(policy).partition("/")[2],
            self._place(policy, text, mention),
            mention.effect,
            mention.sense,
            empty=change.empty and not change.gone,
            gone=change.gone,
            now=change.now,
        )
        if (change.loses or change.gone) and (mention.sense >= 0 if holds_back else mention.sense <= 0):
            yield replace(told, loses=self._shown(change.loses))
        if change.gains and holds_back and mention.sense <= 0:
            yield replace(told, gains=self._shown(change.gains), empty=False, gone=False, now=None)

    def _place(self, policy: str, text: str, mention: EntityMention) -> str:
        before = text[: mention.begin]
        line, column = before.count("\n") + 1, mention.begin - (before.rfind("\n") + 1) + 1
        file = self.all.written.get(policy, ("", None))[1]
        return f"{file}:{line}:{column}" if file is not None else f"line {line} of its text"

    def _shown(self, items: Iterable[Item]) -> tuple[str, ...]:
        return tuple(sorted(self.all.label(key) if kind else key for kind, key in items))


def _may_name(text: str, names: Iterable[tuple[str, str]]) -> bool:
    """Tell, before a text is read, whether it may name one of these; escapes are not looked through."""
    return "\\" in text or any(handle in text for _, handle in names)


@dataclass(frozen=True, slots=True)
class _Change:
    """What becomes of a name: who or what leaves it and joins it; see `WidenedAccess`."""

    loses: frozenset[Item]
    gains: frozenset[Item]
    empty: bool
    gone: bool
    now: str | None

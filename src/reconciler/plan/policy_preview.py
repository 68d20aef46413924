"""Predicts the policy impact of a plan, zone by zone: what active policies no longer restrict.

A policy applies to whatever a name matches when it is evaluated. A plan that empties a group shows a change
of that group only; a `forbid` about the group is in the text of a policy that the plan does not change.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from reconciler.cedar import EntityMention, ParsedPolicies, Rule, Vocabulary, is_covered, parse_policies
from reconciler.kinds import Entity, Kinds
from reconciler.kinds.policy_lists import ACTIVE, POLICIES, POLICY, POLICY_SET

from .operations import CreateOperation, Operation, WriteOperation, zone_id_of
from .policy_impact import PolicyImpact, PolicySetChange, PrefixExemption, WidenedAccess
from .resource_prefixes import RESOURCE, exempt_from_prefix, reached_by_prefix
from .zone_state import ASSIGNMENT, Item, ZoneState, key_of, zone_before_and_after

TEXT = "cedar"


_Rules = Mapping[str, tuple[Rule, ...]]  # of the active policies, by id or by local id
ZonePointer = tuple[str, str]
"""How a changeset names a zone: `id` or `local_id`, and its value."""


@dataclass(frozen=True, slots=True)
class DecidingPolicies:
    """The active policies of a zone, and their set: keys, which are ids and local ids of new objects.

    `policy_set` is None for the zone's default policies.
    """

    policy_set: str | None
    policies: frozenset[str]


@dataclass(frozen=True)
class PolicyPreview:
    """The inputs of the prediction.

    Attributes:
        in_zone: zone id -> its entities.
        names: zone id -> its name for people.
        same: local id of a replacement -> the id of the entity it replaces.
        displaced: git's policy sets that are inactive because of a change on the server; keys as in
            `written`.
        written: policy, by id or by local id -> its text in git and the file it is from.
        label: key -> `Kind/name` for people.
    """

    kinds: Kinds
    in_zone: Mapping[str, Sequence[Entity]]
    names: Callable[[str], str]
    same: Mapping[str, str]
    written: Mapping[str, tuple[str, str | None]]
    displaced: frozenset[str]
    label: Callable[[str], str]
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", Vocabulary.read(self.kinds.by_name[POLICY].cedar[TEXT]))

    def of(self, operations: Sequence[Operation]) -> PolicyImpact:
        """The policy impact of these operations, zone by zone."""
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

    def active_policies(
        self, zones: Iterable[ZonePointer], operations: Sequence[Operation]
    ) -> Mapping[ZonePointer, "DecidingPolicies | None"]:
        """The policies of each zone that are active after these operations.

        None where the snapshot does not show which policy set is active.
        """
        by_zone: dict[ZonePointer, list[Operation]] = defaultdict(list)
        for each in operations:
            for pointer in each.get("zone", {}).items() if each["kind"] in (POLICY, POLICY_SET) else ():
                by_zone[pointer].append(each)
        found = {}
        for member, zone in zones:
            of_policies = self._zone(zone, by_zone[member, zone], frozenset({POLICY, POLICY_SET}))
            found[member, zone] = of_policies.active_policies(is_new=member == "local_id")
        return found

    def _zone(
        self, zone_id: str, operations: Sequence[Operation], relevant: Collection[str | None] = ()
    ) -> "_Zone":
        relevant = relevant or {*self.vocabulary.kinds.values(), ASSIGNMENT, POLICY, POLICY_SET}
        entities = [each for each in self.in_zone.get(zone_id, ()) if each.kind in relevant]
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

    # --- the active policy set

    @cached_property
    def _decides_before(self) -> str | None:
        """The policy set that is active now, if the snapshot shows it."""
        sets = [each for each in self.entities if each.kind == POLICY_SET]
        in_force = [each.id for each in sets if each.in_force is not None]
        return next(iter(in_force or [each.id for each in sets if each.spec.get(ACTIVE) is True]), None)

    @cached_property
    def _decides_after(self) -> str | None:
        """The policy set that the changeset activates; otherwise the active one, unless it is deleted.

        Without any, the server goes back to the zone's default policies.
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
        """The change of the active policy set, or of what its policies may forbid or permit."""
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
            permits=self._labels(new) if not first else (),  # their description lists the permits
            permits_more=self._labels(each for each in gained if each in self._texts_before),
            first=first,
            first_ended=tuple(self._described(before)) if before != after else (),
            drift=drift,
            forbids_again=self._labels(self._gaining("forbid")) if drift else (),
        )

    def _holding_less(self, effect: str) -> Iterator[str]:
        """Policies with a rule of that effect which may apply to less afterwards, or are no longer active."""
        return self._compared(effect, self._rules_before, self._rules_after)

    def _gaining(self, effect: str) -> Iterator[str]:
        """Policies with a rule of that effect which may apply to more than before, or become active."""
        return self._compared(effect, self._rules_after, self._rules_before)

    @staticmethod
    def _compared(effect: str, ours: "_Rules", theirs: "_Rules") -> Iterator[str]:
        """The policies of *ours* with a rule that no rule of *theirs* in the same policy covers.

        Rules that move to another policy count too: each policy's names may change besides.
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
        """The rules of a text; of a text that only the engine can parse, one that stands for any rule."""
        found = self._read(text)
        if found.readable or not text:
            return found.rules
        return tuple(Rule(effect, ((text,), (), ())) for effect in ("forbid", "permit"))

    def _labels(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.all.label(each) for each in keys)

    def _described(self, policy_set: str | None) -> Iterator[str]:
        """The description of the zone's default policies; empty for any other policy set."""
        if policy_set is None or policy_set != self._first_set:
            return
        for each in self._entity(policy_set).spec.get(POLICIES, ()):
            if each in self._by_id and (described := self._entity(each).spec.get("description")):
                yield described

    def active_policies(self, *, is_new: bool) -> DecidingPolicies | None:
        """The policies that are active afterwards; None where the active set is not known.

        Args:
            is_new: the changeset creates the zone, with its default policies active.
        """
        after = self._decides_after
        if after is None and not is_new:
            return None
        return DecidingPolicies(after if after != self._first_set else None, frozenset(self._texts_after))

    # --- the texts of the active policies

    @cached_property
    def _texts_before(self) -> Mapping[str, str]:
        """The policies that are active now: id -> text."""
        if self._decides_before is None:
            return {}
        entity = self._entity(self._decides_before)
        active = entity.in_force.spec if entity.in_force is not None else {}
        parts = entity.in_force.contents if entity.in_force is not None else ()
        texts = {each.id: str(each.spec.get(TEXT, "")) for each in parts}
        for policy in active.get(POLICIES, entity.spec.get(POLICIES)) or ():
            if policy in self._by_id:
                texts[policy] = self._text_in_force(self._entity(policy))
        return texts

    @staticmethod
    def _text_in_force(policy: Entity) -> str:
        active = policy.in_force.spec if policy.in_force is not None else {}
        return str(active.get(TEXT, policy.spec.get(TEXT)) or "")

    @cached_property
    def _texts_after(self) -> Mapping[str, str]:
        """The policies that are active afterwards: key -> text."""
        after = self._decides_after
        if after is None:
            return {}
        rewritten = {self._key(each): each["spec"] for each in self._written(POLICY)}
        composed = {self._key(each) for each in self._written(POLICY_SET) if POLICIES in each["spec"]}
        if after == self._decides_before and after not in composed:
            policies: Iterable[str] = self._texts_before
        else:
            policies = self.after.things[after].spec.get(POLICIES) or ()
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
        return parse_policies(text, self.all.vocabulary)

    # --- what they no longer restrict

    def exempt(self) -> Iterator[PrefixExemption]:
        """Resources below a new prefix to which policies that name the prefix do not apply."""
        for prefix, keys in exempt_from_prefix(self.before, self.after):
            yield PrefixExemption(self.name, prefix, tuple(sorted(self._labels(keys))))

    def widened(self) -> Iterator[WidenedAccess]:
        """Policies, active before and after, that restrict less through the names in them."""
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
                kind = self.all.vocabulary.kinds.get(mention.name.type)
                change = changed.get((kind or "", mention.name.id))
                if change is not None and (mention.name, mention.effect, mention.sense) in former:
                    yield from self._by(policy, text, mention, change)

    def _changed(self) -> Iterator[tuple[tuple[str, str], "_Change"]]:
        kinds = {kind for kind in self.all.vocabulary.kinds.values() if kind is not None}
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
        """The part of a change that widens access: a `forbid` covers fewer objects, or a `permit` more."""
        holds_back = mention.effect == "forbid"
        widened = WidenedAccess(
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
            yield replace(widened, loses=self._shown(change.loses))
        if change.gains and holds_back and mention.sense <= 0:
            yield replace(widened, gains=self._shown(change.gains), empty=False, gone=False, now=None)

    def _place(self, policy: str, text: str, mention: EntityMention) -> str:
        before = text[: mention.begin]
        line, column = before.count("\n") + 1, mention.begin - (before.rfind("\n") + 1) + 1
        file = self.all.written.get(policy, ("", None))[1]
        return f"{file}:{line}:{column}" if file is not None else f"line {line} of its text"

    def _shown(self, items: Iterable[Item]) -> tuple[str, ...]:
        return tuple(sorted(self.all.label(key) if kind else key for kind, key in items))


def _may_name(text: str, names: Iterable[tuple[str, str]]) -> bool:
    """Tell, before a text is parsed, whether it may name one of these; escapes are not decoded."""
    return "\\" in text or any(handle in text for _, handle in names)


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of a name: the objects that it no longer matches or newly matches; see `WidenedAccess`."""

    loses: frozenset[Item]
    gains: frozenset[Item]
    empty: bool
    gone: bool
    now: str | None

"""Phase: check the entities that policies name, once everything that the changeset creates exists.

A policy that is written names nothing that the zone lacks, unless it says so; and nothing goes away that a
policy in force names. Both are refused: a rule that never matches again looks as it did before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runtime.adapters.cedar_tokenizer import NamedEntity
from runtime.domain.errors import Problem
from runtime.domain.kinds import POLICY, Kind
from runtime.domain.kinds.policy import Policy
from runtime.services.management.changesets.changeset import (
    ChangeOperation,
    DeleteOperation,
    PackedOperation,
    SpecOperation,
)
from runtime.services.management.changesets.references import EntityRef
from runtime.services.management.policies import entity_references
from runtime.services.management.policies.entity_references import Name
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import bindings, changes
from runtime.storage.sql import entities as storage
from runtime.storage.sql.changes import CurrentRevision

_KINDS = {kind.name for kinds in entity_references.KINDS.values() for kind in kinds}


@dataclass(frozen=True, slots=True)
class _Written:
    """A policy that an operation writes, with its text when the operation has one."""

    index: int
    target: EntityRef
    text: str | None


@dataclass(frozen=True, slots=True)
class _Touched:
    """A name that an operation may take from what it stood for."""

    index: int
    member: str
    zone_id: str
    name: Name


@dataclass
class PolicyReferences:
    """The operations of a changeset that write policies, or change what policies may name."""

    unit: UnitOfWork
    _written: list[_Written] = field(default_factory=list)
    _touched: list[_Touched] = field(default_factory=list)

    def add_operation(
        self,
        index: int,
        operation: PackedOperation,
        kind: Kind,
        target: EntityRef,
        before: CurrentRevision | None,
    ) -> None:
        """Remember an operation. *before*: what it is about, as it stood when the changeset began."""
        if kind is POLICY and isinstance(operation, SpecOperation):
            text = operation.spec.get("cedar")
            self._written.append(_Written(index, target, text if isinstance(text, str) else None))
        elif kind.name in _KINDS and isinstance(operation, ChangeOperation | DeleteOperation):
            if before is None or before.handle is None or before.zone_id is None:
                return
            member = "" if isinstance(operation, DeleteOperation) else f".spec.{kind.handle}"
            self._touched.append(_Touched(index, member, before.zone_id, (kind.name, before.handle)))

    async def problems(self) -> list[Problem]:
        """What is wrong with names now, each at its operation."""
        if not self._written and not self._touched:
            return []
        zone_ids = await changes.zones(self.unit.conn, self.unit.organization_id)  # some may have gone
        found: list[Problem] = []
        for zone_id in sorted({str(each.target.zone_id) for each in self._written} & zone_ids.keys()):
            found += await self._unknown(zone_id)
        for zone_id in sorted({each.zone_id for each in self._touched} & zone_ids.keys()):
            found += await self._taken_away(zone_id)
        return found

    async def _unknown(self, zone_id: str) -> list[Problem]:
        """Names in the policies that were written that nothing in the zone has."""
        written = [each for each in self._written if each.target.zone_id == zone_id]
        policies = await self._policies(zone_id, [each.target.id for each in written])
        latest = {}
        if any(each.text is None for each in written):
            latest = await changes.latest_texts(self.unit.conn, [zone_id])
        named = {
            each.index: entity_references.zone_entities_named(each.text or latest.get(each.target.id) or "")
            for each in written
            if each.target.id in policies
        }
        names = {(one.type, one.id) for mentions in named.values() for one in mentions}
        existing = await entity_references.existing(self.unit, zone_id, names)
        identifiers = await entity_references.identifiers_by_address(self.unit, zone_id, names - existing)
        found = []
        for each in written:
            if (policy := policies.get(each.target.id)) is not None:
                fine = existing | entity_references.said_absent(policy)
                place = f"operations[{each.index}].spec.cedar"
                found += [
                    Problem("validation_error", f"{_place(one)}: {_missing(one, identifiers)}", place)
                    for one in named[each.index]
                    if (one.type, one.id) not in fine
                ]
        return found

    async def _taken_away(self, zone_id: str) -> list[Problem]:
        """Names that policies in force go by and that this changeset takes away."""
        touched = {each.name: each for each in self._touched if each.zone_id == zone_id}
        gone = touched.keys() - await entity_references.existing(self.unit, zone_id, touched)
        if not gone:
            return []
        in_force = await bindings.active_policy_sets(self.unit.conn, [zone_id])
        texts = (await bindings.texts_of(self.unit.conn, in_force)).values()
        policies = await self._policies(zone_id, [each.policy_id for each in texts])
        told = {each.target.id for each in self._written}
        found = []
        for text in texts:
            if text.policy_id in told:
                continue
            policy = policies.get(text.policy_id)
            lost = gone - (entity_references.said_absent(policy) if policy is not None else set())
            for one in entity_references.zone_entities_named(text.cedar or ""):
                if (name := (one.type, one.id)) in lost:
                    each = touched[name]
                    place = f"operations[{each.index}]{each.member}"
                    found.append(Problem("validation_error", _needed(text.name, one), place))
        return found

    async def _policies(self, zone_id: str, ids: Iterable[str]) -> Mapping[str, Policy]:
        wanted = list(dict.fromkeys(ids))
        rows = await storage.many(self.unit.conn, POLICY, wanted, within={"zone_id": zone_id})
        return {row.id: row for row in rows if isinstance(row, Policy) and row.archived_at is None}


def _place(one: NamedEntity) -> str:
    return f"line {one.line}, column {one.column}"


def _missing(one: NamedEntity, identifiers: Mapping[tuple[str, str], str]) -> str:
    if (identifier := identifiers.get((one.type, one.id))) is not None:
        correct = entity_references.written((one.type, identifier))
        return (
            f"the user with the e-mail address `{one.id}` has another identifier: write {correct}, "
            "or compare `principal.email`"
        )
    written = entity_references.written((one.type, one.id))
    return f"the zone has no {one.type} `{one.id}`; if it need not have one, list {written} in `absent_names`"


def _needed(policy: str, one: NamedEntity) -> str:
    written = entity_references.written((one.type, one.id))
    return (
        f"policy `{policy}` is in force and names {written} ({_place(one)} of its text);"
        " change that policy, or list the name in its `absent_names`"
    )

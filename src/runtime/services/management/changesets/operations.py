"""Phase: apply each operation, through the functions that serve single calls of the management API.

What has to wait until all operations have run is deferred: relations between entities, the archiving of
policies and policy sets, the uniqueness of names. `phases` says in which order that is done.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.domain.errors import Conflict, Forbidden, NotFound, ValidationFailed
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    BY_NAME,
    GROUP,
    POLICY,
    POLICY_SET,
    ROLE_ASSIGNMENT,
    ZONE,
    Entity,
    Kind,
    Verb,
)
from runtime.domain.kinds.values import OwnerType
from runtime.services.management import credential_scope, entities
from runtime.services.management.changesets.changeset import (
    AdoptOperation,
    ChangeOperation,
    CreateOperation,
    DeleteOperation,
    DeliveredOperation,
    PackedOperation,
    RecordOperation,
    ReleaseOperation,
    RenameOperation,
)
from runtime.services.management.changesets.handle_swaps import HandleSwaps, handle_in
from runtime.services.management.changesets.ownership import OwnershipRecords
from runtime.services.management.changesets.policy_references import PolicyReferences
from runtime.services.management.changesets.references import (
    EntityRef,
    ReferenceResolver,
    entity_of,
    has_references,
    parents_of,
)
from runtime.services.management.changesets.relations import RELATED, DeferredRelations, DeferredStep
from runtime.services.management.changesets.specs import SpecFields, split_spec
from runtime.services.management.kind_handlers import ARCHIVES, CREATES, DELETES, DELETES_MANY, UPDATES
from runtime.services.management.people import assignments
from runtime.services.management.policies import activation
from runtime.services.management.snapshots import entity_specs
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import credentials
from runtime.storage.sql.changes import CurrentRevision

# Deletions of these kinds are deferred to the end: what replaces one has to be active by then.
_LAST = (POLICY_SET, POLICY)


@dataclass
class OperationRunner:
    """Applies the operations of one changeset, and keeps what later ones need to know of earlier ones.

    Attributes:
        owners: the ownership records, as the operations so far have changed them.
        parsed_specs: index -> the parsed spec of each operation without references, as JSON text.
        current: (kind, id) -> the entity as it was when the changeset began.
    """

    unit: UnitOfWork
    owners: OwnershipRecords
    parsed_specs: dict[int, bytes]
    current: Mapping[tuple[str, str], CurrentRevision]
    _created: dict[str, Entity | None] = field(default_factory=dict)  # id -> entity; None once related
    _removals: list[DeferredStep] = field(default_factory=list)
    _named: list[DeferredStep] = field(default_factory=list)
    _found: dict[tuple[str, str], entity_specs.Extras] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.relations = DeferredRelations(self.unit)
        self.handle_swaps = HandleSwaps(self.unit)
        self.policy_references = PolicyReferences(self.unit)
        self._references = ReferenceResolver(self.unit)

    async def run(self, index: int, operation: PackedOperation) -> EntityRef:
        """Apply one operation; the entity that it was about. Raises ManagementError."""
        kind = BY_NAME[operation.kind]
        if isinstance(operation, CreateOperation):
            target = await self._create(index, operation, kind)
            self.policy_references.add_operation(index, operation, kind, target, None)
            self._named.append(DeferredStep(index, operation, kind, target, {}))
            return target
        target = self._target(operation, kind)
        before = self.current.get((kind.name, target.id))
        self.policy_references.add_operation(index, operation, kind, target, before)
        await self._require_change(operation, kind, target)
        match operation:
            case ChangeOperation():
                await self._change(index, operation, kind, target)
            case DeleteOperation():
                await self._delete(index, operation, kind, target)
            case RecordOperation():
                await self._change_record(operation, kind, target)
        if operation.name is not None and isinstance(operation, ChangeOperation | RenameOperation):
            self._named.append(DeferredStep(index, operation, kind, target, {}))
        return target

    async def check_references(self, operation: PackedOperation, *, absent: Collection[str]) -> None:
        """Look up what an operation refers to, without carrying it out. Raises ValidationFailed.

        Args:
            absent: local ids of what was not created. In a zone among them, there is nothing to look up.
        """
        kind, zone = BY_NAME[operation.kind], operation.zone
        within = operation.local_id if kind is ZONE else zone.local_id if zone is not None else None
        if within in absent or not has_references(operation.spec):
            return
        zone_id = operation.id if kind is ZONE else self._references.zone_id(operation, kind)
        await self._references.check(operation.spec, zone_id, absent=absent)

    async def _require_change(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        """Raise Forbidden unless the caller may change the entity, also where only its record changes.

        A deletion checks by itself: the entity may be gone with one that was deleted just before.
        """
        if isinstance(operation, DeleteOperation):
            return
        if kind.zoned:
            await entities.require_in(self.unit, kind, Verb.UPDATE, str(target.zone_id))
            if isinstance(operation, AdoptOperation):
                await self._require_adoption(kind, target)
        elif kind is ZONE:
            zone = await entities.zone_of(self.unit, target.id)
            entities.require_for(self.unit, kind, zone, Verb.UPDATE, {})
        else:
            entities.require(self.unit, kind, Verb.UPDATE, {})

    async def _require_adoption(self, kind: Kind, target: EntityRef) -> None:
        """Raise Forbidden unless the caller's credential reaches the entity, and customers may change it."""
        if kind is APPLICATION_CREDENTIAL:
            credential = await entity_of(self.unit, APPLICATION_CREDENTIAL, target)
            await credential_scope.refuse_part(self.unit, kind, credential)
            await credentials.refuse_platform_owned(self.unit, credential)
        elif self.unit.caller.scope:
            entity = await entity_of(self.unit, kind, target)
            await credential_scope.refuse_part(self.unit, kind, entity)
            await credential_scope.refuse_lent(self.unit, kind, entity)

    def _target(self, operation: PackedOperation, kind: Kind) -> EntityRef:
        if operation.id is None:
            if operation.local_id is None:
                raise ValidationFailed("`id` or `local_id` is required")
            return self._references.local(operation.local_id)
        found = self.current.get((kind.name, operation.id))
        if found is None:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        in_zone = operation.zone is not None and kind.zoned
        if in_zone and self._references.zone_id(operation, kind) != found.zone_id:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        return EntityRef(found.id, found.zone_id)

    async def _parsed_spec(
        self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef | None
    ) -> SpecFields:
        if (checked := self.parsed_specs.pop(index, None)) is not None:  # it is asked for once
            return SpecFields.unpacked(checked)
        type_ = None
        if kind.variants and target is not None:
            type_ = kind.variant_of(await entity_of(self.unit, kind, target))
        spec = operation.spec
        if has_references(spec):
            zone_id = target.zone_id if target else self._references.zone_id(operation, kind)
            if kind is ZONE and target is not None:
                zone_id = target.id
            spec = await self._references.resolve(spec, zone_id)
        return split_spec(operation, spec, dry_run=self.unit.dry_run, type_=type_)

    # --- create

    async def _create(self, index: int, operation: PackedOperation, kind: Kind) -> EntityRef:
        unit = self.unit
        if operation.name is None:
            raise ValidationFailed("a create operation requires `name`, the name in git")
        self._references.require_new(operation.local_id)
        zone_id = self._references.zone_id(operation, kind)
        fields = await self._parsed_spec(index, operation, kind, None)
        if kind is ROLE_ASSIGNMENT:
            made: Entity = await self._assign(str(zone_id), fields.extras)
        else:
            parents = parents_of(unit, kind, zone_id)
            await self.handle_swaps.park_holder(kind, zone_id, None, handle_in(kind, operation))
            if kind is APPLICATION_CREDENTIAL:
                credentials.require_stated_subject(fields.body)
            made = await CREATES[kind.name](unit, kind, parents, fields.body)
            if fields.late:
                made = await UPDATES[kind.name](unit, kind, parents, made.id, fields.late)
        target = EntityRef(made.id, zone_id)
        self._references.add(operation.local_id, target)
        self._created[made.id] = made if kind in RELATED else None
        await self._relate(DeferredStep(index, operation, kind, target, fields.extras), made)
        written = {**fields.body, **fields.late, **fields.extras}
        shown = made.id in unit.shown_once
        self.owners.claim(kind, made.id, zone_id, operation, written, {}, shown=shown)
        return target

    async def _relate(self, step: DeferredStep, written: Entity | None) -> None:
        """Write what relates the entity to others, or defer it to the end of the changeset."""
        if step.extras and (made := self._created.get(step.target.id)) is not None:
            step, self._created[made.id] = replace(step, made=made), None
        await self.relations.write_or_defer(step, written)

    async def _assign(self, zone_id: str, extras: Mapping[str, Any]) -> Entity:
        given = {name: value for name, value in extras["principal"].items() if value is not None}
        if len(given) != 1:
            raise ValidationFailed.of(
                "principal", "must name exactly one of `group_id`, `application_id` and `user`"
            )
        (name, value), parents = next(iter(given.items())), {"zone_id": zone_id}
        if name == "user":
            return await assignments.assign_to_address(self.unit, parents, value, extras["role_id"])
        holder = assignments.PRINCIPAL_KINDS[(GROUP if name == "group_id" else APPLICATION).name]
        return await assignments.assign(self.unit, holder, parents, value, {"role_id": extras["role_id"]})

    # --- update, adopt

    async def _change(self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        unit = self.unit
        if target.id not in self._created:
            self._require_ownership(operation, kind, target)
        fields = await self._parsed_spec(index, operation, kind, target)
        changed: Entity | None = None
        if patch := {**fields.body, **fields.cleared}:
            update = UPDATES.get(kind.name)
            if update is None:
                raise ValidationFailed(f"{kind.one} cannot be updated; delete it and create another")
            if kind is APPLICATION_CREDENTIAL:
                present = await entity_of(unit, APPLICATION_CREDENTIAL, target)
                credentials.require_stated_subject(patch, present)
            parents = parents_of(unit, kind, target.zone_id)
            handle = handle_in(kind, operation)
            await self.handle_swaps.park_holder(kind, target.zone_id, target.id, handle)
            changed = await update(unit, kind, parents, target.id, patch)
            if handle is not None:
                self.handle_swaps.settle(kind, target.id)
        await self._relate(DeferredStep(index, operation, kind, target, fields.extras), changed)
        written = {**_cleared(operation.spec), **patch, **fields.extras}
        known = self.owners.fields_of(kind, target.id)
        # What was created just now is what was written.
        is_known = target.id in self._created or known.issuperset(operation.fields)
        found = {} if is_known else await self._current_spec(kind, target)
        self.owners.claim(kind, target.id, target.zone_id, operation, written, found)
        if isinstance(operation, AdoptOperation):
            await self._record("adopt", kind, target, operation.name)

    def _require_ownership(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        if isinstance(operation, AdoptOperation):
            if self.current[kind.name, target.id].owner_type == OwnerType.PLATFORM:
                raise Forbidden(f"{kind.name} `{target.id}` is managed by the service and cannot be adopted")
            self.owners.require_free(kind, target.id)
        else:
            self.owners.require_owned(kind, target.id, before=operation.op)

    async def _current_spec(self, kind: Kind, target: EntityRef) -> dict[str, Any]:
        """The spec of an entity as it is, for members that are claimed; one query of relations for a kind."""
        zone_ids = [target.zone_id] if target.zone_id else []
        key = (kind.name, target.zone_id or "")
        if key not in self._found:
            self._found[key] = await entity_specs.extras_of(self.unit.conn, kind, zone_ids)
        entity = await entity_of(self.unit, kind, target)
        return entity_specs.spec_of(kind, entity, self._found[key](entity))

    # --- delete, release, rename

    async def delete_many(self, first: int, operations: Sequence[PackedOperation]) -> list[EntityRef]:
        """Apply deletions of entities of one kind, each once; the entities that they were about.

        Raises: ManagementError, of one of them: by themselves, they say which.
        """
        kind = BY_NAME[operations[0].kind]
        targets = [self._target(operation, kind) for operation in operations]
        for index, (operation, target) in enumerate(zip(operations, targets, strict=True), first):
            before = self.current.get((kind.name, target.id))
            self.policy_references.add_operation(index, operation, kind, target, before)
            self._require_deletable(operation, kind, target)
        ids: dict[str | None, list[str]] = {}
        for target in targets:
            ids.setdefault(target.zone_id, []).append(target.id)
        for zone_id, there in ids.items():
            await DELETES_MANY[kind.name](self.unit, kind, parents_of(self.unit, kind, zone_id), there)
        await self.owners.refuse_protected_losses(self.unit, kind, *(target.id for target in targets))
        for target in targets:
            self._forget(kind, target)
        return targets

    def _require_deletable(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        record = self.owners.require_owned(kind, target.id, before=operation.op)
        if record.protect:
            raise Conflict(f"{kind.name} `{record.name}` is protected; apply `protect: false` first")

    async def _delete(self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        self._require_deletable(operation, kind, target)
        if kind in _LAST:
            self._removals.append(DeferredStep(index, operation, kind, target, {}))
            return
        await self._remove(kind, target)

    async def _remove(self, kind: Kind, target: EntityRef) -> None:
        try:
            if kind is ROLE_ASSIGNMENT:
                await assignments.revoke_assignment(
                    self.unit, await entity_of(self.unit, ROLE_ASSIGNMENT, target)
                )
            else:
                if kind is POLICY_SET:
                    policy_set = await entity_of(self.unit, POLICY_SET, target)
                    await activation.deactivate(self.unit, policy_set)
                parents = parents_of(self.unit, kind, target.zone_id)
                if kind.name in ARCHIVES:
                    await ARCHIVES[kind.name](self.unit, kind, parents, target.id)
                else:
                    await DELETES[kind.name](self.unit, kind, parents, target.id)
                await self.owners.refuse_protected_losses(self.unit, kind, target.id)
        except NotFound:
            # It existed when the changeset began: it was deleted with another entity just before.
            if (kind.name, target.id) not in self.current:
                raise
        self._forget(kind, target)

    def _forget(self, kind: Kind, target: EntityRef) -> None:
        self._created.pop(target.id, None)
        self.relations.forget(target.id)
        self.handle_swaps.settle(kind, target.id)
        self.owners.remove_record(kind, target.id)

    async def _change_record(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        record = self.owners.require_owned(kind, target.id, before=operation.op)
        if isinstance(operation, ReleaseOperation):
            self.owners.remove_record(kind, target.id)
        elif isinstance(operation, DeliveredOperation):
            self.owners.delivered(record)
        else:
            if operation.name is None:
                raise ValidationFailed("a rename operation requires the new `name`")
            self.owners.rename(record, operation.name, operation)
        await self._record(operation.op, kind, target, operation.name or record.name)

    async def _record(self, what: str, kind: Kind, target: EntityRef, name: str | None) -> None:
        zone_id = target.id if kind is ZONE else target.zone_id
        after = {"owner": self.owners.owner, "name": name}
        await self.unit.record(f"ownership.{what}", kind.name, target.id, zone_id, before=None, after=after)

    # --- deferred

    def named_steps(self) -> list[DeferredStep]:
        """The operations that gave an entity its name in git, which is unique once all have run."""
        return self._named

    async def require_unique_name(self, step: DeferredStep) -> None:
        """Raise Conflict when two entities have the same name in git; runs the checks of the entity."""
        await self.unit.run_checks(step.kind.name, step.target.id)
        await self.owners.require_name(self.unit, step.kind, step.target.id)

    def removals(self) -> list[DeferredStep]:
        """The deferred removals, in their order: policy sets before the policies in them."""
        return sorted(self._removals, key=lambda step: _LAST.index(step.kind))

    async def remove(self, step: DeferredStep) -> None:
        """Do a deferred removal. Raises ManagementError."""
        await self._remove(step.kind, step.target)


def _cleared(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a spec sets to null: the ones that it clears."""
    return {name: None for name, value in spec.items() if value is None}

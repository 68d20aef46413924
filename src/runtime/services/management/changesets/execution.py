"""The operations of a changeset, one after the other, through the same functions as single calls."""

from collections.abc import Mapping
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
from runtime.domain.kinds.application import ApplicationCredential
from runtime.domain.kinds.values import OwnerType
from runtime.services.management import credential_scope, entities
from runtime.services.management.changesets.changeset import PackedOperation
from runtime.services.management.changesets.handle_swaps import HandleSwaps, handle_in
from runtime.services.management.changesets.ownership import OwnershipRecords
from runtime.services.management.changesets.pointers import has_pointers
from runtime.services.management.changesets.policy_references import PolicyReferences
from runtime.services.management.changesets.references import (
    EntityRef,
    ReferenceResolver,
    entity_of,
    parents_of,
)
from runtime.services.management.changesets.relations import JOINED, DeferredRelations, DeferredStep
from runtime.services.management.changesets.specs import SpecFields, split_spec
from runtime.services.management.operations import OPERATIONS
from runtime.services.management.people import assignments
from runtime.services.management.policies import activation
from runtime.services.management.snapshots import entity_specs
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import credentials
from runtime.storage.sql.changes import CurrentRevision

# Deleting one of these waits until everything else is done: what replaces it must be at work by then.
_LAST = (POLICY_SET, POLICY)


@dataclass
class Execution:
    """The state of a changeset while it runs.

    Attributes:
        checked: index -> the packed parts of specs that hold nothing only the run can know.
        standing: (kind, id) -> what stood there when the changeset began.
    """

    unit: UnitOfWork
    owners: OwnershipRecords
    checked: dict[int, bytes]
    standing: Mapping[tuple[str, str], CurrentRevision]
    _own: dict[str, Entity | None] = field(default_factory=dict)  # what it has created; None once joined
    _last: list[DeferredStep] = field(default_factory=list)
    _named: list[DeferredStep] = field(default_factory=list)
    _found: dict[tuple[str, str], entity_specs.Extras] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.extras = DeferredRelations(self.unit)
        self.handles = HandleSwaps(self.unit)
        self.names = PolicyReferences(self.unit)
        self._references = ReferenceResolver(self.unit)

    async def run(self, index: int, operation: PackedOperation) -> EntityRef:
        """Do one operation. Raises ManagementError."""
        kind = BY_NAME[operation.kind]
        if operation.op == "create":
            target = await self._create(index, operation, kind)
            self.names.note(index, operation, kind, target, None)
            self._named.append(DeferredStep(index, operation, kind, target, {}))
            return target
        target = self._target(operation, kind)
        self.names.note(index, operation, kind, target, self.standing.get((kind.name, target.id)))
        await self._require_change(operation, kind, target)
        if operation.op in ("update", "adopt"):
            await self._change(index, operation, kind, target)
        elif operation.op == "delete":
            await self._delete(index, operation, kind, target)
        else:
            await self._keep_record(operation, kind, target)
        if operation.name is not None and operation.op in ("update", "adopt", "rename"):
            self._named.append(DeferredStep(index, operation, kind, target, {}))
        return target

    async def _require_change(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        """Ask for the right to change, also where only the owner or the name in git does. Raises Forbidden.

        What is deleted may have gone with something deleted just before; deleting asks by itself.
        """
        if operation.op == "delete":
            return
        if kind.zoned:
            await entities.require_in(self.unit, kind, Verb.UPDATE, str(target.zone_id))
            if operation.op == "adopt" and (kind is APPLICATION_CREDENTIAL or self.unit.caller.scope):
                entity = await entity_of(self.unit, kind, target)
                await credential_scope.refuse_part(self.unit, kind, entity)
                if isinstance(entity, ApplicationCredential):
                    await credentials.refuse_platform_owned(self.unit, entity)
        elif kind is ZONE:
            zone = await entities.zone_of(self.unit, target.id)
            entities.require_for(self.unit, kind, zone, Verb.UPDATE, {})
        else:
            entities.require(self.unit, kind, Verb.UPDATE, {})

    def _target(self, operation: PackedOperation, kind: Kind) -> EntityRef:
        if operation.id is None:
            if operation.local_id is None:
                raise ValidationFailed("give the `id` of what to change")
            return self._references.local(operation.local_id)
        found = self.standing.get((kind.name, operation.id))
        if found is None:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        in_zone = operation.zone is not None and kind.zoned
        if in_zone and self._references.zone_id(operation, kind) != found.zone_id:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        return EntityRef(found.id, found.zone_id)

    async def _fields(
        self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef | None
    ) -> SpecFields:
        if (checked := self.checked.pop(index, None)) is not None:  # it is asked for once
            return SpecFields.unpacked(checked)
        type_ = None
        if kind.variants and target is not None:
            found = await entity_of(self.unit, kind, target)
            type_ = str(getattr(found, "type", "")) or None
        spec = operation.spec
        if has_pointers(spec):
            zone_id = target.zone_id if target else self._references.zone_id(operation, kind)
            if kind is ZONE and target is not None:
                zone_id = target.id
            spec = await self._references.resolved(spec, zone_id)
        return split_spec(operation, spec, dry_run=self.unit.dry_run, type_=type_)

    # --- create

    async def _create(self, index: int, operation: PackedOperation, kind: Kind) -> EntityRef:
        unit = self.unit
        if operation.name is None:
            raise ValidationFailed("a create needs the `name` it has in git")
        self._references.require_new(operation.local_id)
        zone_id = self._references.zone_id(operation, kind)
        fields = await self._fields(index, operation, kind, None)
        if kind is ROLE_ASSIGNMENT:
            made: Entity = await self._assign(str(zone_id), fields.extras)
        else:
            parents = parents_of(unit, kind, zone_id)
            await self.handles.make_way(kind, zone_id, None, handle_in(kind, operation))
            made = await OPERATIONS[kind.name, Verb.CREATE](unit, kind, parents, fields.body)
            if fields.late:
                made = await OPERATIONS[kind.name, Verb.UPDATE](unit, kind, parents, made.id, fields.late)
        target = EntityRef(made.id, zone_id)
        self._references.add(operation.local_id, target)
        self._own[made.id] = made if kind in JOINED else None
        await self._take(DeferredStep(index, operation, kind, target, fields.extras), made)
        written = {**fields.body, **fields.late, **fields.extras}
        shown = made.id in unit.shown_once
        self.owners.claim(kind, made.id, zone_id, operation, written, {}, shown=shown)
        return target

    async def _take(self, said: DeferredStep, written: Entity | None) -> None:
        """Write the extras of an operation, or see to it that they are written in the end."""
        if said.extras and (made := self._own.get(said.target.id)) is not None:
            said, self._own[made.id] = replace(said, made=made), None
        await self.extras.take(said, written)

    async def _assign(self, zone_id: str, extras: Mapping[str, Any]) -> Entity:
        given = {name: value for name, value in extras["principal"].items() if value is not None}
        if len(given) != 1:
            raise ValidationFailed.of("principal", "names exactly one of a group, an application and a user")
        (name, value), parents = next(iter(given.items())), {"zone_id": zone_id}
        if name == "user":
            return await assignments.assign_to_address(self.unit, parents, value, extras["role_id"])
        holder = assignments.PRINCIPAL_KINDS[(GROUP if name == "group_id" else APPLICATION).name]
        return await assignments.assign(self.unit, holder, parents, value, {"role_id": extras["role_id"]})

    # --- update, adopt

    async def _change(self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        unit = self.unit
        if target.id not in self._own:
            self._may_change(operation, kind, target)
        fields = await self._fields(index, operation, kind, target)
        changed: Entity | None = None
        if patch := {**fields.body, **fields.cleared}:
            update = OPERATIONS.get((kind.name, Verb.UPDATE))
            if update is None:
                raise ValidationFailed(f"{kind.one} cannot change; replace it")
            parents = parents_of(unit, kind, target.zone_id)
            handle = handle_in(kind, operation)
            await self.handles.make_way(kind, target.zone_id, target.id, handle)
            changed = await update(unit, kind, parents, target.id, patch)
            if handle is not None:
                self.handles.settle(kind, target.id)
        await self._take(DeferredStep(index, operation, kind, target, fields.extras), changed)
        written = {**_pruned(operation.spec), **patch, **fields.extras}
        known = self.owners.fields_of(kind, target.id)
        # What was created just now is what was written.
        is_known = target.id in self._own or known.issuperset(operation.fields)
        found = {} if is_known else await self._as_it_is(kind, target)
        self.owners.claim(kind, target.id, target.zone_id, operation, written, found)
        if operation.op == "adopt":
            await self._record("adopt", kind, target, operation.name)

    def _may_change(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        if operation.op == "adopt":
            if self.standing[kind.name, target.id].owner_type == OwnerType.PLATFORM:
                raise Forbidden(f"{kind.name} `{target.id}` is managed by the service and cannot be adopted")
            self.owners.require_free(kind, target.id)
        else:
            self.owners.require_owned(kind, target.id, to="change")

    async def _as_it_is(self, kind: Kind, target: EntityRef) -> dict[str, Any]:
        """What a manifest says of an entity of which members are claimed; lists are asked once for a kind."""
        zone_ids = [target.zone_id] if target.zone_id else []
        key = (kind.name, target.zone_id or "")
        if key not in self._found:
            self._found[key] = await entity_specs.extras_of(self.unit.conn, kind, zone_ids)
        entity = await entity_of(self.unit, kind, target)
        return entity_specs.spec_of(kind, entity, self._found[key](entity))

    # --- delete, release, rename

    async def _delete(self, index: int, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        record = self.owners.require_owned(kind, target.id, to="delete")
        if record.protect:
            raise Conflict(f"{kind.name} `{record.name}` is protected; apply `protect: false` first")
        if kind in _LAST:
            self._last.append(DeferredStep(index, operation, kind, target, {}))
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
                verb = Verb.ARCHIVE if Verb.ARCHIVE in kind.verbs else Verb.DELETE
                parents = parents_of(self.unit, kind, target.zone_id)
                await OPERATIONS[kind.name, verb](self.unit, kind, parents, target.id)
                await self.owners.refuse_losses(self.unit, kind, target.id)
        except NotFound:
            # It was there when the changeset began: it went with something deleted just before.
            if (kind.name, target.id) not in self.standing:
                raise
        self._own.pop(target.id, None)
        self.extras.forget(target.id)
        self.handles.settle(kind, target.id)
        self.owners.drop(kind, target.id)

    async def _keep_record(self, operation: PackedOperation, kind: Kind, target: EntityRef) -> None:
        record = self.owners.require_owned(kind, target.id, to=operation.op)
        if operation.op == "release":
            self.owners.drop(kind, target.id)
        elif operation.op == "delivered":
            self.owners.delivered(record)
        else:
            if operation.name is None:
                raise ValidationFailed("a rename needs the new `name`")
            self.owners.rename(record, operation.name)
        await self._record(operation.op, kind, target, operation.name or record.name)

    async def _record(self, what: str, kind: Kind, target: EntityRef, name: str | None) -> None:
        zone_id = target.id if kind is ZONE else target.zone_id
        after = {"owner": self.owners.owner, "name": name}
        await self.unit.record(f"ownership.{what}", kind.name, target.id, zone_id, before=None, after=after)

    # --- the end

    def named(self) -> list[DeferredStep]:
        """What was given a name in git: names are unique when a changeset ends, not in the middle of it."""
        return self._named

    async def require_apart(self, later: DeferredStep) -> None:
        """Raise Conflict when two entities have ended up with the same name; asks what else has to hold."""
        await self.unit.check(later.kind.name, later.target.id)
        await self.owners.require_name(self.unit, later.kind, later.target.id)

    def removals(self) -> list[DeferredStep]:
        """What is archived last of all: sets before the policies in them."""
        return sorted(self._last, key=lambda later: _LAST.index(later.kind))

    async def remove(self, later: DeferredStep) -> None:
        """Do a removal that has waited. Raises ManagementError."""
        await self._remove(later.kind, later.target)


def _pruned(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of a spec was written as null: the members that were cleared."""
    return {name: None for name, value in spec.items() if value is None}

"""The operations of a changeset, one after the other, through the same functions as single calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runtime.contract.changes import Operation
from runtime.domain.errors import Conflict, Forbidden, NotFound, ValidationFailed
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    BY_NAME,
    GROUP,
    POLICY,
    POLICY_SET,
    ROLE_ASSIGNMENT,
    SERVICE_ACCOUNT,
    USER,
    ZONE,
    Entity,
    Kind,
    Verb,
)
from runtime.domain.kinds.policy import Policy, PolicySet
from runtime.domain.kinds.role import Group
from runtime.domain.kinds.values import OwnerType
from runtime.services.management import entities
from runtime.services.management.changes import snapshot
from runtime.services.management.changes.changeset_specs import (
    Parts,
    has_pointers,
    is_pointer,
    resolved,
    take_apart,
)
from runtime.services.management.changes.ownership import Owners
from runtime.services.management.operations import OPERATIONS
from runtime.services.management.people import assignments, groups
from runtime.services.management.policies import composition, policy_versions
from runtime.services.management.unit import Unit
from runtime.services.management.zones import applications, credentials
from runtime.storage.sql import changes, directory
from runtime.storage.sql import entities as storage
from runtime.storage.sql.changes import Standing
from runtime.storage.sql.selecting import Equals

# Deleting one of these waits until everything else is done: what replaces it must be at work by then.
_LAST = (POLICY_SET, POLICY)


@dataclass(frozen=True)
class Target:
    """What an operation is about, once it is known."""

    id: str
    zone_id: str | None


@dataclass(frozen=True)
class _Later:
    """What is left of an operation for the end of the changeset."""

    index: int
    operation: Operation
    kind: Kind
    target: Target
    extras: Mapping[str, Any]


@dataclass
class Steps:
    """The state of a changeset while it runs.

    Attributes:
        checked: index -> the parts of specs that hold nothing only the run can know.
        standing: (kind, id) -> what stood there when the changeset began.
    """

    unit: Unit
    owners: Owners
    checked: Mapping[int, Parts]
    standing: Mapping[tuple[str, str], Standing]
    _created: dict[str, Target] = field(default_factory=dict)
    _own: set[str] = field(default_factory=set)
    _pairs: list[_Later] = field(default_factory=list)
    _contents: list[_Later] = field(default_factory=list)
    _last: list[_Later] = field(default_factory=list)
    _rewritten: dict[str, set[str]] = field(default_factory=dict)  # zone -> policies with a new text
    _found: dict[tuple[str, str], snapshot.Extras] = field(default_factory=dict)
    _external: dict[tuple[str | None, str, str, str | None], str] = field(default_factory=dict)

    async def run(self, index: int, operation: Operation) -> Target:
        """Do one operation. Raises ManagementError."""
        kind = BY_NAME[operation.kind]
        if operation.op == "create":
            return await self._create(index, operation, kind)
        target = self._target(operation, kind)
        await self._require_change(operation, kind, target)
        if operation.op in ("update", "adopt"):
            await self._change(index, operation, kind, target)
        elif operation.op == "delete":
            await self._delete(index, operation, kind, target)
        else:
            await self._rename_or_release(operation, kind, target)
        return target

    async def _require_change(self, operation: Operation, kind: Kind, target: Target) -> None:
        """Ask for the right to change, also where only the owner or the name in git does. Raises Forbidden.

        What is deleted may have gone with something deleted just before; deleting asks by itself.
        """
        if operation.op == "delete":
            return
        if kind.zoned:
            await entities.require_in(self.unit, kind, Verb.UPDATE, str(target.zone_id))
            if kind is APPLICATION_CREDENTIAL and operation.op == "adopt":
                await credentials.refuse_platform_owned(self.unit, await self._entity(kind, target))
        elif kind is ZONE:
            zone = await entities.zone_of(self.unit, target.id)
            entities.require_for(self.unit, kind, zone, Verb.UPDATE, {})
        else:
            entities.require(self.unit, kind, Verb.UPDATE, {})

    # --- what operations refer to

    def resolve(self, pointer: Mapping[str, Any], zone_id: str | None) -> Any:
        """What a pointer in the spec of something in that zone stands for. Raises ValidationFailed."""
        if "local_id" in pointer:
            return self._local(str(pointer["local_id"])).id
        if "external" in pointer:
            return self._external[_external_key(pointer, zone_id)]
        at = pointer["address_of"]
        zone_id = self._local(at["local_id"]).id if "local_id" in at else at["id"]
        zone = self.unit.zones.get(zone_id)
        if zone is None:
            raise ValidationFailed(f"there is no Zone `{zone_id}` to take an address from")
        return getattr(zone.protocols.oauth2, pointer["member"])

    async def know(self, spec: Any, zone_id: str | None) -> None:
        """Look up what `resolve` needs: zones that addresses are taken from, and entities named by handle."""
        if isinstance(spec, dict):
            if is_pointer(spec) and "external" in spec:
                await self._know_external(spec, zone_id)
                return
            if spec.keys() == {"address_of", "member"} and isinstance(spec["address_of"], dict):
                at = spec["address_of"]
                local = self._created.get(str(at.get("local_id")))
                zone_id = local.id if local else at.get("id")
                if zone_id is not None:
                    await entities.zone_of(self.unit, str(zone_id))
                return
            for inner in spec.values():
                await self.know(inner, zone_id)
        elif isinstance(spec, list):
            for inner in spec:
                await self.know(inner, zone_id)

    async def _know_external(self, pointer: Mapping[str, Any], zone_id: str | None) -> None:
        key = _external_key(pointer, zone_id)
        if key in self._external:
            return
        kind, handle, owner_type = BY_NAME[pointer["kind"]], pointer["external"], pointer.get("owner_type")
        within = self._parents(kind, zone_id if kind.zoned else None)
        within = within or {"organization_id": self.unit.organization_id}
        where = [Equals(str(kind.handle), (handle,))]
        found = [each async for each in storage.all_of(self.unit.conn, kind, within=within, where=where)]
        fitting = [each for each in found if owner_type in (None, getattr(each, "owner_type", None))]
        if not fitting:
            raise ValidationFailed(f"there is no {kind.name} `{handle}`")
        # One of the customer's own comes before one of the platform's of the same name.
        fitting.sort(key=lambda each: getattr(each, "owner_type", None) == OwnerType.PLATFORM)
        self._external[key] = fitting[0].id

    def _local(self, local_id: str) -> Target:
        found = self._created.get(local_id)
        if found is None:
            raise ValidationFailed(f"no earlier operation creates `{local_id}`")
        return found

    def _zone_id(self, operation: Operation, kind: Kind) -> str | None:
        if not kind.zoned:
            return None
        if operation.zone is None:
            raise ValidationFailed(f"a {kind.name} needs a `zone`")
        if operation.zone.local_id is not None:
            return self._local(operation.zone.local_id).id
        return operation.zone.id

    def _target(self, operation: Operation, kind: Kind) -> Target:
        if operation.id is None:
            if operation.local_id is None:
                raise ValidationFailed("give the `id` of what to change")
            return self._local(operation.local_id)
        found = self.standing.get((kind.name, operation.id))
        if found is None:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        if operation.zone is not None and kind.zoned and self._zone_id(operation, kind) != found.zone_id:
            raise NotFound(f"there is no {kind.name} `{operation.id}`")
        return Target(found.id, found.zone_id)

    def _parents(self, kind: Kind, zone_id: str | None) -> dict[str, str]:
        if zone_id is not None:
            return {"zone_id": zone_id}
        return {"organization_id": self.unit.organization_id} if kind is SERVICE_ACCOUNT else {}

    async def _parts(self, index: int, operation: Operation, kind: Kind, target: Target | None) -> Parts:
        if (checked := self.checked.get(index)) is not None:
            return checked
        type_ = None
        if kind.variants and target is not None:
            found = await self._entity(kind, target)
            type_ = str(getattr(found, "type", "")) or None
        spec = operation.spec
        if has_pointers(spec):
            zone_id = target.zone_id if target else self._zone_id(operation, kind)
            if kind is ZONE and target is not None:
                zone_id = target.id
            await self.know(spec, zone_id)
            spec = resolved(spec, partial(self.resolve, zone_id=zone_id))
        return take_apart(operation, spec, dry_run=self.unit.dry_run, type_=type_)

    async def _entity(self, kind: Kind, target: Target) -> Entity:
        within = self._parents(kind, target.zone_id) or {"organization_id": self.unit.organization_id}
        return await storage.get(self.unit.conn, kind, target.id, within=within)

    # --- create

    async def _create(self, index: int, operation: Operation, kind: Kind) -> Target:
        unit = self.unit
        if operation.name is None:
            raise ValidationFailed("a create needs the `name` it has in git")
        if operation.local_id is not None and operation.local_id in self._created:
            raise ValidationFailed(f"`{operation.local_id}` is created twice")
        zone_id = self._zone_id(operation, kind)
        await self.owners.require_name(unit, kind, zone_id, operation.name, None)
        parts = await self._parts(index, operation, kind, None)
        if kind is ROLE_ASSIGNMENT:
            made: Entity = await self._assign(str(zone_id), parts.extras)
        else:
            parents = self._parents(kind, zone_id)
            made = await OPERATIONS[kind.name, Verb.CREATE](unit, kind, parents, parts.body)
            if parts.late:
                made = await OPERATIONS[kind.name, Verb.UPDATE](unit, kind, parents, made.id, parts.late)
        target = Target(made.id, zone_id)
        if operation.local_id is not None:
            self._created[operation.local_id] = target
        self._own.add(made.id)
        await self._extras(index, operation, kind, target, parts.extras, made)
        written = {**parts.body, **parts.late, **parts.extras}
        self.owners.claim(kind, made.id, zone_id, operation, written, {})
        return target

    async def _assign(self, zone_id: str, extras: Mapping[str, Any]) -> Entity:
        given = {name: value for name, value in extras["principal"].items() if value is not None}
        if len(given) != 1:
            raise ValidationFailed.of("principal", "names exactly one of a group, an application and a user")
        (name, value), parents = next(iter(given.items())), {"zone_id": zone_id}
        if name == "user":
            holder, value = assignments.HOLDERS[USER.name], await self._user(zone_id, value)
        else:
            holder = assignments.HOLDERS[(GROUP if name == "group_id" else APPLICATION).name]
        return await assignments.assign(self.unit, holder, parents, value, {"role_id": extras["role_id"]})

    async def _user(self, zone_id: str, email: str) -> str:
        known = await directory.users_by_email(self.unit.conn, [email.lower()], zone_id=zone_id)
        verified = [user_id for user_id, _, is_verified in known if is_verified]
        if not verified:
            raise ValidationFailed.of(
                "principal.user", f"nobody with the verified address `{email}` is known to the zone yet"
            )
        return verified[0]

    # --- update, adopt

    async def _change(self, index: int, operation: Operation, kind: Kind, target: Target) -> None:
        unit = self.unit
        if target.id not in self._own:
            self._may_change(operation, kind, target)
            if operation.name is not None:
                await self.owners.require_name(unit, kind, target.zone_id, operation.name, target.id)
        parts = await self._parts(index, operation, kind, target)
        changed: Entity | None = None
        if patch := {**parts.body, **parts.cleared}:
            update = OPERATIONS.get((kind.name, Verb.UPDATE))
            if update is None:
                raise ValidationFailed(f"a {kind.name} cannot change; replace it")
            parents = self._parents(kind, target.zone_id)
            changed = await update(unit, kind, parents, target.id, patch)
        await self._extras(index, operation, kind, target, parts.extras, changed)
        written = {**_pruned(operation.spec), **patch, **parts.extras}
        found = await self._as_it_is(kind, target) if operation.op == "adopt" else {}
        self.owners.claim(kind, target.id, target.zone_id, operation, written, found)
        if operation.op == "adopt":
            await self._record("adopt", kind, target, operation.name)

    def _may_change(self, operation: Operation, kind: Kind, target: Target) -> None:
        if operation.op == "adopt":
            if self.standing[kind.name, target.id].owner_type == OwnerType.PLATFORM:
                raise Forbidden(f"{kind.name} `{target.id}` is managed by the service and cannot be adopted")
            self.owners.require_free(kind, target.id)
        else:
            self.owners.require_owned(kind, target.id, to="change")

    async def _as_it_is(self, kind: Kind, target: Target) -> dict[str, Any]:
        """What a manifest says of an entity that is adopted; lists are asked once for all of a kind."""
        zone_ids = [target.zone_id] if target.zone_id else []
        key = (kind.name, target.zone_id or "")
        if key not in self._found:
            self._found[key] = await snapshot.extras_of(self.unit.conn, kind, zone_ids)
        entity = await self._entity(kind, target)
        return snapshot.spec_of(kind, entity, self._found[key](entity))

    async def _extras(
        self,
        index: int,
        operation: Operation,
        kind: Kind,
        target: Target,
        extras: Mapping[str, Any],
        entity: Entity | None,
    ) -> None:
        """Do what a manifest says beside the members: texts now, pairs and compositions at the end."""
        if not extras:
            return
        if kind is POLICY:
            policy = entity or await self._entity(kind, target)
            if not isinstance(policy, Policy):
                raise TypeError("an operation on policies returned something else")
            if await policy_versions.write_text(self.unit, policy, extras["cedar"], field="cedar"):
                self._rewritten.setdefault(policy.zone_id, set()).add(policy.id)
        elif kind is POLICY_SET:
            self._contents.append(_Later(index, operation, kind, target, extras))
        elif kind in (APPLICATION, GROUP):
            self._pairs.append(_Later(index, operation, kind, target, extras))

    # --- delete, release, rename

    async def _delete(self, index: int, operation: Operation, kind: Kind, target: Target) -> None:
        record = self.owners.require_owned(kind, target.id, to="delete")
        if record.protect:
            raise Conflict(f"{kind.name} `{record.name}` is protected; apply `protect: false` first")
        if kind in _LAST:
            self._last.append(_Later(index, operation, kind, target, {}))
            return
        await self._remove(kind, target)

    async def _remove(self, kind: Kind, target: Target) -> None:
        try:
            if kind is ROLE_ASSIGNMENT:
                await assignments.revoke_assignment(self.unit, await self._entity(kind, target))
            else:
                verb = Verb.ARCHIVE if Verb.ARCHIVE in kind.verbs else Verb.DELETE
                parents = self._parents(kind, target.zone_id)
                await OPERATIONS[kind.name, verb](self.unit, kind, parents, target.id)
                await self.owners.refuse_losses(self.unit, kind, target.id)
        except NotFound:
            # It was there when the changeset began: it went with something deleted just before.
            if (kind.name, target.id) not in self.standing:
                raise
        self.owners.drop(kind, target.id)

    async def _rename_or_release(self, operation: Operation, kind: Kind, target: Target) -> None:
        record = self.owners.require_owned(kind, target.id, to=operation.op)
        if operation.op == "release":
            self.owners.drop(kind, target.id)
        else:
            if operation.name is None:
                raise ValidationFailed("a rename needs the new `name`")
            await self.owners.require_name(self.unit, kind, target.zone_id, operation.name, target.id)
            self.owners.rename(record, operation.name)
        await self._record(operation.op, kind, target, operation.name or record.name)

    async def _record(self, what: str, kind: Kind, target: Target, name: str | None) -> None:
        zone_id = target.id if kind is ZONE else target.zone_id
        after = {"owner": self.owners.owner, "name": name}
        await self.unit.record(f"ownership.{what}", kind.name, target.id, zone_id, before=None, after=after)

    # --- the end

    def remaining(self) -> list["_Later"]:
        """What is left to do once every operation has run."""
        return [*self._pairs, *self._contents]

    def removals(self) -> list["_Later"]:
        """What is archived last of all: sets before the policies in them."""
        return sorted(self._last, key=lambda later: _LAST.index(later.kind))

    async def finish(self, later: "_Later") -> None:
        """Do what was left of one operation. Raises ManagementError."""
        kind, target, extras = later.kind, later.target, later.extras
        if kind in _LAST and later.operation.op == "delete":
            await self._remove(kind, target)
        elif kind is POLICY_SET:
            await self._compose(target, extras)
        elif kind is APPLICATION:
            application = await self._entity(kind, target)
            await applications.set_dependencies(self.unit, application, extras.get("dependencies") or [])
        elif kind is GROUP:
            group = await self._entity(kind, target)
            if not isinstance(group, Group):
                raise TypeError("an operation on groups returned something else")
            await groups.set_members(self.unit, group, extras.get("members") or [])

    async def _compose(self, target: Target, extras: Mapping[str, Any]) -> None:
        zone_id = str(target.zone_id)
        policy_set = await self._policy_set(target)
        wanted = extras.get("policies")
        if wanted is None:
            contents = await changes.set_contents(self.unit.conn, [zone_id])
            wanted = [entry["policy_id"] for entry in contents.get(target.id, [])]
        active = extras.get("active")
        if active is None:
            active = target.id in await changes.active_sets(self.unit.conn, [zone_id])
        await composition.compose(self.unit, policy_set, wanted, active=bool(active))

    async def refresh_active_sets(self) -> None:
        """Give every active policy set the new texts of its policies; before anything is archived."""
        composed = {later.target.id for later in self._contents}
        for zone_id, rewritten in self._rewritten.items():
            contents = await changes.set_contents(self.unit.conn, [zone_id])
            for set_id in sorted(await changes.active_sets(self.unit.conn, [zone_id])):
                wanted = [entry["policy_id"] for entry in contents.get(set_id, [])]
                if set_id in composed or rewritten.isdisjoint(wanted):
                    continue
                policy_set = await self._policy_set(Target(set_id, zone_id))
                await composition.compose(self.unit, policy_set, wanted, active=True)

    async def _policy_set(self, target: Target) -> PolicySet:
        found = await self._entity(POLICY_SET, target)
        if not isinstance(found, PolicySet):
            raise TypeError("the table of policy sets holds something else")
        return found


def _external_key(pointer: Mapping[str, Any], zone_id: str | None) -> tuple[str | None, str, str, str | None]:
    return zone_id, pointer["kind"], pointer["external"], pointer.get("owner_type")


def _pruned(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of a spec was written as null: the members that were cleared."""
    return {name: None for name, value in spec.items() if value is None}

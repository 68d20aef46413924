"""Phase: write relations: policy texts, the policies of a set, dependencies, accountable users, members.

A policy's text is written with its operation; what names other entities is deferred until all of them exist.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runtime.domain.kinds import APPLICATION, GROUP, POLICY, POLICY_SET, Entity, Kind
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.policy import Policy, PolicySet
from runtime.domain.kinds.role import Group
from runtime.services.management.changesets.changeset import PackedOperation
from runtime.services.management.changesets.references import EntityRef, entity_of
from runtime.services.management.people import groups
from runtime.services.management.policies import composition, policy_versions
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.services.management.zones import applications
from runtime.storage.sql import bindings, changes, directory

RELATED = (APPLICATION, GROUP)  # kinds whose relations are lists of other entities


@dataclass(frozen=True, slots=True)
class DeferredStep:
    """The part of an operation that is done at the end of the changeset.

    Attributes:
        made: the entity, where this changeset has created it and it has no relations yet.
    """

    index: int
    operation: PackedOperation
    kind: Kind
    target: EntityRef
    extras: Mapping[str, Any]
    made: Entity | None = None


@dataclass
class DeferredRelations:
    """The relations that a changeset writes."""

    unit: UnitOfWork
    _pairs: list[DeferredStep] = field(default_factory=list)
    _contents: list[DeferredStep] = field(default_factory=list)
    _gone: set[str | None] = field(default_factory=set)
    _users: dict[str, dict[str, list[groups.Known]]] = field(default_factory=dict)  # zone -> address -> users
    _rewritten: dict[str, set[str]] = field(default_factory=dict)  # zone -> policies whose text is to decide

    async def write_or_defer(self, step: DeferredStep, entity: Entity | None) -> None:
        """Write a policy's text now; defer everything else.

        Args:
            entity: what the operation is about, when that was just written.
        """
        if not step.extras:
            return
        if step.kind is POLICY:
            policy = entity or await entity_of(self.unit, POLICY, step.target)
            if not isinstance(policy, Policy):
                raise TypeError("an operation on policies returned something else")
            # Also where that is its text already: an older one may be in force.
            await policy_versions.write_text(self.unit, policy, step.extras["cedar"], field="cedar")
            self._rewritten.setdefault(policy.zone_id, set()).add(policy.id)
        elif step.kind is POLICY_SET:
            self._contents.append(step)
        elif step.kind in RELATED:
            self._pairs.append(step)

    def forget(self, entity_id: str) -> None:
        """Drop the relations of an entity that is deleted, or of all entities of a deleted zone."""
        self._gone.add(entity_id)

    def deferred(self) -> list[DeferredStep]:
        """The deferred relations in order: the policy set that becomes active before the others."""
        active_first = sorted(self._contents, key=lambda step: step.extras.get("active") is not True)
        return [
            step
            for step in (*self._pairs, *active_first)
            if self._gone.isdisjoint((step.target.id, step.target.zone_id))
        ]

    async def write(self, step: DeferredStep) -> None:
        """Write the deferred relations of one operation. Raises ManagementError."""
        kind, target, extras = step.kind, step.target, step.extras
        if kind is POLICY_SET:
            await self._compose(target, extras)
        elif kind is APPLICATION:
            await self._relate_application(step)
        elif kind is GROUP:
            group = step.made or await entity_of(self.unit, kind, target)
            if not isinstance(group, Group):
                raise TypeError("an operation on groups returned something else")
            await groups.set_members(
                self.unit,
                group,
                extras.get("members") or [],
                is_empty=step.made is not None,
                known=partial(self._known, group.zone_id),
            )

    async def _relate_application(self, step: DeferredStep) -> None:
        application = step.made or await entity_of(self.unit, step.kind, step.target)
        if not isinstance(application, Application):
            raise TypeError("an operation on applications returned something else")
        if "accountable_user" in step.extras:
            application = await applications.set_accountable_user(
                self.unit, application, step.extras["accountable_user"]
            )
        if "dependencies" in step.extras:
            await applications.set_dependencies(
                self.unit, application, step.extras["dependencies"] or [], has_none=step.made is not None
            )

    async def _known(self, zone_id: str, emails: Collection[str]) -> Iterable[groups.Known]:
        """The users of a zone with these addresses, looked up once for all groups of the changeset."""
        if zone_id not in self._users:
            found: dict[str, list[groups.Known]] = {}
            asked = {
                email.lower()
                for each in self._pairs
                if each.kind is GROUP and each.target.zone_id == zone_id
                for email in each.extras.get("members") or ()
            }
            for user in await directory.users_by_email(self.unit.conn, asked, zone_id=zone_id):
                found.setdefault(user[1], []).append(user)
            self._users[zone_id] = found
        known = self._users[zone_id]
        return [user for email in emails for user in known.get(email, ())]

    async def _compose(self, target: EntityRef, extras: Mapping[str, Any]) -> None:
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

    async def activate_rewritten_policies(self) -> None:
        """Activate new versions of active policy sets whose policies were rewritten; before any is archived.

        The policies of an active set stay the ones that are in force.
        """
        composed = {step.target.id for step in self._contents}
        for zone_id, rewritten in self._rewritten.items():
            for active in await bindings.active_policy_sets(self.unit.conn, [zone_id]):
                wanted = [policy_id for policy_id, _ in active.entries]
                if active.policy_set_id in composed or rewritten.isdisjoint(wanted):
                    continue
                texts = await bindings.texts_of(self.unit.conn, [active])
                if all(each.is_latest for each in texts.values() if each.policy_id in rewritten):
                    continue
                policy_set = await self._policy_set(EntityRef(active.policy_set_id, zone_id))
                await composition.compose(self.unit, policy_set, wanted, active=True)

    async def _policy_set(self, target: EntityRef) -> PolicySet:
        found = await entity_of(self.unit, POLICY_SET, target)
        if not isinstance(found, PolicySet):
            raise TypeError("the table of policy sets holds something else")
        return found

"""Role assignments: a role given to a user, an application or a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runtime.domain.errors import Conflict, NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    GROUP,
    ORGANIZATION,
    ROLE,
    ROLE_ASSIGNMENT,
    USER,
    ZONE,
    Kind,
    Verb,
)
from runtime.domain.kinds.role import Role, RoleAssignment
from runtime.domain.kinds.values import OwnerType, PrincipalType
from runtime.services.management import credential_scope, entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import directory
from runtime.storage.sql import entities as storage


@dataclass(frozen=True, slots=True)
class PrincipalKind:
    """What a role can be given to: its kind, and the row of the permission table for doing so."""

    kind: Kind
    type: PrincipalType
    subject: str


USERS = PrincipalKind(USER, PrincipalType.USER, "user_roles")
APPLICATIONS = PrincipalKind(APPLICATION, PrincipalType.APPLICATION, "application_roles")
GROUPS = PrincipalKind(GROUP, PrincipalType.GROUP, "group_roles")
PRINCIPAL_KINDS = {holder.kind.name: holder for holder in (USERS, APPLICATIONS, GROUPS)}


async def list_(
    unit: UnitOfWork, holder: PrincipalKind, parents: Parents, principal_id: str, query: ListQuery
) -> Listed:
    """One page of the roles given to a principal directly."""
    scope = await _scope(unit, holder, parents, principal_id, Verb.LIST)
    filters = {
        **query.filters,
        "principal_type": (holder.type.value,),
        "principal_id": (principal_id,),
    }
    return await entities.page(unit, ROLE_ASSIGNMENT, scope, replace(query, filters=filters))


async def assign(
    unit: UnitOfWork, holder: PrincipalKind, parents: Parents, principal_id: str, body: Mapping[str, Any]
) -> RoleAssignment:
    """Give a role.

    Args:
        body: what `AssignmentBody` admits: the role by id, or by identifier and owner type; a scope or none.
    Raises: NotFound for an unknown role, ValidationFailed for a scope that may not be, Conflict.
    """
    scope = await _scope(unit, holder, parents, principal_id, Verb.CREATE)
    return await _give(unit, holder, scope, principal_id, body)


async def assign_to_address(unit: UnitOfWork, parents: Parents, email: str, role_id: str) -> RoleAssignment:
    """Give a role to whoever has that verified address, now or one day.

    Until then the assignment names the address where others name a user, and gives nobody anything.
    Raises: NotFound for an unknown role, Conflict.
    """
    scope = await entities.scope_of(unit, USERS.kind, parents)
    entities.require(unit, USERS.subject, Verb.CREATE, scope)
    await unit.next_revision()
    address = email.lower()
    known = await directory.users_by_email(unit.conn, [address], zone_id=scope["zone_id"])
    verified = [user_id for user_id, _, is_verified in known if is_verified]
    return await _give(unit, USERS, scope, (verified or [address])[0], {"role_id": role_id})


async def _give(
    unit: UnitOfWork,
    holder: PrincipalKind,
    scope: Mapping[str, str],
    principal_id: str,
    body: Mapping[str, Any],
) -> RoleAssignment:
    role = await _role(unit, scope, body)
    limit = await _limit(unit, scope["zone_id"], role, body.get("scope_type"), body.get("scope_id"))
    revision = await unit.next_revision()
    if await _find(unit, scope["zone_id"], holder, principal_id, role.id, limit):
        raise Conflict(f"the role `{role.identifier}` is assigned already")
    assignment = RoleAssignment(
        id=new_id(),
        created_at=unit.now,
        updated_at=unit.now,
        revision=revision,
        organization_id=unit.organization_id,
        zone_id=scope["zone_id"],
        principal_id=principal_id,
        principal_type=holder.type,
        role_id=role.id,
        role_identifier=role.identifier,
        role_owner_type=role.owner_type,
        scope_type=limit[0] if limit else None,
        scope_id=limit[1] if limit else None,
    )
    return await entities.add(unit, ROLE_ASSIGNMENT, assignment)


async def revoke(
    unit: UnitOfWork,
    holder: PrincipalKind,
    parents: Parents,
    principal_id: str,
    role_id: str,
    limit: tuple[str, str] | None = None,
) -> None:
    """Take a role away.

    Args:
        limit: the scope (type, id) that the assignment was made with; None for one without.
    Raises: NotFound when it is not assigned so.
    """
    scope = await _scope(unit, holder, parents, principal_id, Verb.DELETE)
    await unit.next_revision()
    found = await _find(unit, scope["zone_id"], holder, principal_id, role_id, limit)
    if not found:
        raise NotFound(f"there is no Role `{role_id}`")
    for assignment_id in found:
        await revoke_assignment(
            unit, await storage.get(unit.conn, ROLE_ASSIGNMENT, assignment_id, within=scope)
        )


async def revoke_assignment(unit: UnitOfWork, assignment: RoleAssignment) -> None:
    """End an assignment that was looked up before. Raises Forbidden."""
    scope = {"zone_id": assignment.zone_id}
    await entities.require_in(unit, ROLE_ASSIGNMENT, Verb.DELETE, assignment.zone_id)
    await credential_scope.refuse_others(unit, ROLE_ASSIGNMENT, assignment)
    await entities.remove(unit, ROLE_ASSIGNMENT, scope, assignment)


async def delete_many(unit: UnitOfWork, kind: Kind, parents: Parents, ids: Sequence[str]) -> None:
    """End assignments as `revoke_assignment` does; what has ended already stays so."""
    scope = {"zone_id": parents["zone_id"]}
    await entities.require_in(unit, ROLE_ASSIGNMENT, Verb.DELETE, scope["zone_id"])
    found = await storage.many(unit.conn, ROLE_ASSIGNMENT, ids, within=scope)
    for assignment in found:
        await credential_scope.refuse_others(unit, ROLE_ASSIGNMENT, assignment)
    await entities.remove(unit, ROLE_ASSIGNMENT, scope, *found)


async def _scope(
    unit: UnitOfWork, holder: PrincipalKind, parents: Parents, principal_id: str, verb: Verb
) -> dict[str, str]:
    scope = await entities.scope_of(unit, holder.kind, parents)
    await storage.get(unit.conn, holder.kind, principal_id, within=scope)
    entities.require(unit, holder.subject, verb, scope)
    return scope


async def _role(unit: UnitOfWork, scope: Parents, body: Mapping[str, Any]) -> Role:
    if (role_id := body.get("role_id")) is not None:
        return await storage.get(unit.conn, ROLE, role_id, within=scope)
    identifier, owner = body["role_identifier"], body["owner_type"]
    page = await storage.page(
        unit.conn,
        ROLE,
        within=scope,
        where=[
            storage.Equals("identifier", (identifier,)),
            storage.Equals("owner_type", (OwnerType(owner).value,)),
        ],
        limit=1,
    )
    if not page.items:
        raise NotFound(f"there is no Role `{identifier}`")
    return page.items[0]


async def _limit(
    unit: UnitOfWork, zone_id: str, role: Role, scope_type: str | None, scope_id: str | None
) -> tuple[str, str] | None:
    """The scope of an assignment. Spec: `RoleAssignmentCreate` of the interface specification."""
    if scope_type is None or scope_id is None:
        return None
    organization = await storage.get(unit.conn, ORGANIZATION, unit.organization_id, within={})
    if role.owner_type is not OwnerType.PLATFORM or organization.zone_id != zone_id:
        raise ValidationFailed.of(
            "scope_type", "only platform roles on the organization's home zone can have a scope"
        )
    if scope_type != "zone":
        raise ValidationFailed.of("scope_type", "must be `zone`")
    known = await storage.many(unit.conn, ZONE, [scope_id], within={"organization_id": unit.organization_id})
    if not known or scope_id == zone_id:
        raise ValidationFailed.of("scope_id", "must be another zone of this organization")
    return scope_type, scope_id


async def _find(
    unit: UnitOfWork,
    zone_id: str,
    holder: PrincipalKind,
    principal_id: str,
    role_id: str,
    limit: tuple[str, str] | None,
) -> list[str]:
    return await directory.find_assignments(
        unit.conn,
        zone_id=zone_id,
        principal_type=holder.type.value,
        principal_id=principal_id,
        role_id=role_id,
        scope=limit,
    )

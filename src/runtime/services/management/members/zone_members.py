"""Members of a zone: users of the organization with a role in that zone.

A member is a role assignment in the organization's home zone: one of the platform's zone roles, with the zone
as its scope, given to the user there. Whoever makes or ends that assignment makes or ends the member. Roles
that come through a group count for what somebody may do, and make them no member.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.contract.answers import Link, ZoneMember, ZoneMemberLinks
from runtime.domain.errors import Conflict, NotFound, ValidationFailed
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import ORGANIZATION_USER, ROLE, ROLE_ASSIGNMENT, Verb
from runtime.domain.kinds.organization import OrganizationUser
from runtime.domain.kinds.role import Role, RoleAssignment
from runtime.domain.kinds.values import OwnerType, PrincipalType, ZoneRole
from runtime.domain.kinds.zone import Zone
from runtime.services.management import credential_scope, entities
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.members.organization_users import home_zone
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import entities as storage
from runtime.storage.sql import organization_users as people

MEMBERS = "zone_members"
MEMBER = "ZoneMember"


async def list_(unit: UnitOfWork, parents: Parents, query: ListQuery) -> Listed:
    """One page of a zone's members, in the order in which they became that."""
    zone, own = await _zones(unit, parents, Verb.LIST)
    filters = {"role_identifier": query.special["role"]} if "role" in query.special else {}
    listed = await entities.page(
        unit,
        ROLE_ASSIGNMENT,
        {"zone_id": own.id},
        replace(query, filters=filters),
        people.is_membership(unit.organization_id, own.id, [zone.id]),
    )
    found: list[RoleAssignment] = listed.items
    persons = await people.by_zone_user(unit.conn, unit.organization_id, [one.principal_id for one in found])
    told = [_told(unit, zone, one, persons[one.principal_id]) for one in found]
    return replace(listed, items=told, paged=tuple(found))


async def retrieve(unit: UnitOfWork, parents: Parents, person_id: str) -> ZoneMember:
    """The member that an organization user is. Raises NotFound."""
    zone, own = await _zones(unit, parents, Verb.RETRIEVE)
    person, held = await _member(unit, zone, own, person_id)
    return _told(unit, zone, held[0], person.id)


async def add(unit: UnitOfWork, parents: Parents, body: Mapping[str, Any]) -> ZoneMember:
    """Make an organization user a member. Raises ValidationFailed for an unknown one, Conflict."""
    zone, own = await _zones(unit, parents, Verb.CREATE)
    if zone.id == own.id:
        raise ValidationFailed(
            "the organization's home zone has no members: roles in the organization apply to it"
        )
    await unit.next_revision()
    person_id = body["organization_user_id"]
    person = await _person(unit, person_id)
    if person is None:
        raise ValidationFailed.of(
            "organization_user_id",
            f"no OrganizationUser with the id `{person_id}` exists in the organization",
        )
    if await _held(unit, zone, own, person):
        raise Conflict(f"OrganizationUser `{person.id}` is a member of this zone already")
    role = await _role(unit, own, body["role"])
    assignment = RoleAssignment(
        id=new_id(),
        created_at=unit.now,
        updated_at=unit.now,
        revision=await unit.next_revision(),
        organization_id=unit.organization_id,
        zone_id=own.id,
        principal_id=person.zone_user_id,
        principal_type=PrincipalType.USER,
        scope_id=zone.id,
        scope_type="zone",
        **_as(role),
    )
    await entities.add(unit, ROLE_ASSIGNMENT, assignment)
    return _told(unit, zone, assignment, person.id)


async def update(unit: UnitOfWork, parents: Parents, person_id: str, role_name: ZoneRole) -> ZoneMember:
    """Give a member another role in place of what they have. Raises NotFound."""
    zone, own = await _zones(unit, parents, Verb.UPDATE)
    await unit.next_revision()
    person, (first, *others) = await _member(unit, zone, own, person_id)
    scope = {"zone_id": own.id}
    for one in others:
        await entities.remove(unit, ROLE_ASSIGNMENT, scope, one)
    after = first.model_copy(update=_as(await _role(unit, own, role_name)))
    changed = await entities.change(unit, ROLE_ASSIGNMENT, scope, first, after)
    return _told(unit, zone, changed, person.id)


async def remove(unit: UnitOfWork, parents: Parents, person_id: str) -> None:
    """Let somebody be a member no more. Raises NotFound."""
    zone, own = await _zones(unit, parents, Verb.DELETE)
    await unit.next_revision()
    _, held = await _member(unit, zone, own, person_id)
    for one in held:
        await entities.remove(unit, ROLE_ASSIGNMENT, {"zone_id": own.id}, one)


async def _zones(unit: UnitOfWork, parents: Parents, verb: Verb) -> tuple[Zone, Zone]:
    """The zone, in which the caller may do that, and the organization's own. Raises NotFound, Forbidden."""
    zone = await entities.zone_of(unit, parents["zone_id"])
    await entities.require_in(unit, MEMBERS, verb, zone.id)
    if verb not in (Verb.LIST, Verb.RETRIEVE):
        credential_scope.refuse_bound(unit, "cannot add, change or remove members of a zone")
    return zone, await home_zone(unit)


async def _person(unit: UnitOfWork, person_id: str) -> OrganizationUser | None:
    within = {"organization_id": unit.organization_id}
    found = await storage.many(unit.conn, ORGANIZATION_USER, [person_id], within=within)
    return found[0] if found else None


async def _member(
    unit: UnitOfWork, zone: Zone, own: Zone, person_id: str
) -> tuple[OrganizationUser, list[RoleAssignment]]:
    person = await _person(unit, person_id)
    held = await _held(unit, zone, own, person) if person else []
    if person is None or not held:
        raise NotFound(f"there is no {MEMBER} `{person_id}`")
    return person, held


async def _held(unit: UnitOfWork, zone: Zone, own: Zone, person: OrganizationUser) -> list[RoleAssignment]:
    """The zone roles that somebody has in a zone directly, the one that allows the most first."""
    where = [
        storage.Equals("principal_type", (PrincipalType.USER.value,)),
        storage.Equals("principal_id", (person.zone_user_id,)),
        storage.Equals("role_owner_type", (OwnerType.PLATFORM.value,)),
        storage.Equals("scope_id", (zone.id,)),
    ]
    found = await storage.page(unit.conn, ROLE_ASSIGNMENT, within={"zone_id": own.id}, where=where)
    return sorted(found.items, key=lambda one: list(ZoneRole).index(ZoneRole(one.role_identifier)))


async def _role(unit: UnitOfWork, own: Zone, name: str) -> Role:
    where = [
        storage.Equals("identifier", (ZoneRole(name).value,)),
        storage.Equals("owner_type", (OwnerType.PLATFORM.value,)),
    ]
    found = await storage.page(unit.conn, ROLE, within={"zone_id": own.id}, where=where, limit=1)
    return found.items[0]


def _as(role: Role) -> dict[str, Any]:
    """What an assignment says of its role."""
    return {"role_id": role.id, "role_identifier": role.identifier, "role_owner_type": role.owner_type}


def _told(unit: UnitOfWork, zone: Zone, assignment: RoleAssignment, person_id: str) -> ZoneMember:
    base = unit.services.settings.public_url.rstrip("/")
    person = f"{base}/organizations/{zone.organization_id}/users/{person_id}"
    return ZoneMember(
        id=assignment.id,
        links=ZoneMemberLinks(
            organization_user=Link(href=person), self=Link(href=f"{base}/zones/{zone.id}/members/{person_id}")
        ),
        created_at=assignment.created_at,
        organization_id=zone.organization_id,
        organization_user_id=person_id,
        role=ZoneRole(assignment.role_identifier),
        updated_at=assignment.updated_at,
        zone_id=zone.id,
    )

"""Organizations: the caller's own, the roles it knows, and the making of the first one."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.answers import OrganizationRoleInfo
from runtime.domain.identifiers import new_id, slug_of, with_suffix
from runtime.domain.kinds import ORGANIZATION, Entity, Kind, Verb
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OwnerType
from runtime.services.management import api_keys, entities, permissions, zones
from runtime.services.management.caller import Caller
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.unit import Unit, unit_of_work
from runtime.services.parts import Parts
from runtime.storage.sql import entities as storage
from runtime.storage.sql import ledger
from runtime.storage.sql.tables import TABLES

ROLES: tuple[OrganizationRoleInfo, ...] = (
    OrganizationRoleInfo(
        name="org_admin",
        label="Organization administrator",
        description="Manages the organization, its service accounts and every zone",
        scope="organization",
    ),
    OrganizationRoleInfo(
        name="org_member",
        label="Organization member",
        description="Manages what is inside the organization's zones",
        scope="organization",
    ),
    OrganizationRoleInfo(
        name="org_viewer",
        label="Organization viewer",
        description="Reads everything and changes nothing",
        scope="organization",
    ),
    OrganizationRoleInfo(
        name="zone_manager",
        label="Zone manager",
        description="Manages a zone and what is inside it",
        scope="zone",
    ),
    OrganizationRoleInfo(
        name="zone_viewer",
        label="Zone viewer",
        description="Reads a zone and what is inside it",
        scope="zone",
    ),
)


async def list_(unit: Unit, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """The caller's organization: a list of exactly one."""
    entities.require(unit, ORGANIZATION, Verb.LIST)
    only = storage.Equals("id", (unit.organization_id,))
    return await entities.page(unit, ORGANIZATION, {}, query, only)


async def retrieve(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The caller's organization, by id or by label."""
    found = await entities.organization_of(unit, entity_id)
    entities.require(unit, ORGANIZATION, Verb.RETRIEVE)
    return found


async def update(
    unit: Unit, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change the organization's name. Its label stays: it stands in addresses."""
    before = await entities.organization_of(unit, entity_id)
    entities.require(unit, ORGANIZATION, Verb.UPDATE)
    after = await entities.patched(unit, ORGANIZATION, {}, before, patch)
    return await entities.change(unit, ORGANIZATION, {}, before, after)


async def list_roles(unit: Unit, id_or_label: str, scope: str | None) -> list[OrganizationRoleInfo]:
    """The roles that the organization's users and its zones' members can have."""
    await entities.organization_of(unit, id_or_label)
    permissions.require(unit.caller.role, ORGANIZATION.operations, Verb.RETRIEVE)
    return [role for role in ROLES if scope in (None, role.scope)]


async def any_label(parts: Parts) -> str | None:
    """The label of the oldest organization, or None while the service has none."""
    table = TABLES[ORGANIZATION.name]
    async with parts.database.reading() as conn:
        first = (await conn.execute(table.select().order_by(table.c.created_at).limit(1))).first()
    return None if first is None else str(first.label)


async def create_organization(parts: Parts, name: str) -> tuple[Organization, str]:
    """Make an organization with its own zone, and an administrator's API key; the key in clear."""
    organization_id = new_id()
    caller = Caller("zoned", "system", organization_id, "org_admin", "zoned")
    now = parts.clock()
    async with unit_of_work(parts, caller, new_id()) as unit:
        label = slug_of(name)
        while await storage.find_by(unit.conn, ORGANIZATION, "label", label, within={}) is not None:
            label = with_suffix(slug_of(name))
        made = Organization(id=organization_id, created_at=now, updated_at=now, label=label, name=name)
        await storage.insert(unit.conn, ORGANIZATION, made)
        await ledger.begin(unit.conn, organization_id)
        # Named apart from the organization, so that a zone of git may have the name and slug of its own.
        named = {"name": f"{name[:240]} (organization)"}
        zone = await zones.make(unit, named, owner_type=OwnerType.PLATFORM)
        after = made.model_copy(update={"zone_id": zone.id, "revision": await unit.revision()})
        await storage.replace(unit.conn, ORGANIZATION, after, within={})
        await unit.write(ORGANIZATION, "organizations.create", None, after)
        clear = await api_keys.add(unit, name="first key", role="org_admin")
    return after, clear

"""Organizations: list, create, update, delete, and the roles that they can assign."""

from collections.abc import Mapping
from typing import Any

from runtime.contract.answers import OrganizationRoleInfo
from runtime.domain.errors import Conflict, Forbidden, RateLimited, SignInRefused
from runtime.domain.identifiers import new_id, slug_of, with_suffix
from runtime.domain.kinds import ORGANIZATION, ZONE, Entity, Kind, Verb
from runtime.domain.kinds.organization import Organization
from runtime.domain.kinds.values import OrganizationRole, OwnerType
from runtime.services import rate_limits, zone_keys
from runtime.services.container import Services
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.access.caller import SERVICE, Actor, Caller
from runtime.services.management.authentication import user_tokens
from runtime.services.management.authentication.user_tokens import own_sign_in
from runtime.services.management.entities import Parents
from runtime.services.management.listing import Listed, ListQuery
from runtime.services.management.members import organization_users
from runtime.services.management.organizations import api_keys, home_zone
from runtime.services.management.unit_of_work import UnitOfWork, nested, unit_of_work
from runtime.services.management.zones import zones
from runtime.services.zone_keys import PreparedKeys
from runtime.storage.sql import entities as storage
from runtime.storage.sql import names, organization_revision
from runtime.storage.sql import organization_users as people
from runtime.storage.sql import organizations as known
from runtime.storage.sql.tables import TABLES

# Each has keys, a zone and mail of its own.

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


async def list_(unit: UnitOfWork, kind: Kind, parents: Parents, query: ListQuery) -> Listed:
    """The caller's organization: a list of exactly one; all that the account acts for, where that counts."""
    entities.require(unit, ORGANIZATION, Verb.LIST, {})
    sign_in = unit.caller.sign_in
    token = user_tokens.way_of(sign_in) if sign_in is not None and unit.caller.at_home else None
    if sign_in is None or token is None or not token.reaches_further:
        only = storage.Equals("id", (unit.organization_id,))
        return await entities.page(unit, ORGANIZATION, {}, query, only)
    account = sign_in.account.named
    mine = people.belongs_to(home_id=sign_in.organization_id, source=token.source, **account)
    return await entities.page(unit, ORGANIZATION, {}, query, mine)


async def retrieve(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, expands: frozenset[str] = frozenset()
) -> Entity:
    """The caller's organization, by id or by label."""
    found = await entities.organization_of(unit, entity_id)
    entities.require(unit, ORGANIZATION, Verb.RETRIEVE, {})
    return found


async def update(
    unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str, patch: Mapping[str, Any]
) -> Entity:
    """Change the organization's name. Its label stays: it stands in addresses."""
    before = await entities.organization_of(unit, entity_id)
    entities.require(unit, ORGANIZATION, Verb.UPDATE, {})
    after = await entities.patched(unit, ORGANIZATION, {}, before, patch)
    return await entities.change(unit, ORGANIZATION, {}, before, after)


async def list_roles(unit: UnitOfWork, id_or_label: str, scope: str | None) -> list[OrganizationRoleInfo]:
    """The roles that the organization's users and its zones' members can have."""
    await entities.organization_of(unit, id_or_label)
    entities.require(unit, ORGANIZATION, Verb.RETRIEVE, {})
    return [role for role in ROLES if scope in (None, role.scope)]


async def any_label(services: Services) -> str | None:
    """The label of the oldest organization, or None while the service has none."""
    table = TABLES[ORGANIZATION.name]
    async with services.database.reading() as conn:
        first = (await conn.execute(table.select().order_by(table.c.created_at).limit(1))).first()
    return None if first is None else str(first.label)


def may_create(caller: Caller) -> bool:
    """Tell whether `create` is open to a caller: a person, as its first administrator."""
    if not caller.at_home or caller.sign_in is None:
        return False
    allowed = permissions.allows(caller.roles_in(None), ORGANIZATION.operations, Verb.CREATE)
    return allowed and user_tokens.way_of(caller.sign_in).reaches_further


async def create(unit: UnitOfWork, kind: Kind, parents: Parents, body: Mapping[str, Any]) -> Entity:
    """Make an organization that the calling user administrates.

    Raises: Forbidden for anybody but an administrator with a token of their own organization's zone that
        counts outside of it; RateLimited.
    """
    entities.require(unit, ORGANIZATION, Verb.CREATE, {})
    sign_in = own_sign_in(unit.caller, "create an organization")
    home = await storage.get(unit.conn, ZONE, sign_in.zone_id, within={})
    token = user_tokens.way_of(sign_in)
    joining = await organization_users.joining_account(unit, token, home, sign_in.user)
    if await unit.services.rate_limiter.hit(
        rate_limits.NEW_ORGANIZATIONS, sign_in.zone_id, sign_in.account.id
    ):
        raise RateLimited("too many new organizations today; try again tomorrow")
    founder = Caller(unit.caller.id, "user", new_id(), OrganizationRole.ADMIN.value, unit.caller.display)
    async with nested(unit, founder) as inner:
        made = await _found(inner, body.get("name") or "New organization")
        try:
            await organization_users.add_external_account(inner, OrganizationRole.ADMIN, joining)
        except SignInRefused as refusal:
            raise Forbidden(refusal.detail, internal=refusal.internal) from None
    return made


async def delete(unit: UnitOfWork, kind: Kind, parents: Parents, entity_id: str) -> None:
    """Remove the caller's organization with all that is its own; what happened in it stays on record.

    Raises: Conflict while it has zones besides its own; Forbidden.
    """
    found = await entities.organization_of(unit, entity_id)
    entities.require(unit, ORGANIZATION, Verb.DELETE, {})
    await unit.next_revision()
    mine = [storage.Equals("owner_type", (OwnerType.CUSTOMER.value,))]
    remaining = await storage.count(unit.conn, ZONE, within={"organization_id": found.id}, where=mine)
    if remaining:
        zones_left = "1 zone" if remaining == 1 else f"{remaining} zones"
        raise Conflict(f"Organization `{found.label}` still has {zones_left}: delete what remains first")
    if found.zone_id is not None:
        await zones.remove_zone(unit, await entities.zone_of(unit, found.zone_id))
    await unit.write(ORGANIZATION, "organizations.delete", found, None)
    await storage.remove(unit.conn, ORGANIZATION, found.id, within={})
    unit.tombstones.omit(None)  # no owner is left that could hear of it


async def every(services: Services) -> list[tuple[Organization, str]]:
    """All organizations, oldest first, each with the issuer of its home zone."""
    found = []
    async with services.database.reading() as conn:
        for organization in [each async for each in storage.all_of(conn, ORGANIZATION, within={})]:
            zone = await storage.get(conn, ZONE, str(organization.zone_id), within={})
            found.append((organization, str(zone.protocols.oauth2.issuer)))
    return found


async def complete_home_zones(services: Services, *, by: Actor = SERVICE) -> None:
    """Create the client and the resource that home zones lack: older ones, or after a change of address."""
    async with services.database.reading() as conn:
        lacking = await known.without_resource(conn, services.settings.public_url)
    for organization_id, zone_id in lacking:
        async with unit_of_work(services, by.within(organization_id), new_id()) as unit:
            await home_zone.create_client_and_resource(unit, await entities.zone_of(unit, zone_id))
            after = {"resource": services.settings.public_url}
            await unit.record("zones.equip", ZONE.name, zone_id, zone_id, before=None, after=after)


async def create_organization(
    services: Services, name: str, *, key_expires_in_seconds: int | None = None, by: Actor = SERVICE
) -> tuple[Organization, str]:
    """Make an organization with its home zone, and an administrator's API key; the key in clear."""
    prepared = PreparedKeys([await zone_keys.prepare(services.key_encryption, services.data_keys)])
    async with unit_of_work(services, by.within(new_id()), new_id(), prepared=prepared) as unit:
        made = await _found(unit, name)
        key = await api_keys.add(
            unit, name="first key", role="org_admin", expires_in_seconds=key_expires_in_seconds
        )
    return made, unit.shown_once[key.id]["api_key"]


async def _found(unit: UnitOfWork, name: str) -> Organization:
    """Make the organization of a unit, with its home zone."""
    label = slug_of(name)
    while await names.is_assigned(unit.conn, ORGANIZATION, label):
        label = with_suffix(slug_of(name))
    made = Organization(
        id=unit.organization_id, created_at=unit.now, updated_at=unit.now, label=label, name=name
    )
    await storage.insert(unit.conn, ORGANIZATION, made)
    await organization_revision.begin(unit.conn, made.id)
    # Named apart from the organization, so that a zone of git may have the name and slug of its own.
    # Its tokens call the management API, so nobody introduces a client there.
    body = {
        "name": f"{name[:240]} (organization)",
        "protocols": {"oauth2": {"dcr_enabled": False}},
    }
    zone = await zones.make(unit, body, owner_type=OwnerType.PLATFORM)
    await home_zone.create_client_and_resource(unit, zone)
    after = made.model_copy(update={"zone_id": zone.id, "revision": await unit.next_revision()})
    await storage.replace(unit.conn, ORGANIZATION, after, within={})
    await unit.write(ORGANIZATION, "organizations.create", None, after)
    return after

"""The identities of an organization: users and invitations in one list."""

from runtime.contract.answers import Identity
from runtime.domain.kinds import INVITATION, ORGANIZATION_USER, Verb
from runtime.domain.kinds.values import IdentityType
from runtime.services.management import entities
from runtime.services.management.access import permissions
from runtime.services.management.listing import Listed, ListQuery, Position
from runtime.services.management.members import organization_users
from runtime.services.management.unit_of_work import UnitOfWork
from runtime.storage.sql import identities as storage
from runtime.storage.sql.identities import IdentityFilter

_ROWS = {IdentityType.USER: ORGANIZATION_USER.operations, IdentityType.INVITATION: INVITATION.operations}


async def list_(unit: UnitOfWork, organization: str, query: ListQuery) -> Listed:
    """One page of users and invitations, by `query[email]` and `role`, the oldest first."""
    found = await entities.organization_of(unit, organization)
    for row in _ROWS.values():
        permissions.require(unit.caller.role, row, Verb.LIST)
    zone = await organization_users.home_zone(unit)
    roles = query.special.get("role")
    wanted = IdentityFilter(
        found.id,
        issuer=str(zone.protocols.oauth2.issuer),
        now=unit.now,
        emails=query.special.get("query[email]", ()),
        role=roles[0] if roles else None,
    )
    page = await storage.page(unit.conn, wanted, limit=query.limit, after=query.after, before=query.before)
    total = await storage.count(unit.conn, wanted) if query.total else None
    places = [Position(row["created_at"], row["id"]) for row in page.items]
    return Listed(
        [_permitted(unit, query, Identity.model_validate(row)) for row in page.items],
        page.has_next,
        page.has_previous,
        total,
        edges=(places[0], places[-1]) if places else None,
    )


def _permitted(unit: UnitOfWork, query: ListQuery, identity: Identity) -> Identity:
    """The identity with what the caller may do with it, when that is asked."""
    if "permissions" not in query.expands:
        return identity
    told = permissions.permission_map(unit.caller.role, _ROWS[identity.type])
    return identity.model_copy(update={"permissions": told})

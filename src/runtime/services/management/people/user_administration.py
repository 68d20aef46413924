"""Administration of a zone's users on the command line: list, disable, enable, reset a password."""

from collections.abc import AsyncIterator

from runtime.domain.errors import Conflict, NotFound
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import USER
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.services.authority import admission, password_changes, password_reset_links
from runtime.services.container import Services
from runtime.services.management.access.caller import Actor
from runtime.services.management.people import users
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.zones import CachedZone
from runtime.storage.sql import users as storage
from runtime.storage.sql.users import ListedUser, PasswordUser

_PAGE = 500
_RESET = "users.reset_password"


async def listed(
    services: Services, zone: CachedZone, *, email: str | None = None
) -> AsyncIterator[ListedUser]:
    """The users of a zone in the order of their ids, or those with that address."""
    after = ""
    while True:
        async with services.database.reading() as conn:
            page = await storage.listed(conn, zone_id=zone.id, email=email, after=after, limit=_PAGE)
        for each in page:
            yield each
        if len(page) < _PAGE:
            return
        after = page[-1].id


async def find(services: Services, zone: CachedZone, name: str) -> User:
    """The user with that id, identifier or e-mail address. Raises NotFound, Conflict for several."""
    async with services.database.reading() as conn:
        found = await storage.named(conn, name, zone_id=zone.id)
    if not found:
        raise NotFound(f"the zone has no user `{name}`: `zoned user list` shows them")
    if len(found) > 1:
        ids = ", ".join(f"`{each.id}`" for each in found)
        raise Conflict(f"several users are called `{name}`; use an id: {ids}")
    return found[0]


async def set_status(
    services: Services, zone: CachedZone, user: User, status: UserStatus, *, by: Actor
) -> None:
    """Disable or enable a user; disabling ends their sessions. Raises Conflict as the API does."""
    async with unit_of_work(services, by.within(zone.organization_id), new_id()) as unit:
        await users.update(unit, USER, {"zone_id": zone.id}, user.id, {"status": status.value})


async def reset_link(services: Services, zone: CachedZone, user: User, *, by: Actor) -> str:
    """A link on which the user chooses another password, once. Raises Conflict, SignInRefused."""
    found = await _with_password(services, zone, user)
    await _record(services, zone, user, "link", by)
    return password_reset_links.new_link(zone, found, services.clock())


async def set_password(services: Services, zone: CachedZone, user: User, password: str, *, by: Actor) -> None:
    """Give a user that password and sign them out everywhere.

    Raises: Conflict for a user without one; ValidationFailed; SignInRefused.
    """
    found = await _with_password(services, zone, user)
    await _record(services, zone, user, "password", by)
    await password_changes.replace(services, zone.entity, found, password)


async def _with_password(services: Services, zone: CachedZone, user: User) -> PasswordUser:
    admission.require_local(zone.entity)
    async with services.database.reading() as conn:
        found = await storage.with_password(conn, user.id, zone_id=zone.id)
    if found is None:
        raise Conflict(f"User `{user.id}` does not sign in with a password")
    return found


async def _record(services: Services, zone: CachedZone, user: User, how: str, by: Actor) -> None:
    """The audit record comes first: who may run commands leaves it, whatever becomes of the change."""
    async with unit_of_work(services, by.within(zone.organization_id), new_id()) as unit:
        await unit.audit_read(_RESET, USER.name, user.id, zone.id, values={"email": user.email, "by": how})

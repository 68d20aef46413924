"""Finds the parties of an explained exchange: the client, the user's session, the resource."""

from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import InvalidClient, ServiceError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, GROUP, USER
from runtime.domain.kinds.application import Application, PasswordCredential
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.services.client_types import ApplicationClient, require_confidential
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql import entities as storage
from runtime.storage.sql import session_roots, sessions
from runtime.storage.sql.filters import Equals
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.zone_data import Credential


class UnknownParty(ServiceError):
    """What the question names is not there, or cannot take part in an exchange. `detail` says which it is.

    Attributes:
        remedy: what would mend it.
        application: the one whose manifest the remedy is about; None for none.
    """

    code, status = "unknown", 400

    def __init__(self, detail: str, *, remedy: str, application: Application | None = None) -> None:
        super().__init__(detail)
        self.remedy = remedy
        self.application = application


class SuspendedApplication(UnknownParty):
    """An application that nobody active is accountable for: no endpoint takes it for a client."""

    code = InvalidClient.code


class Clients:
    """The clients of one explanation: each is found once, however often the chain goes through it."""

    def __init__(self, services: Services, zone: CachedZone, now: datetime) -> None:
        self._services = services
        self._zone = zone
        self._now = now
        self._found: dict[str, ApplicationClient] = {}

    async def find(self, name: str) -> ApplicationClient:
        """The application of that id or identifier, as it would authenticate itself for an exchange.

        Raises: UnknownParty; UnauthorizedClient for one that has public credentials alone.
        """
        if name not in self._found:
            self._found[name] = await _client(self._services, self._zone, name, self._now)
        return self._found[name]


async def _client(services: Services, zone: CachedZone, name: str, now: datetime) -> ApplicationClient:
    application = await _application(services, zone, name)
    public: ApplicationClient | None = None
    async with services.database.querying() as conn:
        kept = await storage.page(
            conn,
            APPLICATION_CREDENTIAL,
            within={"zone_id": zone.id},
            where=[Equals("application_id", (application.id,))],
        )
    for credential in kept.items:
        is_over = isinstance(credential, PasswordCredential) and credential.has_expired(now)
        if is_over or not isinstance(credential, Credential):
            continue
        client = ApplicationClient(credential, application)
        if client.is_public:
            public = client
        elif found := await _registered(zone, client):
            return found
    if public is not None:
        return require_confidential(public)
    raise UnknownParty(
        "the application has no credential that it could prove itself with",
        remedy=f"give `{application.identifier}` a credential (ApplicationCredential) that is not public",
    )


async def _registered(zone: CachedZone, client: ApplicationClient) -> ApplicationClient | None:
    """The client as the token endpoint finds it, with this credential; None when its id is another's."""
    found = await zone.clients.get(client.client_id)
    if not isinstance(found, ApplicationClient):
        return None
    candidates = (found, found.other_secret)
    return next((each for each in candidates if each and each.credential.id == client.credential.id), None)


async def _application(services: Services, zone: CachedZone, name: str) -> Application:
    found = await zone.applications.by_identifier(name) or await zone.applications.get(name)
    if found is not None:
        return found
    async with services.database.querying() as conn:
        for member in ("identifier", "id"):
            ended = await storage.find_by(conn, APPLICATION, member, name, within={"zone_id": zone.id})
            if ended is not None:
                raise await _suspended(conn, ended)
    raise UnknownParty(
        f"there is no application `{name}` in the zone",
        remedy=f"create the application `{name}`, or correct the name",
    )


async def _suspended(conn: AsyncConnection, application: Application) -> SuspendedApplication:
    """Why nobody active is accountable for an application, and what would mend it."""
    within = {"zone_id": application.zone_id}
    name = application.identifier
    another = f"make an active user, or a group with an active member, accountable for `{name}`"
    if (group_id := application.accountable_group_id) is not None:
        group = await storage.find_by(conn, GROUP, "id", group_id, within=within)
        why = f"group `{group.identifier if group else group_id}` "
        why += "has no active member" if group else "is not there"
        remedy = f"add an active user to group `{group.identifier}`, or {another}" if group else another
    else:
        user_id = application.accountable_user_id or ""
        user = await storage.find_by(conn, USER, "id", user_id, within=within)
        why = f"user `{user.email or user.identifier if user else user_id}` "
        why += f"is {user.status.value}" if user else "is not there, or has not verified that address"
        remedy = f"enable user `{user.email or user.identifier}`, or {another}" if user else another
    detail = f"the application is suspended, because nobody active is accountable for `{name}`: {why}"
    return SuspendedApplication(detail, remedy=remedy, application=application)


async def session_root(
    services: Services, zone: CachedZone, first: ApplicationClient, name: str, now: datetime
) -> tuple[SessionRoot, str | None]:
    """The user's newest active session at the application, and its id; one that begins now, and None.

    Raises: UnknownParty.
    """
    user = await _user(services, zone, name)
    async with services.database.querying() as conn:
        held = await sessions.of_user(conn, user.id, zone_id=zone.id, now=now)
        delegated = await session_roots.delegated(conn, zone.id, user.id)
    own = [each for each in held if each.application_id == first.application.id]
    if own:
        newest = max(own, key=lambda each: each.created_at)
        root = await zone.session_roots.read(newest.id)
        if root is not None:
            return root, newest.id
    begun = SessionRecord(
        id=new_id(),
        organization_id=zone.organization_id,
        zone_id=zone.id,
        user_id=user.id,
        application_id=first.application.id,
        session_type="application",
        authenticated_at=now,
        expires_at=now + timedelta(seconds=services.settings.session_lifetime_seconds),
        created_at=now,
        updated_at=now,
        client_id=first.client_id,
    )
    principal = await zone.session_roots.principal(user)
    return SessionRoot(begun, principal, delegated), None


async def _user(services: Services, zone: CachedZone, name: str) -> User:
    async with services.database.querying() as conn:
        for member in ("id", "identifier"):
            found = await storage.find_by(conn, USER, member, name, within={"zone_id": zone.id})
            if found is not None:
                return found
        page = await storage.page(
            conn, USER, within={"zone_id": zone.id}, where=[Equals("email", (name,))], limit=2
        )
    if len(page.items) == 1:
        return page.items[0]
    if page.items:
        raise UnknownParty(
            f"several users have the e-mail address `{name}`", remedy="name the user by id or identifier"
        )
    raise UnknownParty(
        f"there is no user `{name}` in the zone",
        remedy=f"`{name}` has to sign in to the zone once, or the name has to be corrected",
    )


async def resource(zone: CachedZone, name: str) -> Resource | str:
    """The resource that covers that address, or has that id; the name itself where there is none."""
    return await zone.resources.resolve(name) or await zone.resources.get(name) or name


async def resource_between(
    services: Services, zone: CachedZone, sender: ApplicationClient, receiver_name: str
) -> Resource:
    """The resource by which a token goes from one application to the next one of a chain.

    One that the sender declares as a dependency comes first. Raises UnknownParty.
    """
    receiver = await _application(services, zone, receiver_name)
    provided = await zone.resources.provided_by(receiver.id)
    for each in provided:
        if await client_lookup.may_request(zone, sender, each):
            return each
    if provided:
        return provided[0]
    raise UnknownParty(
        f"`{receiver.identifier}` provides no resource, so no token can be issued for it",
        remedy=f"set `application` of a resource to `{receiver.identifier}`",
    )

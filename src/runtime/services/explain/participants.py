"""Finds the participants of an explained exchange: the client, the user's session, the resource."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.contract.decisions import ExplainBody, QuestionMember, UnresolvedMember
from runtime.domain.errors import InvalidClient, ServiceError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, GROUP, RESOURCE, USER, Entity, Kind
from runtime.domain.kinds.application import Application, PasswordCredential
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.services.client_types import ApplicationClient, require_confidential
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.management import names
from runtime.services.management.names import MayList, UnresolvedName
from runtime.services.zones import CachedZone, SessionRoot
from runtime.storage.sql import entities as storage
from runtime.storage.sql import session_roots, sessions
from runtime.storage.sql.filters import Equals
from runtime.storage.sql.sessions import SessionRecord
from runtime.storage.sql.zone_data import Credential


class UnknownParticipant(ServiceError):
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


class SuspendedApplication(UnknownParticipant):
    """An application that nobody active is accountable for: no endpoint takes it for a client."""

    code = InvalidClient.code


class UnresolvedParticipant(UnknownParticipant):
    """A name of the question that nothing in the zone has, or several objects."""

    def __init__(self, unresolved: UnresolvedName, *, remedy: str) -> None:
        super().__init__(unresolved.text, remedy=remedy)
        self.is_of_several = unresolved.is_of_several


class Participants:
    """The participants of one explanation: each name is looked up once, however often the chain has it."""

    def __init__(self, services: Services, zone: CachedZone, may_list: MayList, now: datetime) -> None:
        self._services = services
        self._zone = zone
        self._may_list = may_list
        self._now = now
        self._named: dict[tuple[str, str], Entity | UnresolvedParticipant] = {}
        self._clients: dict[str, ApplicationClient] = {}

    async def application(self, name: str) -> Application:
        """The application of that name. Raises UnresolvedParticipant, SuspendedApplication."""
        named: Application = await self._find(APPLICATION, name)
        found = await self._zone.applications.get(named.id)
        if found is None:
            async with self._services.database.querying() as conn:
                raise await _suspended(conn, named)
        return found

    async def client(self, name: str) -> ApplicationClient:
        """The application of that name, as it would authenticate itself for an exchange.

        Raises: UnknownParticipant; UnauthorizedClient for one that has public credentials alone.
        """
        application = await self.application(name)
        if application.id not in self._clients:
            found = await _client(self._services, self._zone, application, self._now)
            self._clients[application.id] = found
        return self._clients[application.id]

    async def user(self, name: str) -> User:
        """The user of that id, identifier or e-mail address. Raises UnresolvedParticipant."""
        found: User = await self._find(USER, name)
        return found

    async def resource(self, name: str) -> Resource | str:
        """The resource of that name, or that covers that URL; the name itself where there is none.

        Raises: UnresolvedParticipant for a name of several.
        """
        found = await self._look_up(RESOURCE, name)
        if isinstance(found, UnresolvedParticipant) and not found.is_of_several:
            return name  # the exchange refuses it, in its order of steps
        resource: Resource = await self._find(RESOURCE, name)
        return resource

    async def unresolved(self, asked: ExplainBody) -> list[UnresolvedMember]:
        """The names of the question that nothing in the zone has, or several objects."""
        named: list[tuple[Kind[Any], QuestionMember, str]] = [
            *((APPLICATION, "via", each) for each in dict.fromkeys(asked.via)),
            (APPLICATION, "application", asked.application),
            (RESOURCE, "resource", asked.resource),
        ]
        if asked.user is not None:
            named.append((USER, "user", asked.user))
        told = []
        for kind, member, name in named:
            found = await self._look_up(kind, name)
            if isinstance(found, UnresolvedParticipant):
                told.append(
                    UnresolvedMember(member=member, name=name, reason=found.detail, remedy=found.remedy)
                )
        return told

    async def _find(self, kind: Kind[Any], name: str) -> Any:
        found = await self._look_up(kind, name)
        if isinstance(found, UnresolvedParticipant):
            raise found
        return found

    async def _look_up(self, kind: Kind[Any], name: str) -> Entity | UnresolvedParticipant:
        key = kind.name, name
        if key not in self._named:
            self._named[key] = await _named(self._services, self._zone, self._may_list, kind, name)
        return self._named[key]


async def _named(
    services: Services, zone: CachedZone, may_list: MayList, kind: Kind[Any], name: str
) -> Entity | UnresolvedParticipant:
    covering = await zone.resources.resolve(name) if kind is RESOURCE else None
    async with services.database.querying() as conn:
        try:
            found: Entity = await names.find(
                conn, kind, name, zone_id=zone.id, may_list=may_list, covering=covering
            )
        except UnresolvedName as unresolved:
            remedy = _OF_SEVERAL if unresolved.is_of_several else _OF_NOTHING[kind.name].format(name)
            return UnresolvedParticipant(unresolved, remedy=remedy)
    return found


_OF_SEVERAL = "name the one that is meant by its id"
_OF_NOTHING = {
    APPLICATION.name: "create the application `{}`, or correct the name",
    USER.name: "`{}` has to sign in to the zone once, or the name has to be corrected",
    RESOURCE.name: "create a resource that covers `{}`, or correct the name",
}


async def _client(
    services: Services, zone: CachedZone, application: Application, now: datetime
) -> ApplicationClient:
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
    raise UnknownParticipant(
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
    services: Services, zone: CachedZone, first: ApplicationClient, user: User, now: datetime
) -> tuple[SessionRoot, str | None]:
    """The user's newest active session at the application, and its id; one that begins now, and None.

    Raises: UnknownParticipant where none can begin there.
    """
    async with services.database.querying() as conn:
        held = await sessions.of_user(conn, user.id, zone_id=zone.id, now=now)
        delegated = await session_roots.delegated(conn, zone.id, user.id)
    own = [each for each in held if each.application_id == first.application.id]
    if own:
        newest = max(own, key=lambda each: each.created_at)
        root = await zone.session_roots.read(newest.id)
        if root is not None:
            return root, newest.id
    _require_sign_in(zone, first)
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


def _require_sign_in(zone: CachedZone, client: ApplicationClient) -> None:
    """Refuse an application that gets no token of a sign-in, by a redirect or by an assertion (RFC 7523).

    What it gets for a user came through other applications, and policies may look at these.
    Raises: UnknownParticipant.
    """
    if client.redirect_uris or zone.entity.user_identity_provider_id is not None:
        return
    name = client.application.identifier
    raise UnknownParticipant(
        f"users cannot sign in to `{name}`: it has no redirect URI",
        remedy=f"name the applications through which a user's token comes to `{name}` (`via`), first the one"
        f" that the user signs in to; or give `{name}` a redirect URI",
    )


async def resource_between(zone: CachedZone, sender: ApplicationClient, receiver: Application) -> Resource:
    """The resource by which a token goes from one application to the next one of a chain.

    One that the sender declares as a dependency comes first. Raises UnknownParticipant.
    """
    provided = await zone.resources.provided_by(receiver.id)
    for each in provided:
        if await client_lookup.may_request(zone, sender, each):
            return each
    if provided:
        return provided[0]
    raise UnknownParticipant(
        f"`{receiver.identifier}` provides no resource, so no token can be issued for it",
        remedy=f"set `application` of a resource to `{receiver.identifier}`",
    )

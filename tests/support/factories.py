"""Small zones for tests, made the way people make them: through the management services."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from tests.support.server import Server

from runtime.app import close_services, make_services
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    GROUP,
    POLICY,
    POLICY_SET,
    POLICY_SET_VERSION,
    POLICY_VERSION,
    PROVIDER,
    RESOURCE,
    USER,
    ZONE,
    Kind,
    Verb,
)
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import Group, User
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth import scopes as scope_strings
from runtime.domain.oauth.claims import AccessTokenFacts, ChainActor
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.domain.policy import schema
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.encryption_keys import key_encryption_of
from runtime.services.issuing.access_tokens import issue_access_token, new_token_id
from runtime.services.management.access.caller import Caller
from runtime.services.management.kind_handlers import ARCHIVES, CREATES, DELETES, LISTS, RETRIEVES, UPDATES
from runtime.services.management.organizations import organizations
from runtime.services.management.people import groups
from runtime.services.management.unit_of_work import unit_of_work
from runtime.settings import Settings
from runtime.storage.sql import consents, sessions
from runtime.storage.sql import entities as storage
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import SIGN_IN, ConsentRecord

_OPERATIONS: dict[Verb, Mapping[str, Any]] = {
    Verb.LIST: LISTS,
    Verb.CREATE: CREATES,
    Verb.RETRIEVE: RETRIEVES,
    Verb.UPDATE: UPDATES,
    Verb.DELETE: DELETES,
    Verb.ARCHIVE: ARCHIVES,
}
POLICY_SCOPES = ("openid", scope_strings.POLICY_BUNDLE)


@asynccontextmanager
async def opened_parts(data_dir: Path, **settings: Any) -> AsyncIterator[Services]:
    """Parts over a migrated database, closed afterwards.

    Args:
        settings: overrides by name; `database_url` is needed.
    """
    await asyncio.to_thread(data_dir.mkdir, parents=True, exist_ok=True)
    chosen = Settings.load(
        None,
        **{"data_dir": data_dir, "public_url": "http://zones.test", "allow_private_addresses": True}
        | settings,
    )
    key_encryption_of(chosen, create=True)
    services = await make_services(chosen)
    await services.decisions.start()
    try:
        yield services
    finally:
        await close_services(services)


@dataclass(frozen=True)
class App:
    """An application that can authenticate; `secret` is None for a public one."""

    application: Application
    client_id: str
    secret: str | None
    credential_id: str

    @property
    def id(self) -> str:
        return self.application.id

    @property
    def form(self) -> dict[str, str]:
        """What it sends to authenticate in the body."""
        return {"client_id": self.client_id} | ({"client_secret": self.secret} if self.secret else {})


@dataclass(frozen=True)
class Person:
    """A user who has signed in."""

    user: User
    session_id: str


@dataclass(frozen=True)
class Company:
    """An organization and what is made in it."""

    services: Services
    caller: Caller
    organization_id: str
    api_key: str

    async def run(self, kind: Kind, verb: Verb, parents: Mapping[str, str], *arguments: Any) -> Any:
        """One management operation, committed."""
        async with unit_of_work(self.services, self.caller, new_id()) as unit:
            return await _OPERATIONS[verb][kind.name](unit, kind, parents, *arguments)

    async def create(self, kind: Kind, zone_id: str, **body: Any) -> Any:
        """A new entity of a zone."""
        return await self.run(kind, Verb.CREATE, {"zone_id": zone_id}, body)

    async def update(self, kind: Kind, zone_id: str, entity_id: str, **patch: Any) -> Any:
        """A change of an entity of a zone."""
        return await self.run(kind, Verb.UPDATE, {"zone_id": zone_id}, entity_id, patch)

    async def delete(self, kind: Kind, zone_id: str, entity_id: str) -> None:
        """The end of an entity of a zone."""
        await self.run(kind, Verb.DELETE, {"zone_id": zone_id}, entity_id)

    async def zone(self, name: str = "Workforce", **body: Any) -> Zone:
        """A new zone."""
        return cast(Zone, await self.run(ZONE, Verb.CREATE, {}, {"name": name, **body}))

    async def resource(
        self, zone: Zone, identifier: str, *, scopes: Sequence[str] = (), **body: Any
    ) -> Resource:
        """A new resource."""
        made = await self.create(
            RESOURCE, zone.id, identifier=identifier, name=identifier, scopes=list(scopes), **body
        )
        return cast(Resource, made)

    async def app(
        self,
        zone: Zone,
        identifier: str,
        *,
        consent: str = "implicit",
        dependencies: Sequence[Resource] = (),
        public: bool = False,
        redirect_uris: Sequence[str] = (),
        **body: Any,
    ) -> App:
        """A new application with a credential."""
        if redirect_uris:
            body["protocols"] = {"oauth2": {"redirect_uris": list(redirect_uris)}}
        made = await self.create(
            APPLICATION,
            zone.id,
            identifier=identifier,
            name=identifier,
            consent=consent,
            dependencies=[{"id": each.id} for each in dependencies],
            **body,
        )
        return await self.credential(zone, cast(Application, made), public=public)

    async def credential(
        self, zone: Zone, application: Application, *, public: bool = False, client_id: str | None = None
    ) -> App:
        """A (further) credential of an application, of that client id or a new one."""
        async with unit_of_work(self.services, self.caller, new_id()) as unit:
            credential = await CREATES[APPLICATION_CREDENTIAL.name](
                unit,
                APPLICATION_CREDENTIAL,
                {"zone_id": zone.id},
                {
                    "application_id": application.id,
                    "type": "public" if public else "password",
                    "identifier": client_id or f"{application.identifier}-{new_id()[:6]}",
                },
            )
            shown = unit.shown_once.get(credential.id, {})
        return App(application, credential.identifier, shown.get("password"), credential.id)

    async def user(self, zone: Zone, email: str, *, verified: bool = True) -> User:
        """A user of a zone."""
        now = self.services.clock()
        user = User(
            id=new_id(),
            organization_id=zone.organization_id,
            zone_id=zone.id,
            identifier=email,
            email=email,
            email_verified=verified,
            created_at=now,
            updated_at=now,
        )
        async with self.services.database.transaction() as conn:
            await storage.insert(conn, USER, user)
        return user

    async def person(self, zone: Zone, email: str, *, hours: float = 8) -> Person:
        """A user of a zone, and a session."""
        return await self.signed_in(zone, await self.user(zone, email), hours=hours)

    async def signed_in(self, zone: Zone, user: User, *, hours: float = 8) -> Person:
        """A session of a user."""
        now = self.services.clock()
        session = sessions.SessionRecord(
            id=new_id(),
            organization_id=zone.organization_id,
            zone_id=zone.id,
            user_id=user.id,
            application_id=None,
            session_type="browser",
            authenticated_at=now,
            expires_at=now + timedelta(hours=hours),
            created_at=now,
            updated_at=now,
        )
        async with self.services.database.transaction() as conn:
            await sessions.add(conn, session)
        return Person(user, session.id)

    async def group(self, zone: Zone, name: str, members: Sequence[User] = ()) -> Group:
        """A group with members."""
        made = cast(Group, await self.create(GROUP, zone.id, name=name))
        for member in members:
            await self.join(zone, made, member)
        return made

    async def join(self, zone: Zone, group: Group, member: User) -> None:
        """Make a user a member of a group."""
        async with unit_of_work(self.services, self.caller, new_id()) as unit:
            await groups.add_member(unit, {"zone_id": zone.id}, group.id, member.id)

    async def agree(self, zone: Zone, client_ref: ClientRef, user: User, *scopes: str) -> None:
        """A user lets a client do what these sign-in scopes allow."""
        now, given = self.services.clock(), [ConsentRecord(SIGN_IN, frozenset(scopes), "app.example")]
        async with self.services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, user.id))
            await consents.record(
                conn, given, zone_id=zone.id, user_id=user.id, client_ref=client_ref, now=now
            )

    async def grant(self, zone: Zone, user: User, resource: Resource, scopes: Sequence[str] = ()) -> str:
        """A delegated grant of a user's for a resource, at the zone's own token service; its id."""
        within = {"zone_id": zone.id}
        async with self.services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, user.id))
            provider = await storage.find_by(conn, PROVIDER, "type", "service-sts", within=within)
            assert provider is not None
            grant_id, _ = await consents.grant(
                conn,
                organization_id=zone.organization_id,
                zone_id=zone.id,
                user_id=user.id,
                resource_id=resource.id,
                provider_id=provider.id,
                scopes=scopes,
                now=self.services.clock(),
            )
        return grant_id

    async def policy_token(self, zone: Zone, app: App, person: Person) -> str:
        """The token of somebody who has let an application change the policies that are their own."""
        await self.agree(zone, ClientRef(application_id=app.id), person.user, *POLICY_SCOPES)
        return await self.token(zone, app, person, scopes=POLICY_SCOPES)

    async def token(
        self,
        zone: Zone,
        app: App,
        person: Person,
        *,
        audience: str | None = None,
        scopes: Sequence[str] = ("openid",),
        actors: tuple[str, ...] = (),
        now: datetime | None = None,
        lifetime: timedelta = timedelta(hours=1),
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """The access token that signing in to an application leads to."""
        view = await self.services.zones.get(zone.id)
        issued_at = now or self.services.clock()
        return issue_access_token(
            view,
            AccessTokenFacts(
                issuer=view.issuer,
                subject=person.user.identifier,
                subject_profile=EntityProfile.USER,
                audience=audience or view.issuer,
                client_id=app.client_id,
                scopes=frozenset(scopes),
                issued_at=issued_at,
                expires_at=issued_at + lifetime,
                token_id=new_token_id(),
                session_id=person.session_id,
                authenticated_at=issued_at,
                acr=None,
                actors=tuple(ChainActor(name, view.issuer, name, "service") for name in actors),
                extra=extra,
            ),
        )

    async def policies(self, zone: Zone, *texts: str) -> None:
        """Bind a policy set of these texts alone, in place of what decides now."""
        entries = []
        for text in texts:
            policy = await self.create(POLICY, zone.id, name=f"policy {new_id()[:8]}")
            version = await self.run(
                POLICY_VERSION,
                Verb.CREATE,
                {"zone_id": zone.id, "policy_id": policy.id},
                {"cedar_raw": text, "schema_version": schema.CURRENT_VERSION},
            )
            entries.append({"policy_id": policy.id, "policy_version_id": version.id})
        made = await self.create(POLICY_SET, zone.id, name=f"set {new_id()[:8]}")
        parents = {"zone_id": zone.id, "policy_set_id": made.id}
        composed = await self.run(
            POLICY_SET_VERSION,
            Verb.CREATE,
            parents,
            {"schema_version": schema.CURRENT_VERSION, "manifest": {"entries": entries}},
        )
        await self.run(POLICY_SET_VERSION, Verb.UPDATE, parents, composed.id, {"active": True})


async def found_company(services: Services, name: str = "Acme") -> Company:
    """A new organization with an administrator who makes everything in it."""
    organization, api_key = await organizations.create_organization(services, name)
    return Company(services, operator(organization.id), organization.id, api_key)


def operator(organization_id: str) -> Caller:
    """Who makes things for tests, beside the API: the one who runs the service."""
    return Caller("tester", "system", organization_id, "org_admin", "tester")


def company_of(server: Server) -> Company:
    """The organization that a server was started with."""
    return Company(server.services, operator(server.organization_id), server.organization_id, server.api_key)

"""A zone whose tokens are issued in every way, revoked by every cause, and allowed again at once.

Whatever happens, two servers are asked about each token: one that asks the zone (introspection), and one that
verifies by itself, with the library over the signed revocation list. They must answer alike.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any

import httpx
import jwt.api_jwt
import orjson
from tests.runtime.tokens.conftest import as_client_session, ask, granted
from tests.support.factories import App, Company, Person
from tests.support.jumping_clock import JumpingClock, jumping
from tests.support.scene import Scene, claims_of

import zonewright.revocations
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    RESOURCE,
    SESSION,
    USER,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.oauth.resources import RequestedResource
from runtime.services import epochs, revocation_list
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.grants import refresh_token_rotation
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.management.kind_handlers import CREATES
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import consents, refresh_families, session_users, sessions
from runtime.storage.sql.client_refs import ClientRef
from zonewright.access_token import AccessToken
from zonewright.keys import ZoneKeys
from zonewright.metadata import ZoneMetadata
from zonewright.revocations import RevocationList

TOOLS, API = "https://tools.test", "https://api.test"
AGENT, SERVER = "agent", "tool-server"


@dataclass(frozen=True)
class Issued:
    """A token with the way in which it was issued."""

    way: str
    text: str

    @property
    def audience(self) -> str:
        return str(claims_of(self.text)["aud"])


@dataclass
class World:
    """Ada lets an agent use a tool server, which uses an API for her, or for the agent itself.

    Attributes:
        apps: by what they were called at first.
        refresh: the refresh token of each set of resources that she has authorized.
        former: the application whose secret was replaced last, as it was.
        grants: Ada's, by resource.
    """

    scene: Scene
    clock: JumpingClock
    library: RevocationList
    apps: dict[str, App] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    owners: dict[str, User] = field(default_factory=dict)
    ada: Person = field(init=False)
    former: App = field(init=False)
    grants: dict[str, str] = field(default_factory=dict)
    refresh: dict[tuple[str, ...], str] = field(default_factory=dict)
    tokens: list[Issued] = field(default_factory=list)

    @property
    def company(self) -> Company:
        return self.scene.company

    # --- how it is at the beginning

    async def begin(self) -> None:
        """Make everything, and sign Ada in."""
        company, zone = self.company, self.scene.zone
        await set_zone_setting(self.scene.services, zone.id, "require-active-accountable", "on")
        self.apps["provider"] = await company.app(zone, "provider")
        self.resources[API] = await company.resource(
            zone, API, scopes=["read"], application_id=self.apps["provider"].id
        )
        await self._app(SERVER, [self.resources[API]], consent="implicit")
        self.resources[TOOLS] = await company.resource(
            zone, TOOLS, scopes=["call"], application_id=self.apps[SERVER].id
        )
        await self._app(AGENT, [self.resources[TOOLS], self.resources[API]], consent="required")
        self.ada = Person(await company.user(zone, "ada@acme.test"), "")
        await self.allow()
        await self.sign_in()

    async def _app(self, name: str, dependencies: list[Resource], *, consent: str) -> None:
        owner = self.owners[name] = await self.company.user(self.scene.zone, f"owner-of-{name}@acme.test")
        self.apps[name] = await self.company.app(
            self.scene.zone,
            name,
            consent=consent,
            dependencies=dependencies,
            accountable_user_id=owner.id,
        )

    async def sign_in(self) -> None:
        """A new session of Ada's at the agent, with refresh tokens for the zone, the tools, and both."""
        scene = self.scene
        self.ada = await self.company.signed_in(scene.zone, self.ada.user)
        agent = self.apps[AGENT]
        await as_client_session(
            scene, self.ada.session_id, application_id=agent.id, client_id=agent.client_id
        )
        for names in ((), (TOOLS,), (TOOLS, API)):
            self.refresh[names] = await self._family(names)

    async def _family(self, names: tuple[str, ...]) -> str:
        services = self.scene.services
        zone = await services.zones.get(self.scene.zone.id)
        client = await zone.clients.get(self.apps[AGENT].client_id)
        assert client is not None
        asked = tuple(
            RequestedResource(
                id=self.resources[each].id,
                identifier=self.resources[each].identifier,
                scopes=frozenset(self.resources[each].scopes or ()),
            )
            for each in names
        )
        async with services.database.transaction() as conn:
            found = await session_users.by_session(conn, self.ada.session_id, zone_id=zone.id)
            assert found is not None
            authority = UserAuthorization(*found, client, frozenset({"openid"}), asked)
            text, family = refresh_token_rotation.new_family(
                services, zone, authority, new_id(), services.clock()
            )
            await refresh_families.add(conn, family)
        return text

    async def allow(self) -> None:
        """Ada lets the agent use both, as the consent page has it; her grants stand again."""
        services, zone = self.scene.services, self.scene.zone
        said = [consents.ConsentRecord(consents.SIGN_IN, frozenset({"openid"}), "app.test")]
        said += [
            consents.ConsentRecord(each.id, frozenset(each.scopes or ()), "app.test")
            for each in self.resources.values()
        ]
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, self.ada.user.id))
            await consents.record(
                conn,
                said,
                zone_id=zone.id,
                user_id=self.ada.user.id,
                client_ref=ClientRef(application_id=self.apps[AGENT].id),
                now=services.clock(),
            )
        self.grants = {
            name: await granted(self.scene, self.ada, each) for name, each in self.resources.items()
        }

    # --- every way in which a token is issued

    async def refreshed(self, names: tuple[str, ...], **more: str) -> str:
        form = {"grant_type": "refresh_token", "refresh_token": self.refresh[names], **more}
        answer = await self.scene.post([*form.items(), *self.apps[AGENT].form.items()])
        self.refresh[names] = answer["refresh_token"]
        return str(answer["access_token"])

    async def _exchanged(self, app: str, subject: str, target: str) -> str:
        resource = self.resources[target].identifier
        return str((await self.scene.exchange(self.apps[app], subject, resource))["access_token"])

    async def _own(self, **more: str) -> str:
        form = {"grant_type": "client_credentials", **more, **self.apps[AGENT].form}
        return str((await self.scene.post(list(form.items())))["access_token"])

    async def issue(self) -> list[Issued]:
        """A token in each of the ways."""
        tools, api = self.resources[TOOLS].identifier, self.resources[API].identifier
        texts = {
            "refreshed, by its only resource": await self.refreshed((TOOLS,)),
            "refreshed, for the one that is named": await self.refreshed((TOOLS, API), resource=api),
            "its own": await self._own(resource=tools),
            "its own, by audience": await self._own(audience=api),
        }
        root, own = await self.refreshed(()), await self._own()
        texts["exchanged"] = await self._exchanged(AGENT, root, TOOLS)
        texts["exchanged again"] = await self._exchanged(AGENT, root, TOOLS)
        texts["exchanged further"] = await self._exchanged(SERVER, texts["exchanged"], API)
        texts["handed over and exchanged"] = await self._exchanged(
            SERVER, texts["refreshed, by its only resource"], API
        )
        texts["its own, exchanged"] = await self._exchanged(AGENT, own, TOOLS)
        texts["its own, exchanged further"] = await self._exchanged(SERVER, texts["its own"], API)
        made = [Issued(way, text) for way, text in texts.items()]
        self.tokens += made
        return made

    # --- every cause for which tokens are revoked; and allowed again

    async def _update(self, kind: Any, entity_id: str, **patch: object) -> None:
        await self.company.update(kind, self.scene.zone.id, entity_id, **patch)

    async def take_back_grant(self, name: str) -> None:
        await self._update(DELEGATED_GRANT, self.grants[name], status="revoked")
        await self.allow()

    async def delete_grant(self, name: str) -> None:
        await self.company.delete(DELEGATED_GRANT, self.scene.zone.id, self.grants[name])
        await self.allow()

    async def _on_account_page(self, what: Callable[..., Awaitable[None]], entity_id: str) -> None:
        services = self.scene.services
        zone = await services.zones.get(self.scene.zone.id)
        async with services.database.reading() as conn:
            found = await sessions.find(conn, self.ada.session_id, zone_id=zone.id)
        assert found is not None
        await what(services, zone, SignedInUser(found, self.ada.user), entity_id)

    async def take_back_application(self) -> None:
        await self._on_account_page(withdrawal.application, self.apps[AGENT].id)
        await self.allow()
        await self.sign_in()

    async def take_back_on_account_page(self, name: str) -> None:
        await self._on_account_page(withdrawal.grant, self.grants[name])
        await self.allow()

    async def add_secret(self, name: str) -> None:
        """A second secret under the client id that there is; from now on that is used."""
        old = self.former = self.apps[name]
        secret, credential_id = await self._secret(old.id, old.client_id)
        self.apps[name] = replace(old, secret=secret, credential_id=credential_id)

    async def _secret(self, application_id: str, client_id: str) -> tuple[str, str]:
        body = {"application_id": application_id, "type": "password", "identifier": client_id}
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            create = CREATES[APPLICATION_CREDENTIAL.name]
            made = await create(unit, APPLICATION_CREDENTIAL, {"zone_id": self.scene.zone.id}, body)
            return unit.shown_once[made.id]["password"], made.id

    async def rotate(self, name: str) -> None:
        """Replace a secret under the same client id."""
        await self.add_secret(name)
        await self.company.delete(APPLICATION_CREDENTIAL, self.scene.zone.id, self.former.credential_id)

    async def use_another_credential(self, name: str) -> None:
        """Replace a secret by one under another client id: what users have authorized is the agent's."""
        old = self.apps[name]
        self.apps[name] = await self.company.credential(self.scene.zone, old.application)
        await self.company.delete(APPLICATION_CREDENTIAL, self.scene.zone.id, old.credential_id)
        if name == AGENT:
            await self.sign_in()

    async def suspend(self, name: str) -> None:
        await self._update(USER, self.owners[name].id, status="disabled")
        await self._update(USER, self.owners[name].id, status="active")

    async def rename_there_and_back(self, name: str) -> None:
        application = self.apps[name].id
        await self._update(APPLICATION, application, identifier=f"{name}-of-others")
        await self._update(APPLICATION, application, identifier=name)

    async def move_there_and_back(self, name: str) -> None:
        resource = self.resources[name].id
        await self._update(RESOURCE, resource, identifier=f"{name}/of-others")
        await self._update(RESOURCE, resource, identifier=name)

    async def rename(self, name: str) -> None:
        await self._update(APPLICATION, self.apps[name].id, identifier=f"{name}-{new_id()[:6]}")

    async def end_session(self) -> None:
        await self._update(SESSION, self.ada.session_id, status="revoked")
        await self.sign_in()

    async def disable(self) -> None:
        await self._update(USER, self.ada.user.id, status="disabled")
        await self._update(USER, self.ada.user.id, status="active")
        await self.sign_in()

    async def make_resource_again(self) -> None:
        await self.company.delete(RESOURCE, self.scene.zone.id, self.resources[TOOLS].id)
        self.resources[TOOLS] = await self.company.resource(
            self.scene.zone, TOOLS, scopes=["call"], application_id=self.apps[SERVER].id
        )
        await self._depend()
        await self.allow()
        await self.sign_in()

    async def make_application_again(self, name: str) -> None:
        old = self.apps[name]
        await self.company.delete(APPLICATION, self.scene.zone.id, old.id)
        dependencies = list(self.resources.values()) if name == AGENT else [self.resources[API]]
        made = await self.company.create(
            APPLICATION,
            self.scene.zone.id,
            identifier=name,
            name=name,
            consent="required" if name == AGENT else "implicit",
            dependencies=[{"id": each.id} for each in dependencies],
            accountable_user_id=self.owners[name].id,
        )
        secret, credential_id = await self._secret(made.id, old.client_id)
        self.apps[name] = App(made, old.client_id, secret, credential_id)
        if name == SERVER:
            await self._update(RESOURCE, self.resources[TOOLS].id, application_id=made.id)
        await self.allow()
        await self.sign_in()

    async def _depend(self) -> None:
        """Let the agent ask for both."""
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            ids = [each.id for each in self.resources.values()]
            await applications.set_dependencies(unit, self.apps[AGENT].application, ids)

    # --- the two that are asked

    async def is_active(self, token: Issued) -> bool:
        """What the zone tells the provider of the token's resource."""
        provider = SERVER if token.audience == TOOLS else "provider"
        return bool((await ask(self.scene, self.apps[provider], token.text))["active"])

    async def is_listed(self, token: Issued) -> bool:
        """What the library says."""
        return await self.library.is_revoked(AccessToken.from_claims(claims_of(token.text), raw=token.text))

    async def differences(self) -> list[tuple[str, bool]]:
        """The tokens of which both do not say the same, with what the zone says."""
        found = []
        for each in self.tokens:
            active = await self.is_active(each)
            if active == await self.is_listed(each):
                found.append((each.way, active))
        return found


# Each ends something and allows it again in the same second.
CAUSES: Mapping[str, Callable[[World], Awaitable[None]]] = {
    "grant for the tools revoked": lambda world: world.take_back_grant(TOOLS),
    "grant for the API revoked": lambda world: world.take_back_grant(API),
    "grant for the tools deleted": lambda world: world.delete_grant(TOOLS),
    "grant taken back on the account page": lambda world: world.take_back_on_account_page(TOOLS),
    "application taken back on the account page": World.take_back_application,
    "agent's secret replaced": lambda world: world.rotate(AGENT),
    "tool server's secret replaced": lambda world: world.rotate(SERVER),
    "agent's credential replaced": lambda world: world.use_another_credential(AGENT),
    "tool server's credential replaced": lambda world: world.use_another_credential(SERVER),
    "agent suspended": lambda world: world.suspend(AGENT),
    "tool server suspended": lambda world: world.suspend(SERVER),
    "agent renamed": lambda world: world.rename(AGENT),
    "agent renamed there and back": lambda world: world.rename_there_and_back(AGENT),
    "tool server renamed there and back": lambda world: world.rename_there_and_back(SERVER),
    "tools renamed there and back": lambda world: world.move_there_and_back(TOOLS),
    "API renamed there and back": lambda world: world.move_there_and_back(API),
    "session revoked": World.end_session,
    "user disabled": World.disable,
    "tools made again": World.make_resource_again,
    "agent made again": lambda world: world.make_application_again(AGENT),
    "tool server made again": lambda world: world.make_application_again(SERVER),
}


@contextmanager
def going_by(clock: JumpingClock) -> Iterator[None]:
    """Let the library and PyJWT go by that clock, and every list be read anew."""

    class Present(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return clock()

    real = jwt.api_jwt.datetime, zonewright.revocations.time, revocation_list.FRESH_SECONDS
    jwt.api_jwt.datetime = Present  # type: ignore[misc]
    zonewright.revocations.time = lambda: clock().timestamp()
    revocation_list.FRESH_SECONDS = 0.0
    try:
        yield
    finally:
        jwt.api_jwt.datetime, zonewright.revocations.time, revocation_list.FRESH_SECONDS = real  # type: ignore[misc]


@contextmanager
def opened_world(scene: Scene) -> Iterator[World]:
    """A world in that zone, to begin; its clock jumps instead of waiting."""
    services = scene.services

    async def answer(request: httpx.Request) -> httpx.Response:
        zone = await services.zones.get(scene.zone.id)
        if request.url.path.endswith("/revocations"):
            text = await services.revocations.signed_since(zone, request.url.params.get("since"))
            kind = {"content-type": f"application/{revocation_list.TYPE}"}
            return httpx.Response(200, content=text, headers=kind)
        keys = {"keys": list(zone.jwks)}
        told = {"issuer": zone.issuer, "jwks_uri": f"{zone.issuer}/.well-known/jwks.json"}
        body = orjson.dumps(keys if request.url.path.endswith("jwks.json") else told)
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    with jumping(services) as clock, going_by(clock):
        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        issuer = str(scene.zone.protocols.oauth2.issuer)
        keys = ZoneKeys(http, ZoneMetadata(http, issuer))
        library = RevocationList(http, issuer, keys, max_age_seconds=0)
        yield World(scene, clock, library)

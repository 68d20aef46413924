"""A chain of an agent, a tool server and an API that somebody provides, on both forms of storage."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from tests.runtime.grants.conftest import company, own_scene, scene, servers, services, storage_settings
from tests.support.factories import App, Company, Person
from tests.support.scene import Scene

from runtime.domain.kinds import DELEGATED_GRANT, SESSION, USER
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.forms import parse_form
from runtime.services.container import Services
from runtime.services.tokens.introspection import respond
from runtime.storage.sql import sessions

__all__ = ["company", "own_scene", "scene", "servers", "services", "storage_settings"]


async def ask(
    scene: Scene, app: App, token: str, *, services: Services | None = None, **more: str
) -> dict[str, Any]:
    """What the introspection endpoint tells an application of a token."""
    form = parse_form(urlencode({"token": token, **app.form, **more}).encode())
    told = await respond(
        services or scene.services,
        scene.zone.id,
        form,
        authorization=None,
        address="192.0.2.1",
        request_id="test-request",
    )
    answer: dict[str, Any] = orjson.loads(told)
    return answer


@dataclass
class Chain:
    """A user's token at an agent, what the agent exchanges it for, and what the tool server makes of that."""

    scene: Scene
    person: Person
    agent: App
    tool_server: App
    provider: App
    tools: Resource
    api: Resource
    tokens: tuple[str, str, str]
    grant_id: str

    async def introspect(self, services: Services | None = None) -> dict[str, Any]:
        """What the API's provider is told of the last token."""
        return await ask(self.scene, self.provider, self.tokens[2], services=services)

    @property
    def zone_id(self) -> str:
        return self.scene.zone.id

    @property
    def company(self) -> Company:
        return self.scene.company

    async def revoke_session(self) -> None:
        await self.company.update(SESSION, self.zone_id, self.person.session_id, status="revoked")

    async def delete_session(self) -> None:
        await self.company.delete(SESSION, self.zone_id, self.person.session_id)

    async def revoke_grant(self) -> None:
        await self.company.update(DELEGATED_GRANT, self.zone_id, self.grant_id, status="revoked")

    async def disable_user(self) -> None:
        await self.company.update(USER, self.zone_id, self.person.user.id, status="disabled")

    async def delete_user(self) -> None:
        await self.company.delete(USER, self.zone_id, self.person.user.id)


async def granted(scene: Scene, person: Person, resource: Resource) -> str:
    """A delegated grant of a person's for all of a resource; its id."""
    return await scene.company.grant(scene.zone, person.user, resource, resource.scopes or ())


async def walk(scene: Scene) -> Chain:
    """A new chain in a zone, walked to its end."""
    company, zone = scene.company, scene.zone
    provider = await company.app(zone, "api-server")
    api = await company.resource(zone, "https://api.test", scopes=["read"], application_id=provider.id)
    tool_server = await company.app(zone, "tool-server", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", application_id=tool_server.id)
    agent = await company.app(zone, "agent", dependencies=[tools, api])
    person = await company.person(zone, "ann@acme.test")
    grant_id = await granted(scene, person, api)
    first = await company.token(zone, agent, person)
    second = (await scene.exchange(agent, first, tools))["access_token"]
    third = (await scene.exchange(tool_server, second, api, "read"))["access_token"]
    return Chain(scene, person, agent, tool_server, provider, tools, api, (first, second, third), grant_id)


@pytest.fixture
async def chain(own_scene: Scene) -> Chain:
    """A chain in a zone of the test's own."""
    return await walk(own_scene)


@pytest.fixture(scope="module")
async def shared_chain(scene: Scene) -> Chain:
    """A chain that no test ends."""
    return await walk(scene)


async def as_client_session(scene: Scene, session_id: str, **members: str) -> None:
    """Let a session of the factories be what sign-in makes for an application."""
    async with scene.services.database.transaction() as conn:
        await conn.execute(
            sessions._sessions.update()
            .where(sessions._sessions.c.id == session_id, sessions._sessions.c.zone_id == scene.zone.id)
            .values(session_type="application", **members)
        )

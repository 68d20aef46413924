"""Whatever is deleted, renamed or made again: what is cached of a chain of two is what is read anew."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.factories import App, Company, Person
from tests.support.jumping_clock import jumping
from tests.support.scene import Scene, acting, claims_of
from tests.support.state_doubles import with_state

from runtime.domain.errors import Conflict, ManagementError, OAuthError
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    GROUP,
    RESOURCE,
    ROLE,
    ROLE_ASSIGNMENT,
    USER,
    Kind,
)
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import Group, Role
from runtime.services.container import Services
from runtime.services.management.people import assignments, groups
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.zone_settings import set_zone_setting
from runtime.storage.sql import entities
from runtime.storage.state.memory import InProcessState

pytestmark = pytest.mark.long

SCOPES = ["read", "write"]
TOOLS, API = "https://tools.test", "https://api.test"
NAMES = ("agent", "tool-server", "helper")
POLICIES = {
    "everybody": "permit (principal, action, resource);",
    "staff": 'permit (principal, action, resource) when { principal in Group::"staff" };',
    "role of the user": 'permit (principal, action, resource) when { principal in Role::"reader" };',
    "provider": """
        permit (principal, action, resource);
        forbid (principal, action, resource)
          when { resource has provider && resource.provider.traits.contains("mcp-server") };
    """,
}
# How often each write is chosen. What changes everything is rare: it would hide what other writes leave.
RARE = {"policies": 0.2, "required": 0.2, "provider": 0.2}


@dataclass
class Chain:
    """Ann's agent calls a tool server, which calls an API; and all that these rest on."""

    scene: Scene
    ann: Person
    chance: random.Random
    agent: App
    tool_server: App
    tools: Resource
    api: Resource
    staff: Group
    role: Role
    bob: Any
    policy: str
    subject: str = ""
    first: str = ""
    done: list[str] = field(default_factory=list)

    @property
    def company(self) -> Company:
        return self.scene.company

    async def answers(self, services: Services | None = None) -> list[object]:
        """What both exchanges come to: what the tokens say and not when, or why there are none."""
        scope = self.chance.choice([None, "read"])
        return [
            await self._answer(self.agent, self.subject, TOOLS, scope, services),
            await self._answer(self.tool_server, self.first, API, scope, services),
        ]

    async def _answer(
        self, app: App, subject: str, resource: str, scope: str | None, services: Services | None
    ) -> object:
        try:
            told = await self.scene.exchange(app, subject, resource, scope, services=services)
        except OAuthError as refused:
            return refused.code
        claims = claims_of(told["access_token"])
        return claims["aud"], claims["sub"], claims["client_id"], claims.get("scope"), acting(claims)

    async def begin(self, services: Services) -> None:
        """Take new tokens where those that are there lead to nothing."""
        self.subject = await self.company.token(self.scene.zone, self.agent, self.ann)
        try:
            told = await self.scene.exchange(self.agent, self.subject, TOOLS, services=services)
        except OAuthError:
            return
        self.first = told["access_token"]

    async def write(self) -> None:
        """One of the writes; one that cannot be done now is as good as none."""
        names = sorted(WRITES)
        (chosen,) = self.chance.choices(names, [RARE.get(name, 1.0) for name in names])
        try:
            await WRITES[chosen](self)
        except ManagementError as refused:
            chosen = f"{chosen} (refused: {refused})"
        self.done.append(chosen)

    async def mend(self) -> None:
        """Make both exchanges possible again, with as little as that takes."""
        found = await self.zone_resources()
        if self.api.id not in found:
            self.api = await self.company.resource(self.scene.zone, API, scopes=SCOPES)
        for other in found - {self.api.id, self.tools.id}:
            await self.delete(RESOURCE, other)
        for resource, name in ((self.tools, TOOLS), (self.api, f"https://{new_id()}.test"), (self.api, API)):
            await self.update(RESOURCE, resource.id, identifier=name)
        await self.update(RESOURCE, self.tools.id, application_id=self.tool_server.id)
        for app, resource in ((self.agent, self.tools), (self.tool_server, self.api)):
            await self.update(APPLICATION, app.id, consent="implicit", accountable_user_id=None)
            await self.depend(app, resource)
        if self.policy == "provider":
            await self.update(RESOURCE, self.api.id, application_id=None)
        if self.policy == "staff":
            with suppress(Conflict):  # a member already
                await joined_or_left(self, leave=False)
        if self.policy == "role of the user":
            with suppress(Conflict):
                await role_given(self, to=0)
        self.done.append("mended")

    async def zone_resources(self) -> set[str]:
        """Ids of all resources of the zone."""
        async with self.scene.services.database.reading() as conn:
            within = {"zone_id": self.scene.zone.id}
            return {each.id async for each in entities.all_of(conn, RESOURCE, within=within)}

    async def delete(self, kind: Kind, entity_id: str) -> None:
        await self.company.delete(kind, self.scene.zone.id, entity_id)

    async def update(self, kind: Kind, entity_id: str, **patch: Any) -> None:
        await self.company.update(kind, self.scene.zone.id, entity_id, **patch)

    async def depend(self, app: App, resource: Resource) -> None:
        async with unit_of_work(self.scene.services, self.company.caller, new_id()) as unit:
            parents = {"zone_id": self.scene.zone.id}
            await applications.add_dependency(unit, parents, app.id, resource.id, [])


Write = Callable[[Chain], Awaitable[object]]


async def tool_server_made_again(it: Chain) -> None:
    """Of the same name, as what an operator does who has lost its secret."""
    identifier = it.tool_server.application.identifier
    await it.delete(APPLICATION, it.tool_server.id)
    it.tool_server = await it.company.app(it.scene.zone, identifier, dependencies=[it.api])
    await it.update(RESOURCE, it.tools.id, application_id=it.tool_server.id)


async def tool_server_gone_from_its_resource(it: Chain) -> None:
    await it.update(RESOURCE, it.tools.id, application_id=it.chance.choice([None, it.tool_server.id]))


async def agent_made_again(it: Chain) -> None:
    """Also with the client id that it had."""
    former = it.agent
    await it.delete(APPLICATION, former.id)
    made = await it.company.app(it.scene.zone, former.application.identifier, dependencies=[it.tools])
    if it.chance.random() < 0.5:
        made = await it.company.credential(it.scene.zone, made.application, client_id=former.client_id)
    it.agent = made


async def provider_of_the_api(it: Chain) -> None:
    """An application provides the API, which policies may look at; or it goes, and nobody does."""
    provider = await it.company.app(it.scene.zone, new_id(), traits=["mcp-server"])
    await it.update(RESOURCE, it.api.id, application_id=provider.id)
    if it.chance.random() < 0.5:
        await it.delete(APPLICATION, provider.id)


async def provider_of_the_api_gone(it: Chain) -> None:
    found = await entities_of(it, RESOURCE, it.api.id)
    if found.application_id is not None:
        await it.delete(APPLICATION, found.application_id)


async def entities_of(it: Chain, kind: Kind, entity_id: str) -> Any:
    async with it.scene.services.database.reading() as conn:
        return await entities.get(conn, kind, entity_id, within={"zone_id": it.scene.zone.id})


async def credential_made_again(it: Chain) -> None:
    former = it.tool_server
    await it.delete(APPLICATION_CREDENTIAL, former.credential_id)
    it.tool_server = await it.company.credential(it.scene.zone, former.application)


async def credential_of_the_agent_made_again(it: Chain) -> None:
    former = it.agent
    await it.delete(APPLICATION_CREDENTIAL, former.credential_id)
    it.agent = await it.company.credential(it.scene.zone, former.application)


async def second_secret(it: Chain) -> None:
    """The same client id has two of them for a while, and goes on with the new one."""
    former = it.tool_server
    made = await it.company.credential(it.scene.zone, former.application, client_id=former.client_id)
    if it.chance.random() < 0.5:
        await it.delete(APPLICATION_CREDENTIAL, former.credential_id)
        it.tool_server = made


async def api_made_again(it: Chain) -> None:
    await it.delete(RESOURCE, it.api.id)
    if it.chance.random() < 0.3:
        return
    it.api = await it.company.resource(it.scene.zone, API, scopes=SCOPES)
    await it.depend(it.tool_server, it.api)


async def tools_made_again(it: Chain) -> None:
    await it.delete(RESOURCE, it.tools.id)
    it.tools = await it.company.resource(
        it.scene.zone, TOOLS, scopes=SCOPES, application_id=it.tool_server.id
    )
    await it.depend(it.agent, it.tools)


async def resource_renamed(it: Chain) -> None:
    """Mostly back to what it was called before."""
    resource, own = it.chance.choice([(it.tools, TOOLS), (it.api, API)])
    name = it.chance.choice([own, own, TOOLS, API, f"https://{new_id()}.test"])
    await it.update(RESOURCE, resource.id, identifier=name)


async def application_renamed(it: Chain) -> None:
    """Also to what another one was called."""
    app = it.chance.choice([it.agent, it.tool_server])
    await it.update(APPLICATION, app.id, identifier=it.chance.choice(NAMES))


async def prefix(it: Chain) -> None:
    """What is asked for may mean a shorter one, which begins to match or ends to."""
    await it.update(RESOURCE, it.api.id, prefix=it.chance.random() < 0.5)
    made = await it.company.resource(it.scene.zone, "https://api.test/", scopes=SCOPES, prefix=True)
    await it.depend(it.tool_server, made)
    if it.chance.random() < 0.7:
        await it.delete(RESOURCE, made.id)


async def staff_made_again(it: Chain) -> None:
    await it.delete(GROUP, it.staff.id)
    members = [it.ann.user] if it.chance.random() < 0.7 else []
    it.staff = await it.company.group(it.scene.zone, "staff", members)


async def role_made_again(it: Chain) -> None:
    await it.delete(ROLE, it.role.id)
    it.role = await it.company.create(ROLE, it.scene.zone.id, identifier="reader")
    if it.chance.random() < 0.7:
        await role_given(it)


async def role_given(it: Chain, *, to: int | None = None) -> None:
    holders = [(assignments.USERS, it.ann.user.id), (assignments.GROUPS, it.staff.id)]
    holders.append((assignments.APPLICATIONS, it.agent.id))
    holder, principal_id = it.chance.choice(holders) if to is None else holders[to]
    async with unit_of_work(it.scene.services, it.company.caller, new_id()) as unit:
        parents = {"zone_id": it.scene.zone.id}
        made = await assignments.assign(unit, holder, parents, principal_id, {"role_id": it.role.id})
        if it.chance.random() < 0.2:
            await assignments.delete_many(unit, ROLE_ASSIGNMENT, parents, [made.id])


async def joined_or_left(it: Chain, *, leave: bool | None = None) -> None:
    leaves = it.chance.random() < 0.5 if leave is None else leave
    do = groups.remove_member if leaves else groups.add_member
    async with unit_of_work(it.scene.services, it.company.caller, new_id()) as unit:
        await do(unit, {"zone_id": it.scene.zone.id}, it.staff.id, it.ann.user.id)


async def accountable_user(it: Chain) -> None:
    """Somebody answers for the tool server, who is disabled, enabled, or goes."""
    if it.bob is None:
        it.bob = await it.company.user(it.scene.zone, f"{new_id()}@acme.test")
    await it.update(APPLICATION, it.tool_server.id, accountable_user_id=it.bob.id)
    status = it.chance.choice(["active", "disabled"])
    await it.update(USER, it.bob.id, status=status)
    if it.chance.random() < 0.5:
        await it.delete(USER, it.bob.id)
        it.bob = None
    if it.chance.random() < 0.5:
        await it.update(APPLICATION, it.tool_server.id, accountable_user_id=None)


async def consent(it: Chain) -> None:
    await it.update(APPLICATION, it.agent.id, consent=it.chance.choice(["implicit", "implicit", "required"]))


async def granted(it: Chain) -> None:
    """Ann's word for the API, which ends by an administrator now and then."""
    if it.api.id not in await it.zone_resources():
        return
    grant_id = await it.company.grant(it.scene.zone, it.ann.user, it.api, SCOPES)
    if it.chance.random() < 0.5:
        await it.delete(DELEGATED_GRANT, grant_id)


async def policies(it: Chain) -> None:
    it.policy = it.chance.choice(sorted(POLICIES))
    await it.company.policies(it.scene.zone, POLICIES[it.policy])


async def accountability(it: Chain) -> None:
    value = it.chance.choice(["on", "off"])
    await set_zone_setting(it.scene.services, it.scene.zone.id, "require-active-accountable", value)


async def traits(it: Chain) -> None:
    app = it.chance.choice([it.agent, it.tool_server])
    await it.update(APPLICATION, app.id, traits=it.chance.choice([[], ["mcp-server"], ["ai-agent"]]))


WRITES: dict[str, Write] = {
    "accountable": accountable_user,
    "agent again": agent_made_again,
    "api again": api_made_again,
    "application renamed": application_renamed,
    "consent": consent,
    "credential again": credential_made_again,
    "credential of the agent again": credential_of_the_agent_made_again,
    "granted": granted,
    "member": joined_or_left,
    "no provider of the api": provider_of_the_api_gone,
    "policies": policies,
    "prefix": prefix,
    "provider of the api": provider_of_the_api,
    "required": accountability,
    "resource renamed": resource_renamed,
    "role": role_given,
    "role again": role_made_again,
    "scopes": lambda it: it.update(RESOURCE, it.api.id, scopes=it.chance.sample(SCOPES, 1)),
    "second secret": second_secret,
    "staff again": staff_made_again,
    "tool server again": tool_server_made_again,
    "tool server of its resource": tool_server_gone_from_its_resource,
    "tools again": tools_made_again,
    "traits": traits,
    "unrelated": lambda it: it.company.resource(it.scene.zone, f"https://{new_id()}.test"),
}


@pytest.fixture
async def chain(own_scene: Scene, seed: int) -> Chain:
    scene, company, zone = own_scene, own_scene.company, own_scene.zone
    api = await company.resource(zone, API, scopes=SCOPES)
    tool_server = await company.app(zone, "tool-server", dependencies=[api])
    tools = await company.resource(zone, TOOLS, scopes=SCOPES, application_id=tool_server.id)
    agent = await company.app(zone, "agent", dependencies=[tools])
    ann = await company.person(zone, "ann@acme.test", hours=1_000)
    staff = await company.group(zone, "staff", [ann.user])
    role = await company.create(ROLE, zone.id, identifier="reader")
    bob = await company.user(zone, "bob@acme.test")
    chance = random.Random(seed)
    policy = list(POLICIES)[seed % len(POLICIES)]
    await company.policies(zone, POLICIES[policy])
    return Chain(scene, ann, chance, agent, tool_server, tools, api, staff, role, bob, policy)


@pytest.fixture
async def elsewhere(chain: Chain) -> AsyncIterator[Services]:
    """Another worker over the same database and the same short-lived state."""
    made = with_state(chain.scene.services, chain.scene.services.state)
    yield made
    await made.epochs.close()


@pytest.mark.threat("18o", "35a")
@pytest.mark.parametrize("seed", range(8))
async def test_what_is_cached_is_what_is_read_anew(chain: Chain, elsewhere: Services, seed: int) -> None:
    """After each write, two workers that have the zone cached answer as one that has nothing of it."""
    here = chain.scene.services
    allowed = refused = 0
    with jumping(here):
        await chain.begin(here)
        for _ in range(60):
            await chain.write()
            fresh = with_state(here, InProcessState())
            state = chain.chance.getstate()
            expected = await chain.answers(fresh)
            for services in (here, elsewhere, here):
                chain.chance.setstate(state)
                assert await chain.answers(services) == expected, chain.done
            if any(isinstance(each, str) for each in expected):
                refused += 1
                if chain.chance.random() < 0.8:
                    await chain.mend()
                    await fresh.epochs.close()
                    fresh = with_state(here, InProcessState())
                await chain.begin(fresh)
            else:
                allowed += 1
            await fresh.epochs.close()
    assert min(allowed, refused) > 5

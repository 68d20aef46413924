"""Exchanges in a zone that is written to faster than anybody can look at it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from tests.support.factories import App, Person
from tests.support.possession import Holder
from tests.support.scene import Scene, claims_of
from tests.support.state_doubles import with_state

from runtime.domain.errors import InvalidDpopProof, InvalidGrant, InvalidScope, InvalidTarget
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.forms import parse_form
from runtime.services.authority import session_revocation
from runtime.services.container import Services
from runtime.services.management.kind_handlers import UPDATES
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.management.zones import applications
from runtime.services.tokens import introspection
from runtime.storage.state import StateStore
from runtime.storage.state.memory import InProcessState

Write = Callable[[], Awaitable[object]]


class Busy(InProcessState):
    """The state, in front of which somebody has always just written to the database."""

    def __init__(self, inner: StateStore, write: Write) -> None:
        super().__init__(wall=lambda: 0.0)
        self._inner, self._write = inner, write
        self.writes = 0
        self.version = None

    async def fetch(self, keys: Sequence[str]) -> list[bytes | None]:
        self.writes += 1
        await self._write()
        return await self._inner.fetch(keys)

    async def raise_all(self, numbers: Mapping[str, int], *, ttl_seconds: int) -> None:
        await self._inner.raise_all(numbers, ttl_seconds=ttl_seconds)


def busy(scene: Scene, write: Write) -> Services:
    """A process that never finds the zone as it has left it."""
    return with_state(scene.services, Busy(scene.services.state, write))


@pytest.fixture
def unrelated(scene: Scene) -> Write:
    """A write in the zone that changes nothing for anybody."""

    async def write() -> None:
        name = new_id()
        await scene.company.resource(scene.zone, f"https://{name}.test")

    return write


async def test_exchange_is_answered(
    scene: Scene, agent: App, api: Resource, ann: Person, unrelated: Write
) -> None:
    """There is something newer at each look; the zone as it stood at one of them has to do."""
    subject = await scene.company.token(scene.zone, agent, ann)
    services = busy(scene, unrelated)
    assert {
        claims_of((await scene.exchange(agent, subject, api, "read", services=services))["access_token"])[
            "aud"
        ]
        for _ in range(3)
    } == {api.identifier}
    assert services.state.writes > 3
    await services.epochs.close()


async def test_introspection_is_answered(
    scene: Scene, agent: App, api: Resource, ann: Person, unrelated: Write
) -> None:
    """It takes the same way."""
    provider = await scene.company.app(scene.zone, f"api-{new_id()}")
    await scene.company.update(RESOURCE, scene.zone.id, api.id, application_id=provider.id)
    subject = await scene.company.token(scene.zone, agent, ann)
    token = (await scene.exchange(agent, subject, api, "read"))["access_token"]
    services = busy(scene, unrelated)
    form = parse_form(
        f"token={token}&client_id={provider.client_id}&client_secret={provider.secret}".encode()
    )
    told = await introspection.respond(
        services, scene.zone.id, form, authorization=None, address="192.0.2.1", request_id="test-request"
    )
    assert b'"active":true' in told
    await services.epochs.close()


@pytest.mark.threat("35a")
async def test_what_was_ended_before_is_refused(
    scene: Scene, agent: App, api: Resource, unrelated: Write
) -> None:
    """A session that ended before the request came, whatever is written meanwhile; and each write counts."""
    person = await scene.company.person(scene.zone, f"{new_id()}@acme.test")
    subject = await scene.company.token(scene.zone, agent, person)
    services = busy(scene, unrelated)
    assert await scene.exchange(agent, subject, api, "read", services=services)

    await session_revocation.end(scene.services, scene.zone, session_id=person.session_id)
    with pytest.raises(InvalidGrant):
        await scene.exchange(agent, subject, api, "read", services=services)
    await services.epochs.close()


async def test_what_is_never_allowed_at_one_instant_never_is(own_scene: Scene) -> None:
    """An application may reach the resource, or the resource has the scope: never both at the same time."""
    scene, company = own_scene, own_scene.company
    api = await company.resource(scene.zone, "https://api.test", scopes=["read"])
    agent = await company.app(scene.zone, "agent", dependencies=[api])
    subject = await company.token(scene.zone, agent, await company.person(scene.zone, "ann@acme.test"))
    assert await scene.exchange(agent, subject, api, "read")
    turn = 0

    async def alternate() -> None:
        nonlocal turn
        turn += 1
        async with unit_of_work(scene.services, company.caller, new_id()) as unit:
            scopes = ["read"] if turn % 2 else ["write"]
            await UPDATES[RESOURCE.name](
                unit, RESOURCE, {"zone_id": scene.zone.id}, api.id, {"scopes": scopes}
            )
            await applications.set_dependencies(unit, agent.application, [] if turn % 2 else [api.id])

    for beginning in (0, 1):
        turn = beginning
        await alternate()
        for _ in range(4):
            services = busy(scene, alternate)
            with pytest.raises((InvalidScope, InvalidTarget)):
                await scene.exchange(agent, subject, api, "read", services=services)
            await services.epochs.close()
            await alternate()


async def test_a_proof_works_once_however_often_a_request_is_worked_on(
    scene: Scene, agent: App, api: Resource, ann: Person, unrelated: Write
) -> None:
    """It is not taken for a second use by the request that it came with, and is by the next."""
    subject = await scene.company.token(scene.zone, agent, ann)
    services = busy(scene, unrelated)
    proof = Holder().proof(str(scene.zone.protocols.oauth2.token_endpoint))
    answer = await scene.exchange(agent, subject, api, "read", services=services, proof=proof)
    assert answer["token_type"] == "DPoP"
    with pytest.raises(InvalidDpopProof):
        await scene.exchange(agent, subject, api, "read", services=services, proof=proof)
    await services.epochs.close()

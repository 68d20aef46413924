"""Revocation is in force at the very next exchange, in this process and in every other."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.support.factories import App, Person, opened_parts
from tests.support.scene import Scene
from tests.support.waiting import let_elapse, repeat

from runtime.domain.errors import AccessDenied, InvalidClient, InvalidGrant, InvalidTarget, OAuthError
from runtime.domain.kinds import (
    APPLICATION,
    APPLICATION_CREDENTIAL,
    DELEGATED_GRANT,
    RESOURCE,
    SESSION,
    USER,
)
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.container import Services
from runtime.services.epochs import Epochs
from runtime.services.zone_settings import set_zone_setting
from runtime.services.zones.clients import SUSPENDED

FORBID_ALL = '@id("nobody") forbid (principal, action, resource);'


class Chain:
    """An agent, the tool server it calls, and the API behind that; with a token at every hop."""

    def __init__(self, scene: Scene, person: Person, apps: list[App], resources: list[Resource]) -> None:
        self.scene, self.person, self.apps, self.resources = scene, person, apps, resources
        self.tokens: list[str] = []
        self.grant_id = ""

    async def agree(self) -> None:
        """The user's delegated grant for the API behind the tool server."""
        scene, user = self.scene, self.person.user
        self.grant_id = await scene.company.grant(scene.zone, user, self.resources[1])

    async def walk(self, services: Services | None = None) -> None:
        agent, tool_server = self.apps
        tools, api = self.resources
        subject = await self.scene.company.token(self.scene.zone, agent, self.person)
        first = (await self.scene.exchange(agent, subject, tools, services=services))["access_token"]
        await self.scene.exchange(tool_server, first, api, services=services)
        self.tokens = [subject, first]

    async def first(self, services: Services | None = None) -> dict[str, Any]:
        return await self.scene.exchange(self.apps[0], self.tokens[0], self.resources[0], services=services)

    async def second(self, services: Services | None = None) -> dict[str, Any]:
        return await self.scene.exchange(self.apps[1], self.tokens[1], self.resources[1], services=services)


@pytest.fixture
async def chain(own_scene: Scene) -> Chain:
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    tool_server = await company.app(zone, "tool-server", dependencies=[api])
    tools = await company.resource(zone, "https://tools.test", application_id=tool_server.id)
    agent = await company.app(zone, "agent", dependencies=[tools])
    made = Chain(own_scene, await company.person(zone, "ann@acme.test"), [agent, tool_server], [tools, api])
    await made.agree()
    await made.walk()
    return made


async def end_session(chain: Chain) -> None:
    services = chain.scene.services
    await session_revocation.end(services, chain.scene.zone, session_id=chain.person.session_id)


async def revoke_session(chain: Chain) -> None:
    await chain.scene.company.update(SESSION, chain.scene.zone.id, chain.person.session_id, status="revoked")


async def delete_session(chain: Chain) -> None:
    await chain.scene.company.delete(SESSION, chain.scene.zone.id, chain.person.session_id)


async def revoke_grant(chain: Chain) -> None:
    await chain.scene.company.update(DELEGATED_GRANT, chain.scene.zone.id, chain.grant_id, status="revoked")


async def disable_user(chain: Chain) -> None:
    await chain.scene.company.update(USER, chain.scene.zone.id, chain.person.user.id, status="disabled")


async def delete_user(chain: Chain) -> None:
    await chain.scene.company.delete(USER, chain.scene.zone.id, chain.person.user.id)


async def delete_first_application(chain: Chain) -> None:
    await chain.scene.company.delete(APPLICATION, chain.scene.zone.id, chain.apps[0].id)


async def delete_credential(chain: Chain) -> None:
    await chain.scene.company.delete(APPLICATION_CREDENTIAL, chain.scene.zone.id, chain.apps[1].credential_id)


async def _let_somebody_be_accountable(chain: Chain, app: App) -> str:
    """The id of a new user who is accountable for an application, in a zone that requires it."""
    scene = chain.scene
    user = await scene.company.user(scene.zone, "olga@acme.test")
    await scene.company.update(APPLICATION, scene.zone.id, app.id, accountable_user_id=user.id)
    await set_zone_setting(scene.services, scene.zone.id, "require-active-accountable", "on")
    return user.id


async def disable_accountable_user_of_first(chain: Chain) -> None:
    user_id = await _let_somebody_be_accountable(chain, chain.apps[0])
    await chain.scene.company.update(USER, chain.scene.zone.id, user_id, status="disabled")


async def delete_accountable_user_of_second(chain: Chain) -> None:
    user_id = await _let_somebody_be_accountable(chain, chain.apps[1])
    await chain.scene.company.delete(USER, chain.scene.zone.id, user_id)


async def delete_resource(chain: Chain) -> None:
    await chain.scene.company.delete(RESOURCE, chain.scene.zone.id, chain.resources[1].id)


async def forbid(chain: Chain) -> None:
    await chain.scene.company.policies(chain.scene.zone, FORBID_ALL)


REVOCATIONS = [
    (end_session, InvalidGrant),
    (revoke_session, InvalidGrant),
    (delete_session, InvalidGrant),
    (revoke_grant, AccessDenied),
    (disable_user, InvalidGrant),
    (delete_user, InvalidGrant),
    (delete_first_application, InvalidGrant),
    (delete_credential, InvalidClient),
    (disable_accountable_user_of_first, InvalidGrant),
    (delete_accountable_user_of_second, InvalidClient),
    (delete_resource, InvalidTarget),
    (forbid, AccessDenied),
]


@pytest.mark.threat("18a", "18b", "18c", "18d", "18e", "18g", "18r")
@pytest.mark.parametrize(("revoke", "expected"), REVOCATIONS, ids=lambda value: value.__name__)
@pytest.mark.deviation("cache-eviction")
async def test_next_exchange_is_refused(
    chain: Chain, revoke: Callable[[Chain], Awaitable[None]], expected: type[OAuthError]
) -> None:
    """A cached token of the chain's second hop is not given out again after what it rests on is gone."""
    assert await chain.second()

    await revoke(chain)

    with pytest.raises(expected):
        await chain.second()


async def delete_first_credential(chain: Chain) -> None:
    first = chain.apps[0].credential_id
    await chain.scene.company.delete(APPLICATION_CREDENTIAL, chain.scene.zone.id, first)


@pytest.mark.parametrize(
    ("revoke", "reason"),
    [
        (delete_first_credential, "the client id that it was issued to was revoked"),
        (disable_accountable_user_of_first, SUSPENDED),
    ],
    ids=["credential", "suspended"],
)
async def test_the_reason_is_no_application_that_is_still_there(
    chain: Chain, revoke: Callable[[Chain], Awaitable[None]], reason: str
) -> None:
    """Who only lost a credential, or somebody accountable, was not deleted; the sender is told neither."""
    assert await chain.second()

    await revoke(chain)

    with pytest.raises(InvalidGrant) as refusal:
        await chain.second()
    assert reason in refusal.value.internal
    assert "no longer exists" not in refusal.value.internal
    assert reason not in refusal.value.detail


@pytest.fixture
async def other_worker(storage_settings: dict[str, Any]) -> AsyncIterator[Services]:
    """Another process over the same storage: its memory is its own."""
    if storage_settings["redis_url"] is None:
        pytest.skip("several workers share Redis")
    async with opened_parts(**storage_settings) as opened:
        yield opened


@pytest.mark.threat("18a", "18b", "18c", "18d", "18e", "18g", "18i", "18r")
@pytest.mark.parametrize(("revoke", "expected"), REVOCATIONS, ids=lambda value: value.__name__)
async def test_other_workers_hear_of_it(
    chain: Chain,
    other_worker: Services,
    revoke: Callable[[Chain], Awaitable[None]],
    expected: type[OAuthError],
) -> None:
    """A worker with everything in its memory learns of it in the one trip of its next exchange."""
    first = (await chain.second(other_worker))["access_token"]
    assert (await chain.second(other_worker))["access_token"] == first

    await revoke(chain)

    with pytest.raises(expected):
        await chain.second(other_worker)


@pytest.mark.threat("18a", "18b", "18c", "18d", "18e", "18h", "18r")
@pytest.mark.parametrize(("revoke", "expected"), REVOCATIONS, ids=lambda value: value.__name__)
async def test_still_refused_after_a_restart(
    chain: Chain,
    storage_settings: dict[str, Any],
    revoke: Callable[[Chain], Awaitable[None]],
    expected: type[OAuthError],
) -> None:
    """A process that knows nothing yet finds the tokens as it would have before, and then refuses them."""
    async with opened_parts(**storage_settings) as restarted:
        assert await chain.second(restarted)

    await revoke(chain)

    async with opened_parts(**storage_settings) as restarted:
        with pytest.raises(expected):
            await chain.second(restarted)


@pytest.mark.threat("18o")
@pytest.mark.parametrize(("revoke", "expected"), REVOCATIONS[:10], ids=lambda value: value.__name__)
async def test_still_refused_without_short_lived_state(
    chain: Chain, revoke: Callable[[Chain], Awaitable[None]], expected: type[OAuthError]
) -> None:
    """The database is the only truth: with every published epoch lost, the answer is the same."""
    await revoke(chain)
    for key in (
        epochs.zone_key(chain.scene.zone.id),
        epochs.user_key(chain.person.user.id),
        epochs.session_key(chain.person.session_id),
    ):
        await chain.scene.services.state.delete(key)

    with pytest.raises(expected):
        await chain.second()


class Died(BaseException):
    """The process ended here: nothing that would come next happens."""


@pytest.mark.threat("18g", "35h")
@pytest.mark.parametrize(
    ("revoke", "expected"),
    [
        each
        for each in REVOCATIONS
        if each[0] in (end_session, revoke_session, revoke_grant, delete_credential)
    ],
    ids=lambda value: value.__name__,
)
async def test_a_process_that_dies_after_the_commit(
    chain: Chain,
    other_worker: Services,
    monkeypatch: pytest.MonkeyPatch,
    revoke: Callable[[Chain], Awaitable[None]],
    expected: type[OAuthError],
) -> None:
    """It publishes nothing, and yet a worker that knows everything from before refuses within a second."""

    async def die(*_arguments: Any, **_named: Any) -> None:
        raise Died

    first = (await chain.second(other_worker))["access_token"]
    assert (await chain.second(other_worker))["access_token"] == first

    monkeypatch.setattr(Epochs, "publish", die)
    with pytest.raises(Died):
        await revoke(chain)

    with pytest.raises(expected):
        await repeat(lambda: chain.second(other_worker), seconds=epochs.RECENT_SECONDS)
    with pytest.raises(expected):
        await chain.second(other_worker)


async def test_a_revocation_that_is_rolled_back(chain: Chain, other_worker: Services) -> None:
    """What was noted in a transaction that does not stand is nothing that anybody hears of."""
    first = (await chain.second(other_worker))["access_token"]
    services, session_id = chain.scene.services, chain.person.session_id

    async def revoke_and_die() -> None:
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await session_revocation.revoke(conn, services, chain.scene.zone.id, session_id))
            await services.epochs.record_changes(conn, bumped)
            raise Died

    with pytest.raises(Died):
        await revoke_and_die()
    await let_elapse(epochs.RECENT_SECONDS)
    assert {
        (await chain.second(worker))["access_token"] for worker in (services, other_worker, other_worker)
    } == {first}
    await end_session(chain)
    with pytest.raises(InvalidGrant):
        await chain.second(other_worker)


async def test_policy_change_opens_again(chain: Chain) -> None:
    """A policy that allows again is seen at once too."""
    await forbid(chain)
    with pytest.raises(AccessDenied) as refusal:
        await chain.second()
    assert refusal.value.members == {"reason": "policy_denied"}

    await chain.scene.company.policies(chain.scene.zone, '@id("all") permit (principal, action, resource);')

    assert await chain.second()

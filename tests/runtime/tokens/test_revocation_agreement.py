"""The zone and its published revocation list say the same of every token, now and some seconds later.

A server that asks the zone (introspection) and one that verifies by itself (the library, over the signed
list) never differ: not about what is revoked, nor about what is issued anew in the same second.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random

import pytest
from tests.support.revocation_world import AGENT, CAUSES, TOOLS, Issued, World, opened_world
from tests.support.scene import Scene

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION_CREDENTIAL, DELEGATED_GRANT
from runtime.services.management.kind_handlers import DELETES, UPDATES
from runtime.services.management.unit_of_work import UnitOfWork, unit_of_work

pytestmark = pytest.mark.long

_STEPS = 8


@pytest.fixture
async def world(own_scene: Scene) -> AsyncIterator[World]:
    """A zone in which every token that there can be has been issued."""
    with opened_world(own_scene) as made:
        await made.begin()
        await made.issue()
        yield made


@pytest.mark.threat("18j")
@pytest.mark.parametrize("cause", CAUSES)
async def test_zone_and_list_agree_about_what_is_revoked_and_allowed_again(world: World, cause: str) -> None:
    """Each token that there was, and each that is issued at once, in every way: these are good for both."""
    assert await world.differences() == []
    assert [each.way for each in world.tokens if not await world.is_active(each)] == []

    await CAUSES[cause](world)
    assert await world.differences() == []
    fresh = await world.issue()

    for seconds in (0, 1, 10):
        world.clock.jump(seconds)
        assert await world.differences() == []
        assert [each.way for each in fresh if not await world.is_active(each)] == []


async def delete_secret(world: World, unit: UnitOfWork) -> None:
    """The agent's first secret goes; the second has the same client id."""
    gone = world.former.credential_id
    await DELETES[APPLICATION_CREDENTIAL.name](
        unit, APPLICATION_CREDENTIAL, {"zone_id": world.scene.zone.id}, gone
    )


async def revoke_grant(world: World, unit: UnitOfWork) -> None:
    """The user's grant for the tools ends; the agent needs one."""
    update = UPDATES[DELEGATED_GRANT.name]
    of_zone = {"zone_id": world.scene.zone.id}
    await update(unit, DELEGATED_GRANT, of_zone, world.grants[TOOLS], {"status": "revoked"})


@pytest.mark.threat("18j")
@pytest.mark.parametrize("revoke", [delete_secret, revoke_grant])
async def test_what_is_issued_while_a_long_transaction_revokes_is_revoked(
    world: World, revoke: Callable[[World, UnitOfWork], Awaitable[None]]
) -> None:
    """Nobody knows before the commit: it counts from then on, for the zone and for who reads the list on."""
    await world.add_secret(AGENT)
    root = await world.refreshed(())
    services, company = world.scene.services, world.company

    async with unit_of_work(services, company.caller, new_id()) as unit:
        await revoke(world, unit)
        world.clock.jump(40)
        exchanging = world.scene.exchange(world.apps[AGENT], root, TOOLS, "call")
        text = (await asyncio.create_task(exchanging))["access_token"]
        issued = Issued("meanwhile", text)
        world.tokens.append(issued)
        assert await asyncio.create_task(world.is_active(issued))
        assert not await asyncio.create_task(world.is_listed(issued))  # the list is read up to here

    for seconds in (0, 1, 10):
        world.clock.jump(seconds)
        assert not await world.is_active(issued)
        assert await world.differences() == []
    await world.allow()
    assert (await world.differences(), await world.is_active(issued)) == ([], False)


@pytest.mark.threat("18j")
async def test_zone_and_list_agree_after_whatever_happens(own_scene: Scene) -> None:
    """Random causes one after the other, with little time between, and tokens issued between them."""
    chance = Random()
    seed = chance.randrange(2**32)
    chance.seed(seed)
    with opened_world(own_scene) as world:
        await world.begin()
        history: list[object] = [seed]
        for _ in range(_STEPS):
            cause = chance.choice(sorted(CAUSES))
            history += [cause, seconds := chance.choice([0, 0, 1, 3, 6, 10])]
            fresh = await world.issue() if chance.random() < 0.7 else []
            assert [each.way for each in fresh if not await world.is_active(each)] == [], history
            await CAUSES[cause](world)
            world.clock.jump(seconds)
            assert await world.differences() == [], history
        world.clock.jump(10)
        assert await world.differences() == [], history

"""The zone and its published revocation list say the same of every token, now and some seconds later.

A server that asks the zone (introspection) and one that verifies by itself (the library, over the signed
list) never differ: not about what is revoked, nor about what is issued anew in the same second.
"""

from collections.abc import AsyncIterator

import pytest
from tests.support.revocation_world import CAUSES, World, opened_world
from tests.support.scene import Scene


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

"""Reading a zone: which waits for no work that has nothing to do with it."""

import asyncio
import threading

from tests.support.scene import Scene

_MOST_THREADS = 32  # that an event loop has for whatever is given to it


async def test_a_zone_is_read_while_others_hold_every_thread(own_scene: Scene) -> None:
    """Its keys are opened while it has a connection to the database, which others wait for."""
    zones, zone_id = own_scene.services.zones, own_scene.zone.id
    known = (await zones.get(zone_id)).jwks
    go_on, loop = threading.Event(), asyncio.get_running_loop()
    held = [loop.run_in_executor(None, go_on.wait, 60) for _ in range(_MOST_THREADS)]
    try:
        zones.forget(zone_id)
        async with asyncio.timeout(30):
            read = await zones.get(zone_id)
        assert not any(each.done() for each in held)
    finally:
        go_on.set()
        await asyncio.gather(*held)

    assert read.jwks == known

"""The vault with several workers: what one of them ends, no other hands out; and what an exchange costs."""

from typing import Any

import pytest
from sqlalchemy import event
from tests.runtime.vault.conftest import KEY, OTHER_KEY, Desk
from tests.support.rewired import with_new_zones

from runtime.domain.errors import AccessDenied
from runtime.services.container import Services


def another_worker(desk: Desk) -> Services:
    """The same services with nothing cached, as a second process has them."""
    return with_new_zones(desk.scene.services)


async def test_a_revoked_key_is_handed_out_by_no_other_worker(desk: Desk) -> None:
    """The very next exchange is refused there, although that worker has handed it out before."""
    other = another_worker(desk)
    token = await desk.scene.company.token(desk.scene.zone, desk.agent, desk.ann)
    await desk.store()
    assert {
        (await desk.scene.exchange(desk.agent, token, desk.resource, services=other))["access_token"]
        for _ in range(2)
    } == {KEY}
    (grant,) = await desk.rows("delegated_grants")

    await desk.revoke(grant["id"])

    with pytest.raises(AccessDenied):
        await desk.scene.exchange(desk.agent, token, desk.resource, services=other)


async def test_a_new_key_is_handed_out_by_every_worker(desk: Desk) -> None:
    """Nothing remembers the one before."""
    other = another_worker(desk)
    token = await desk.scene.company.token(desk.scene.zone, desk.agent, desk.ann)
    await desk.store()
    await desk.scene.exchange(desk.agent, token, desk.resource, services=other)

    await desk.store(OTHER_KEY)

    answer = await desk.scene.exchange(desk.agent, token, desk.resource, services=other)
    assert answer["access_token"] == OTHER_KEY


async def test_a_warm_exchange_of_a_key_takes_no_statement(desk: Desk) -> None:
    """The key is in the cache, and nothing is asked of the database but what epochs have moved."""
    await desk.store()
    token = await desk.scene.company.token(desk.scene.zone, desk.agent, desk.ann)
    for _ in range(2):
        await desk.scene.exchange(desk.agent, token, desk.resource)
    await desk.scene.services.decisions.flush()
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE")) and "epoch_changes" not in statement:
            statements.append(statement)

    engine = desk.scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        await desk.scene.exchange(desk.agent, token, desk.resource)
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert statements == []

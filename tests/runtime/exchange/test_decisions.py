"""Every decision is recorded, and what cannot be recorded is not issued."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select
from tests.support.factories import App, Person
from tests.support.scene import Scene

from runtime.domain.errors import InvalidClient, InvalidGrant, InvalidTarget, TemporarilyUnavailable
from runtime.domain.kinds.resource import Resource
from runtime.services.decisions import Decision, Decisions
from runtime.services.parts import Parts
from runtime.storage.sql.tables import token_events


@pytest.fixture(scope="module")
async def api(scene: Scene) -> Resource:
    return await scene.company.resource(scene.zone, "https://api.test")


async def test_issued_and_refused_are_recorded(
    own_scene: Scene,
) -> None:
    """One row a request: what came of it, at which step, for whom and for what."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test")
    agent = await company.app(zone, "agent", dependencies=[api])
    ann = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, agent, ann)
    await own_scene.exchange(agent, subject, api)
    with pytest.raises(InvalidTarget):
        await own_scene.exchange(agent, subject, "https://unknown.test")
    with pytest.raises(InvalidGrant):
        await own_scene.exchange(agent, subject[:-4] + "AAAA", api)
    wrong = App(agent.application, agent.client_id, "wrong", agent.credential_id)
    with pytest.raises(InvalidClient):
        await own_scene.exchange(wrong, subject, api)

    await own_scene.parts.decisions.flush()

    async with own_scene.parts.database.reading() as conn:
        found = await conn.execute(
            select(token_events).where(token_events.c.zone_id == zone.id).order_by(token_events.c.at)
        )
        rows = found.all()
    assert [(row.outcome, row.step) for row in rows] == [
        ("issued", None),
        ("refused", 7),
        ("refused", 4),
        ("refused", 3),
    ]
    issued = rows[0]
    assert issued.event == "token_exchange"
    assert issued.user_id == ann.user.id
    assert issued.application_id == agent.id
    assert issued.resource_id == api.id
    assert issued.actors == ["agent"]
    assert issued.request_id == "test-request"
    assert issued.determining
    assert abs((issued.at - datetime.now(UTC)).total_seconds()) < 60
    assert subject not in str(rows)


async def test_full_queue_answers_503_and_loses_nothing(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """When the record cannot keep up no token is given out; everything queued is still written."""
    decisions = Decisions(max_queued=3)
    decisions.attach(scene.parts)
    parts = Parts(**{**scene.parts.__dict__, "decisions": decisions})
    subject = await scene.company.token(scene.zone, agent, ann)
    before = await _count(scene)
    for _ in range(3):
        assert await scene.exchange(agent, subject, api, parts=parts)

    with pytest.raises(TemporarilyUnavailable):
        await scene.exchange(agent, subject, api, parts=parts)

    await decisions.stop()
    assert await _count(scene) == before + 3
    assert await scene.exchange(agent, subject, api, parts=parts)
    await decisions.flush()


async def test_large_batches_are_written(scene: Scene) -> None:
    """More decisions than a batch holds, with every kind of value in them."""
    decisions = Decisions()
    decisions.attach(scene.parts)
    await decisions.start()
    before = await _count(scene)
    for number in range(5_000):
        decision = Decision(
            scene.zone.organization_id, scene.zone.id, scene.parts.clock(), "r'; --\n\"", reason=None
        )
        decision.actors = ('a"b', "ü") if number % 2 else ()
        decisions.record(decision)

    await decisions.stop()

    assert await _count(scene) == before + 5_000


async def _count(scene: Scene) -> int:
    await scene.parts.decisions.flush()
    async with scene.parts.database.reading() as conn:
        return await conn.scalar(select(func.count()).select_from(token_events)) or 0

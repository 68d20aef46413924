"""Readiness, as a balancer asks for it: what all nodes share and can do without takes none out of service."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from tests.runtime.nodes.conftest import Nodes
from tests.support.redis import RedisServer
from tests.support.server import Server

from runtime.domain.errors import Unavailable
from runtime.services import readiness
from runtime.services.readiness import Readiness, Report


def ready(node: Server) -> httpx.Response:
    return httpx.get(f"{node.url}/readyz", trust_env=False, timeout=10)


def cut(nodes: Nodes, _redis: RedisServer) -> None:
    for way in nodes.ways:
        way.cut()


def hold_up(nodes: Nodes, _redis: RedisServer) -> None:
    for way in nodes.ways:
        way.hold_up()


def fill(_nodes: Nodes, redis: RedisServer) -> None:
    redis.fill()


@pytest.mark.threat("35a")
@pytest.mark.parametrize("strike", [cut, hold_up, fill], ids=["away", "hung", "full"])
def test_without_redis_all_nodes_are_ready(
    nodes: Nodes, redis: RedisServer, strike: Callable[[Nodes, RedisServer], None]
) -> None:
    """They are degraded, and say what does not work. Once Redis is back, they are no more."""
    assert [ready(node).json() for node in nodes.both] == 2 * [
        {"status": "ok", "database": "ok", "state": "ok"}
    ]
    strike(nodes, redis)

    answers = [ready(node) for node in nodes.both for _ in range(2)]

    assert {each.status_code for each in answers} == {200}
    told = answers[0].json()
    assert (told["status"], told["database"]) == ("degraded", "ok")
    assert told["state"].startswith("the short-lived state ")
    assert "sign-in" in told["impaired"]
    redis.make_room()
    for way in nodes.ways:
        way.lead_to(redis.url)
    for node in nodes.both:
        nodes.wait(node)


async def never() -> None:
    raise Unavailable("away", internal="in the log alone")


async def fails() -> None:
    raise RuntimeError("a bug")


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("ask", "told"),
    [(never, "away"), (fails, "it cannot be checked"), (hangs, "it does not answer")],
    ids=lambda each: getattr(each, "__name__", None),
)
async def test_whatever_a_check_meets_is_an_answer(ask: Callable[[], Awaitable[None]], told: str) -> None:
    """A refusal, a bug, or nothing within its time: readiness never fails itself."""
    failure = await readiness._failure("it", ask(), within=0.05)

    assert failure is not None
    assert failure.detail == told


async def test_a_check_that_is_well_is_no_failure() -> None:
    """Whatever it takes of its time."""

    async def well() -> None:
        return

    assert await readiness._failure("it", well(), within=5) is None


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (Report("ok", "ok"), Readiness.OK),
        (Report("ok", "away"), Readiness.DEGRADED),
        (Report("away", "ok"), Readiness.UNAVAILABLE),
        (Report("away", "away"), Readiness.UNAVAILABLE),
    ],
)
def test_readiness_of_both_parts(report: Report, expected: Readiness) -> None:
    """The database is needed for everything, the short-lived state for a part."""
    assert report.readiness is expected
    assert bool(report.impaired) is (expected is Readiness.DEGRADED)

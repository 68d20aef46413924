"""However much one organization waits or reads, there are connections for everybody else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.runtime.management.conftest import Api
from tests.support.factories import operator
from tests.support.waiting import until

from runtime.services.container import Services
from runtime.services.management.unit_of_work import read_only, unit_of_work
from runtime.storage.sql import organization_revision

MANY = 40  # more than there are connections
Serve = Callable[[Services, str], Awaitable[int]]


@asynccontextmanager
async def locked(services: Services, organization_id: str) -> AsyncIterator[None]:
    """Nobody else writes in that organization, as during a large apply."""
    async with services.database.transaction() as conn:
        await organization_revision.advance(conn, organization_id, by=0)
        yield


async def write(services: Services, organization_id: str) -> int:
    async with unit_of_work(services, operator(organization_id), "r") as unit:
        return await unit.next_revision()


async def sign_in(services: Services, organization_id: str) -> int:
    """As the token service writes: a few rows of a tenant's, one of which somebody may have locked."""
    async with services.database.transaction(tenant=organization_id) as conn:
        return (await organization_revision.advance(conn, organization_id, by=0)).revision


async def redeem(services: Services, organization_id: str) -> int:
    async with services.database.writing_once(tenant=organization_id) as conn:
        return (await organization_revision.advance(conn, organization_id, by=0)).revision


async def read(services: Services, organization_id: str) -> int:
    async with read_only(services, operator(organization_id), "r") as unit:
        return await organization_revision.revision(unit.conn, organization_id)


async def query(services: Services, organization_id: str) -> int:
    async with services.database.querying() as conn:
        return await organization_revision.revision(conn, organization_id)


@pytest.mark.threat("41l")
@pytest.mark.parametrize("served", [write, sign_in, redeem, read, query])
def test_writers_that_wait_for_each_other_keep_no_other_tenant_waiting(
    api: Api, other: Api, served: Serve
) -> None:
    """Forty of each sort wait for one request of their organization; another organization's are answered."""

    async def try_it(services: Services) -> None:
        if services.database.dialect == "sqlite":
            return  # it has one writer at a time, whose turn is short
        async with locked(services, api.organization_id):
            waiting = [
                asyncio.create_task(sort(services, api.organization_id))
                for sort in (write, sign_in, redeem)
                for _ in range(MANY)
            ]

            async def all_have_come() -> bool:
                return services.database._waiting >= 3 * MANY - 10

            await until(all_have_come)
            async with asyncio.timeout(20):
                await served(services, other.organization_id)
            assert not any(task.done() for task in waiting)
        revisions = await asyncio.gather(*waiting)
        assert len(set(revisions[:MANY])) == MANY

    api.server.call(try_it)


@pytest.mark.threat("41l")
@pytest.mark.parametrize("served", [write, read, query])
def test_readers_that_take_long_keep_no_other_tenant_waiting(api: Api, other: Api, served: Serve) -> None:
    """Forty readers of an organization, none of which gives its connection back."""

    async def try_it(services: Services) -> None:
        over = asyncio.Event()

        async def read_on() -> None:
            async with read_only(services, operator(api.organization_id), "r"):
                await over.wait()

        reading = [asyncio.create_task(read_on()) for _ in range(MANY)]

        async def all_have_come() -> bool:
            return services.database._waiting >= MANY - 8

        await until(all_have_come)
        async with asyncio.timeout(20):
            await served(services, other.organization_id)
        assert not any(task.done() for task in reading)
        over.set()
        await asyncio.gather(*reading)

    api.server.call(try_it)

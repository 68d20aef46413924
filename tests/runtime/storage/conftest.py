"""A stored zone, in a transaction of each kind of database in turn."""

import pytest
from tests.support import entities as make


@pytest.fixture
async def conn(database):
    """A connection in a write transaction."""
    async with database.transaction() as opened:
        yield opened


@pytest.fixture
async def zone(conn):
    """A stored zone."""
    return await make.add_zone(conn)

"""Every operation of the contract over HTTP, on both kinds of storage."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, caller
from tests.support.server import serve
from tests.walk.walking import Walk

ROUTES = Path(__file__).parents[2] / "schemas" / "routes.txt"


@pytest.fixture(params=["sqlite", "postgresql"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """The administrator of a new server: SQLite alone, or PostgreSQL with Redis."""
    settings: dict[str, Any] = {}
    if request.param == "postgresql":
        settings["database_url"] = asyncio.run(request.getfixturevalue("postgres").migrated())
        settings["redis_url"] = request.getfixturevalue("redis_url")
    with serve(tmp_path, **settings) as server:
        yield caller(server, server.api_key, server.organization_id)


def test_every_operation_is_walked(api: Api) -> None:
    """Made, read, listed in every way, changed, cleared, deleted and not found again, all as documented."""
    walk = Walk(api)
    walk.go()
    assert walk.problems == [], "\n".join(walk.problems)

    promised = {line.split()[2] for line in ROUTES.read_text("utf-8").splitlines()}
    assert promised - walk.client.walked == set(), (
        "these operations are not walked: say in tests/walk/recipes.py what their bodies and paths need"
    )

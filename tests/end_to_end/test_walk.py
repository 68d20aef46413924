"""Every operation of the contract over HTTP, on both kinds of storage."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.management.conftest import Api, caller
from tests.support.server import serve
from tests.walk.greedy import IGNORED, OPS, GreedyClient, in_changesets
from tests.walk.walking import Walk

from runtime.contract.routes import ROUTES as OPERATIONS
from runtime.domain import kinds
from runtime.services.management.organizations import organizations

pytestmark = pytest.mark.long

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


# What somebody else may set elsewhere is the caller's to set here: each is a decision, and a new one is seen.
THEIRS = {
    "zones.create": {"organization_id"},  # their own; another's is no organization, see below
    "secrets.create": {"zone_id"},  # the path's
    "application_roles.assign": {"owner_type"},  # of the role that is named
    "user_roles.assign": {"owner_type"},
    "group_roles.add": {"owner_type"},
    "organization_users.update": {"status"},
    "users.update": {"status"},
    "sessions.update": {"status"},
    "delegated_grants.update": {"status"},
}


@pytest.mark.threat("27a", "27b", "27c", "27d", "27e", "27f", "27g", "27h", "27i", "27o")
def test_nobody_sets_more_than_is_theirs(tmp_path: Path) -> None:
    """Each body that the walk sends, and each specification in a changeset, with more than is the caller's.

    Refused by name at creation and by update of every kind, and with null as well; nothing has changed. The
    same body without it succeeds, for the walk goes on.
    """
    with serve(tmp_path) as server:
        api = caller(server, server.api_key, server.organization_id)
        walk = Walk(api, GreedyClient)
        walk.go()
        other = server.call(lambda services: organizations.create_organization(services, "Other company"))[
            0
        ].id
        api.ok("POST", "/zones", {"name": "z", "organization_id": api.organization_id})
        api.refused(400, "POST", "/zones", {"name": "z", "organization_id": other})
        zone = api.zone()
        owner = zone.make("applications")["id"]
        secret = {"name": "s", "entity_id": owner, "data": {"type": "token", "token": "t"}}
        api.refused(400, "POST", zone.path("/secrets"), {**secret, "zone_id": api.zone().id})
        assert api.ok("POST", zone.path("/secrets"), {**secret, "zone_id": zone.id})

    client = walk.client
    assert isinstance(client, GreedyClient)
    assert walk.problems == [], "\n".join(walk.problems)
    assert {name: wishes for name, wishes in client.granted.items() if wishes} == THEIRS
    takes = {route.operation_id for route in OPERATIONS if route.body and not route.form}
    assert takes - client.tried.keys() == IGNORED | {"policy_bundle.update"}
    assert client.specs == {
        (op, kind.name)
        for kind in kinds.ALL
        if kind.manifest
        for verb in OPS.keys() & kind.verbs
        if in_changesets(kind, verb)
        for op in OPS[verb]
    }

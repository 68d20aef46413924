"""Evictions by keys and by what an application may have, of both caches of an exchange.

Each cause of the specification is a row of the table in docs/tokens.md, with the test of each cell.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.runtime.vault.conftest import SCOPES, Account, agree
from tests.support.factories import App, Person
from tests.support.scene import Scene

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds import RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.services.management.zones import key_rotation
from runtime.storage.sql import connected_applications
from runtime.storage.sql.client_refs import ClientRef

ROOT = Path(__file__).parents[3]


@dataclass
class Cached:
    """An application that asks for consent, and what an exchange for it has put into a cache."""

    scene: Scene
    ann: Person
    app: App
    resource: Resource

    async def exchange(self) -> dict[str, Any]:
        """The answer to an exchange, with a new subject token."""
        token = await self.scene.company.token(self.scene.zone, self.app, self.ann)
        return await self.scene.exchange(self.app, token, self.resource)

    async def withdraw(self) -> None:
        """Ann takes back what the application may have."""
        services, zone_id, user_id = self.scene.services, self.scene.zone.id, self.ann.user.id
        ref = ClientRef(application_id=self.app.id)
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone_id, user_id))
            await connected_applications.take_back(conn, zone_id=zone_id, user_id=user_id, client_ref=ref)


@pytest.fixture(params=["minted", "vault"])
async def cached(request: pytest.FixtureRequest, account: Account) -> Cached:
    """A token of the zone, or a credential of the vault, that a second exchange is answered from."""
    scene, company = account.scene, account.scene.company
    if request.param == "vault":
        await account.connect()
        await account.agree(ClientRef(application_id=account.shy.id))
        made = Cached(scene, account.ann, account.shy, account.resource)
    else:
        resource = await company.resource(scene.zone, "https://minted.test", scopes=SCOPES)
        app = await company.app(scene.zone, "minting", dependencies=[resource], consent="required")
        await agree(scene, account.ann, resource, ClientRef(application_id=app.id), SCOPES)
        made = Cached(scene, account.ann, app, resource)
    assert (await made.exchange())["scope"] == "read write"
    return made


async def test_consent_that_is_withdrawn_voids_the_entry(cached: Cached) -> None:
    """The scopes of the application, at this resource, are none."""
    await cached.exchange()

    await cached.withdraw()

    with pytest.raises(AccessDenied):
        await cached.exchange()


@pytest.mark.parametrize("cached", ["minted"], indirect=True)
async def test_fewer_scopes_void_a_token(cached: Cached) -> None:
    """Of the resource, and so of the application there: the next token has what is left."""
    await cached.scene.company.update(RESOURCE, cached.scene.zone.id, cached.resource.id, scopes=["read"])

    assert (await cached.exchange())["scope"] == "read"


@pytest.mark.parametrize("cached", ["minted"], indirect=True)
async def test_a_rotated_key_voids_a_token(cached: Cached) -> None:
    """After a rotation at once the answer is a token that the new key has signed."""
    token = (await cached.exchange())["access_token"]

    kid = await key_rotation.rotate(cached.scene.services, cached.scene.zone.id, at_once=True)

    again = (await cached.exchange())["access_token"]
    assert jwt.get_unverified_header(token)["kid"] != kid
    assert jwt.get_unverified_header(again)["kid"] == kid


def test_each_cell_of_the_table_names_a_test() -> None:
    """Four causes, two caches; each test is there."""
    page = (ROOT / "docs" / "tokens.md").read_text("utf-8")
    table = page.partition("<!-- evictions -->")[2].partition("<!-- /evictions -->")[0]
    cells = re.findall(r"\[(\w+)\]\(\.\./([^)]+)\)", table)
    there = [f"def {name}(" in (ROOT / path).read_text("utf-8") for name, path in cells]
    assert len(there) == 8
    assert all(there)

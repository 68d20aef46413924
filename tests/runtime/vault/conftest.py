"""A zone with a resource of its vault, two applications that depend on it, and somebody who is signed in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select
from tests.runtime.grants.conftest import company, own_scene, servers, services, storage_settings
from tests.support.factories import App, Person
from tests.support.scene import Scene

from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.services.vault import static_credentials
from runtime.storage.sql import consents, entities
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.tables import METADATA

__all__ = ["company", "own_scene", "servers", "services", "storage_settings"]

KEY = "sk-first-5Zr"
OTHER_KEY = "sk-second-9Qp"
SCOPES = ("read", "write")


@dataclass(frozen=True)
class Desk:
    """Everything around one resource of the vault.

    Attributes:
        agent: asks nobody for consent.
        shy, coy: applications that ask for consent.
    """

    scene: Scene
    vault: Provider
    resource: Resource
    agent: App
    shy: App
    coy: App
    ann: Person

    async def store(self, credential: str = KEY, person: Person | None = None) -> None:
        """Ann, or somebody else, stores a key for the resource."""
        zone = await self.scene.services.zones.get(self.scene.zone.id)
        user_id = (person or self.ann).user.id
        await static_credentials.store(
            self.scene.services, zone, user_id, self.resource.id, SecretStr(credential)
        )

    async def agree(self, client_ref: ClientRef, scopes: Sequence[str] = SCOPES) -> None:
        """Ann lets a client use the resource."""
        services, zone, user = self.scene.services, self.scene.zone, self.ann.user
        given = [ConsentRecord(self.resource.id, frozenset(scopes), "app.example")]
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, user.id))
            now = services.clock()
            await consents.record(
                conn, given, zone_id=zone.id, user_id=user.id, client_ref=client_ref, now=now
            )

    async def exchange(
        self, app: App | None = None, scope: str | None = None, person: Person | None = None
    ) -> dict[str, Any]:
        """What an application's exchange for the resource is answered with."""
        app = app or self.agent
        token = await self.scene.company.token(self.scene.zone, app, person or self.ann)
        return await self.scene.exchange(app, token, self.resource, scope)

    async def revoke(self, grant_id: str) -> None:
        """End a delegated grant by the API."""
        await self.scene.company.update(DELEGATED_GRANT, self.scene.zone.id, grant_id, status="revoked")

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """What the zone has in a table."""
        rows = METADATA.tables[table]
        async with self.scene.services.database.reading() as conn:
            found = await conn.execute(select(rows).where(rows.c.zone_id == self.scene.zone.id))
            return [dict(row) for row in found.mappings()]


@pytest.fixture
async def desk(own_scene: Scene) -> Desk:
    """A zone of this test alone."""
    company, zone = own_scene.company, own_scene.zone
    async with own_scene.services.database.reading() as conn:
        vault = await entities.find_by(conn, PROVIDER, "type", "service-vault", within={"zone_id": zone.id})
    assert isinstance(vault, Provider)
    resource = await company.resource(
        zone, "https://tickets.test", scopes=list(SCOPES), credential_provider_id=vault.id
    )
    apps = [
        await company.app(zone, name, dependencies=[resource], consent=consent)
        for name, consent in (("agent", "implicit"), ("shy", "required"), ("coy", "required"))
    ]
    return Desk(own_scene, vault, resource, *apps, await company.person(zone, "ann@acme.test"))

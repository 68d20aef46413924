"""A zone with a resource of its vault, applications that depend on it, and somebody who is signed in.

Beside them a resource of an outside provider, where the same person connects an account.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import event, select
from tests.runtime.grants.conftest import company, own_scene, servers, services, storage_settings
from tests.support.factories import App, Person
from tests.support.oauth_site import CALLBACK
from tests.support.scene import Scene

from runtime.adapters.upstream_oauth.token_response import UpstreamTokens
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import limit_upstream
from runtime.services import epochs
from runtime.services.vault import static_credentials, upstream_tokens
from runtime.storage.sql import consents, entities
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord
from runtime.storage.sql.tables import METADATA

__all__ = ["company", "own_scene", "servers", "services", "storage_settings"]

KEY = "sk-first-5Zr"
OTHER_KEY = "sk-second-9Qp"
SCOPES = ("read", "write")
TOKENS = UpstreamTokens(
    access_token="at-first-7Kd",
    expires_in_seconds=1800,
    refresh_token="rt-first-2Wx",
    is_refresh_token_new=True,
    refresh_token_expires_in_seconds=None,
    scopes=frozenset(SCOPES),
    has_named_scopes=True,
)


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
            self.scene.services,
            zone,
            user_id,
            self.resource.id,
            SecretStr(credential),
            shown=self.resource.identifier,
        )

    async def agree(self, client_ref: ClientRef, scopes: Sequence[str] = SCOPES) -> None:
        """Ann lets a client use the resource."""
        await agree(self.scene, self.ann, self.resource, client_ref, scopes)

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
        return await rows_of(self.scene, table)


@dataclass(frozen=True)
class Account:
    """A resource whose tokens an outside provider issues, and Ann's account there.

    Attributes:
        agent: asks nobody for consent.
        shy, coy: applications that ask for consent.
    """

    scene: Scene
    provider: Provider
    resource: Resource
    agent: App
    shy: App
    coy: App
    ann: Person

    async def connect(
        self,
        tokens: UpstreamTokens = TOKENS,
        requested: Sequence[str] = SCOPES,
        person: Person | None = None,
        provider: Provider | None = None,
    ) -> str:
        """What connecting ends with; the grant's id."""
        services, user = self.scene.services, (person or self.ann).user
        zone = await services.zones.get(self.scene.zone.id)
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone.id, user.id))
            return await upstream_tokens.store_connected(
                conn,
                services,
                zone,
                user_id=user.id,
                resource=self.resource,
                provider=provider or self.provider,
                tokens=tokens,
                scopes=limit_upstream(frozenset(requested), tokens.scopes),
                now=services.clock(),
            )

    async def agree(self, client_ref: ClientRef, scopes: Sequence[str] = SCOPES) -> None:
        """Ann lets a client use the resource."""
        await agree(self.scene, self.ann, self.resource, client_ref, scopes)

    async def exchange(
        self, app: App | None = None, scope: str | None = None, person: Person | None = None
    ) -> dict[str, Any]:
        """What an application's exchange for the resource is answered with."""
        app = app or self.agent
        token = await self.scene.company.token(self.scene.zone, app, person or self.ann)
        return await self.scene.exchange(app, token, self.resource, scope)

    async def rows(self, table: str) -> list[dict[str, Any]]:
        """What the zone has in a table."""
        return await rows_of(self.scene, table)


async def agree(
    scene: Scene, person: Person, resource: Resource, client_ref: ClientRef, scopes: Sequence[str]
) -> None:
    """Somebody lets a client use a resource."""
    services, zone, user = scene.services, scene.zone, person.user
    given = [ConsentRecord(resource.id, frozenset(scopes), "app.example")]
    async with services.epochs.transaction() as (conn, bumped):
        bumped.update(await epochs.bump_user(conn, zone.id, user.id))
        now = services.clock()
        await consents.record(conn, given, zone_id=zone.id, user_id=user.id, client_ref=client_ref, now=now)


async def rows_of(scene: Scene, table: str) -> list[dict[str, Any]]:
    """What a zone has in a table."""
    rows = METADATA.tables[table]
    async with scene.services.database.reading() as conn:
        found = await conn.execute(select(rows).where(rows.c.zone_id == scene.zone.id))
        return [dict(row) for row in found.mappings()]


@contextmanager
def reads_of_the_vault(scene: Scene) -> Iterator[list[str]]:
    """The statements that read it meanwhile."""
    found: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("SELECT") and "vault_tokens" in statement:
            found.append(statement)

    engine = scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def three_apps(scene: Scene, resource: Resource) -> list[App]:
    """Applications that depend on a resource: one that asks nobody for consent, and two that do."""
    return [
        await scene.company.app(
            scene.zone, name, dependencies=[resource], consent=consent, redirect_uris=[CALLBACK]
        )
        for name, consent in (("agent", "implicit"), ("shy", "required"), ("coy", "required"))
    ]


async def account_at(scene: Scene, address: str, **provider: Any) -> Account:
    """A resource of the provider at that address, its applications, and somebody to connect an account.

    Args:
        provider: more members of the provider.
    """
    company, zone = scene.company, scene.zone
    body = {"identifier": address, "name": "Tracker", "client_id": "zone"} | provider
    made = await company.create(PROVIDER, zone.id, **body)
    resource = await company.resource(
        zone, "https://tracker.test", scopes=list(SCOPES), credential_provider_id=made.id
    )
    apps = await three_apps(scene, resource)
    return Account(scene, made, resource, *apps, await company.person(zone, "ann@acme.test"))


@pytest.fixture
async def account(own_scene: Scene) -> Account:
    """An account at a provider that nobody can reach, in a zone of this test alone."""
    return await account_at(own_scene, "https://idp.test")


async def desk_at(scene: Scene) -> Desk:
    """A resource of the zone's vault, its applications, and somebody who is signed in."""
    company, zone = scene.company, scene.zone
    async with scene.services.database.reading() as conn:
        vault = await entities.find_by(conn, PROVIDER, "type", "service-vault", within={"zone_id": zone.id})
    assert isinstance(vault, Provider)
    resource = await company.resource(
        zone, "https://tickets.test", scopes=list(SCOPES), credential_provider_id=vault.id
    )
    apps = await three_apps(scene, resource)
    return Desk(scene, vault, resource, *apps, await company.person(zone, "ann@acme.test"))


@pytest.fixture
async def desk(own_scene: Scene) -> Desk:
    """A zone of this test alone."""
    return await desk_at(own_scene)

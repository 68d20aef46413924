"""Consent that is withdrawn from one application of a chain ends the chain, wherever it stands in it."""

import pytest
from tests.support.factories import App, Person
from tests.support.scene import Scene

from runtime.domain.errors import AccessDenied, InvalidGrant, OAuthError
from runtime.domain.kinds.resource import Resource
from runtime.services import epochs
from runtime.storage.sql import connected_applications, consents
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.consents import ConsentRecord

NAMES = ("agent", "first-server", "second-server", "third-server")


class Chain:
    """Four applications that all ask for consent, each of which calls the next one; Ann agreed to all."""

    def __init__(self, scene: Scene, ann: Person, apps: list[App], resources: list[Resource]) -> None:
        self.scene, self.ann, self.apps, self.resources = scene, ann, apps, resources
        self.tokens: list[str] = []

    async def walk(self) -> None:
        """A token for the agent, and of each application that exchanges the one before it."""
        self.tokens = [await self.scene.company.token(self.scene.zone, self.apps[0], self.ann)]
        for place in range(len(self.apps)):
            self.tokens.append(await self.exchange(place))

    async def exchange(self, place: int) -> str:
        """What that application gets for the token that it was called with."""
        answer = await self.scene.exchange(self.apps[place], self.tokens[place], self.resources[place])
        return str(answer["access_token"])

    async def agree(self, place: int, *, withdraw: bool = False) -> None:
        """Let the application use the next one, or no longer."""
        services, zone_id = self.scene.services, self.scene.zone.id
        ref = ClientRef(application_id=self.apps[place].id)
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone_id, self.ann.user.id))
            if withdraw:
                await connected_applications.take_back(
                    conn, zone_id=zone_id, user_id=self.ann.user.id, client_ref=ref
                )
                return
            given = [ConsentRecord(self.resources[place].id, frozenset(), "app.example")]
            await consents.record(
                conn,
                given,
                zone_id=zone_id,
                user_id=self.ann.user.id,
                client_ref=ref,
                now=services.clock(),
            )


@pytest.fixture
async def chain(own_scene: Scene) -> Chain:
    company, zone = own_scene.company, own_scene.zone
    apps: list[App] = []
    resources = [await company.resource(zone, "https://data.test")]
    for name in reversed(NAMES):
        app = await company.app(zone, name, dependencies=[resources[0]], consent="required")
        apps.insert(0, app)
        if name != NAMES[0]:
            at = f"https://{name}.test"
            resources.insert(0, await company.resource(zone, at, application_id=app.id))
    made = Chain(own_scene, await company.person(zone, "ann@acme.test"), apps, resources)
    for place in range(len(apps)):
        await made.agree(place)
    return made


@pytest.mark.parametrize("place", range(len(NAMES)), ids=NAMES)
async def test_consent_counts_in_each_position(chain: Chain, place: int) -> None:
    """Exchanges of what was issued under it are refused, those before it are not."""
    await chain.walk()

    await chain.agree(place, withdraw=True)

    refused = {}
    for each in range(len(NAMES)):
        try:
            await chain.exchange(each)
        except OAuthError as refusal:
            refused[each] = type(refusal)
    beyond = dict.fromkeys(range(place + 1, len(NAMES)), InvalidGrant)
    assert refused == {place: AccessDenied} | beyond

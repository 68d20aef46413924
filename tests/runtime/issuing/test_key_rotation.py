"""Rotation on a schedule: whoever verifies with what was published never meets a key it does not know."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import jwt
import pytest
from tests.support.factories import App
from tests.support.rewired import with_new_zones
from tests.support.scene import Scene

from runtime.domain.kinds.resource import Resource
from runtime.services import zone_keys
from runtime.services.container import Services
from runtime.services.management import audit as trail
from runtime.services.management.zones import key_rotation
from runtime.storage.sql import audit

API = "https://api.test"
CACHED = timedelta(minutes=5)


@dataclass
class Clock:
    """The present, which a test moves."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Verifier:
    """A resource server that fetches the JWK set and keeps it for as long as it may."""

    services: Services
    zone_id: str
    keys: dict[str, Any] = field(default_factory=dict)
    fetched_at: datetime | None = None

    async def verify(self, token: str) -> str:
        """The key that signed the token. Raises KeyError for one that is not in the set at hand."""
        now = self.services.clock()
        if self.fetched_at is None or now - self.fetched_at >= CACHED:
            zone = await self.services.zones.get(self.zone_id)
            self.keys = {jwk["kid"]: jwt.PyJWK(jwk) for jwk in zone.jwks}
            self.fetched_at = now
        kid = str(jwt.get_unverified_header(token)["kid"])
        options = {"verify_exp": False, "verify_iat": False}  # the clock is the test's
        jwt.decode(token, self.keys[kid], ["RS256", "ES256"], audience=API, options=options)
        return kid


@dataclass
class Stage:
    """A zone with an application, on a clock of its own."""

    scene: Scene
    services: Services
    clock: Clock
    app: App

    async def token(self) -> str:
        form = [("grant_type", "client_credentials"), ("resource", API), *self.app.form.items()]
        return str((await self.scene.post(form, services=self.services))["access_token"])


@pytest.fixture
async def stage(own_scene: Scene) -> Stage:
    api: Resource = await own_scene.company.resource(own_scene.zone, API)
    app = await own_scene.company.app(own_scene.zone, "app", dependencies=[api])
    clock = Clock(own_scene.services.clock())
    services = with_new_zones(own_scene.services, clock=clock)
    return Stage(own_scene, services, clock, app)


async def test_tokens_verify_across_a_rotation(stage: Stage) -> None:
    """New tokens with a set fetched up to five minutes ago, tokens of the last hour, and exchanges alike."""
    verifier = Verifier(stage.services, stage.scene.zone.id)
    alive: list[str] = []
    signers: list[str] = []
    stage.clock.now += timedelta(days=90) - zone_keys.PUBLISHED_BEFORE - timedelta(minutes=3)
    await key_rotation.rotate_due(stage.services)
    for half_minutes in range(80):
        stage.clock.now += timedelta(seconds=30)
        if half_minutes % 20 == 10:  # the job comes round every ten minutes
            await key_rotation.rotate_due(stage.services)
        alive = [*alive[-59:], await stage.token()]
        signers.append(await verifier.verify(alive[-1]))
        if half_minutes % 10 == 0:
            for token in alive:
                await verifier.verify(token)

    before, after = dict.fromkeys(signers)
    assert signers.index(after) > 30  # not before everybody had time to fetch it
    assert signers[-1] == after
    zone = await stage.services.zones.get(stage.scene.zone.id)
    assert {before, after} <= zone.keys.keys()
    assert sorted(jwk["alg"] for jwk in zone.jwks) == ["ES256", "ES256", "RS256", "RS256"]

    stage.clock.now += zone_keys.KEPT_AFTER
    assert before not in (await stage.services.zones.get(stage.scene.zone.id)).keys


async def test_two_runs_at_once_make_one_key(stage: Stage) -> None:
    """A rotation is tied to the key that is due, so a job that runs twice does it once."""
    stage.clock.now += timedelta(days=91)

    await asyncio.gather(key_rotation.rotate_due(stage.services), key_rotation.rotate_due(stage.services))

    listed = await zone_keys.listed(stage.services.database, stage.scene.zone.id)
    assert sorted(each.algorithm for each in listed) == ["ES256", "ES256", "RS256", "RS256"]
    assert [zone_keys.life(each, stage.clock.now)[0] for each in listed] == ["signs"] * 2 + ["published"] * 2
    never = replace(
        stage.services, settings=stage.services.settings.model_copy(update={"key_rotation_days": 0})
    )
    stage.clock.now += timedelta(days=500)
    assert await key_rotation.rotate_due(never) >= 2  # what was taken out of the set long ago is forgotten
    assert len(await zone_keys.listed(stage.services.database, stage.scene.zone.id)) == 2


@pytest.mark.threat("27m")
async def test_a_key_that_is_forgotten_stands_in_the_trail(stage: Stage) -> None:
    """Whoever asks later which key signed something finds when it was made, and when it was forgotten."""
    zone = stage.scene.zone
    before = {each.kid for each in await zone_keys.listed(stage.services.database, zone.id)}
    await key_rotation.rotate(stage.services, zone.id)
    stage.clock.now += timedelta(days=500)
    never = replace(
        stage.services, settings=stage.services.settings.model_copy(update={"key_rotation_days": 0})
    )
    await key_rotation.rotate_due(never)
    gone = before - {each.kid for each in await zone_keys.listed(stage.services.database, zone.id)}
    assert gone

    async with stage.services.database.reading() as conn:
        page = await audit.page(
            conn,
            zone.organization_id,
            audit.AuditFilter({"action": ("keys.forget",), "zone_id": (zone.id,)}, None, None),
            limit=50,
        )
    assert {(each["entity_id"], each["zone_id"], each["actor_type"]) for each in page.items} == {
        (kid, zone.id, "system") for kid in gone
    }
    assert [each["before"] for each in page.items] == [{"algorithm": "RS256"}]
    verdicts = [each async for each in trail.verify(stage.services, zone.organization_id)]
    assert [each.broken_at for each in verdicts] == [None]


async def test_no_request_fails_while_keys_change(stage: Stage) -> None:
    """A stream of requests notices neither a planned rotation nor one at once."""
    verifier = Verifier(stage.services, stage.scene.zone.id)
    zone_id = stage.scene.zone.id

    async def stream(*, is_verified: bool) -> None:
        for _ in range(10):
            token = await stage.token()
            if is_verified:
                await verifier.verify(token)

    streams = [stream(is_verified=True) for _ in range(3)]
    await asyncio.gather(*streams, key_rotation.rotate(stage.services, zone_id))
    stage.clock.now += zone_keys.PUBLISHED_BEFORE
    await stream(is_verified=True)
    # What the withdrawn key has signed is worth nothing: here only answering goes on.
    streams = [stream(is_verified=False) for _ in range(3)]
    await asyncio.gather(*streams, key_rotation.rotate(stage.services, zone_id, at_once=True))
    verifier.fetched_at = None
    await stream(is_verified=True)

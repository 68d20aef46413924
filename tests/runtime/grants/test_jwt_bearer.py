"""The JWT bearer grant: assertions of the zone's identity provider about its users."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.support.factories import App, Person
from tests.support.publisher import Publisher, publishing
from tests.support.scene import Scene, claims_of

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.errors import (
    AccessDenied,
    InvalidGrant,
    InvalidRequest,
    InvalidScope,
    InvalidTarget,
    UnauthorizedClient,
    Unavailable,
)
from runtime.domain.kinds import PROVIDER, USER, ZONE, Verb
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.role import User
from runtime.domain.oauth.logout import LOGOUT_EVENT
from runtime.services.issuing import token_responses
from runtime.services.logout import backchannel_receiver
from runtime.storage.sql import sessions, users
from runtime.storage.state.memory import InProcessState

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
KEY, STRANGER = SigningKey.generate("ES256"), SigningKey.generate("ES256")


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    with publishing() as running:
        running.publish("/keys", {"keys": [KEY.public_jwk]})
        yield running


@dataclass(frozen=True)
class Stage:
    """A zone whose provider vouches for Ann, an application that may redeem that, and an API."""

    scene: Scene
    provider: Provider
    ann: User
    app: App
    api: Resource

    def claims(self, **changes: Any) -> dict[str, Any]:
        at = int(self.scene.services.clock().timestamp())
        plain = {
            "iss": self.provider.identifier,
            "sub": "ann-1",
            "aud": str(self.scene.zone.protocols.oauth2.issuer),
            "iat": at,
            "exp": at + 120,
            "auth_time": at - 100,
            "acr": "gold",
            "jti": secrets.token_hex(8),
        }
        return {name: value for name, value in {**plain, **changes}.items() if value is not None}

    def logout_token(self, **changes: Any) -> str:
        """The provider's word that a session there has ended, which no assertion has named."""
        said = {name: value for name, value in self.claims().items() if name not in ("auth_time", "acr")}
        said |= {"aud": "zone", "events": {LOGOUT_EVENT: {}}, "sid": "one of the provider's"}
        return KEY.sign(said | changes, typ="logout+jwt")

    async def redeem(
        self,
        *,
        key: SigningKey = KEY,
        typ: str = "JWT",
        assertion: str | None = None,
        form: dict[str, str] | None = None,
        app: App | None = None,
        services: Any = None,
        **changes: Any,
    ) -> dict[str, Any]:
        shown = assertion or key.sign(self.claims(**changes), typ=typ)
        fields = {"grant_type": GRANT, "assertion": shown, **(app or self.app).form, **(form or {})}
        return await self.scene.post(list(fields.items()), services=services)


@pytest.fixture(scope="module")
async def stage(scene: Scene, publisher: Publisher) -> Stage:
    company, zone = scene.company, scene.zone
    provider: Provider = await company.create(
        PROVIDER,
        zone.id,
        name="Sign-in",
        identifier="https://idp.example",
        client_id="zone",
        protocols={"oauth2": {"jwks_uri": f"{publisher.url}/keys"}},
    )
    await company.run(ZONE, Verb.UPDATE, {}, zone.id, {"user_identity_provider_id": provider.id})
    ann = await federated(scene, provider, "ann@acme.test", "ann-1")
    api = await company.resource(zone, "https://api.test", scopes=["read", "write"])
    app = await company.app(zone, "agent", dependencies=[api])
    return Stage(scene, provider, ann, app, api)


async def federated(scene: Scene, provider: Provider, email: str, subject: str) -> User:
    user = await scene.company.user(scene.zone, email)
    async with scene.services.database.transaction() as conn:
        await users.add_federation(
            conn,
            user,
            provider_id=provider.id,
            issuer=provider.identifier,
            subject=subject,
            now=scene.services.clock(),
        )
    return user


@pytest.mark.standard("RFC 7523")
async def test_a_token_as_if_signed_in(stage: Stage) -> None:
    """For the zone or for a resource, with the provider's word on when and how; it can be exchanged."""
    at = int(stage.scene.services.clock().timestamp()) - 100
    plain = await stage.redeem(auth_time=at)
    assert "refresh_token" not in plain
    claims = claims_of(plain["access_token"])
    issuer = str(stage.scene.zone.protocols.oauth2.issuer)
    assert (claims["sub"], claims["aud"], claims["client_id"]) == (
        "ann@acme.test",
        issuer,
        stage.app.client_id,
    )
    assert (claims["auth_time"], claims["acr"], claims["scope"]) == (at, "gold", "openid")
    assert claims_of(plain["id_token"])["sub"] == "ann@acme.test"

    narrowed = await stage.redeem(form={"resource": stage.api.identifier, "scope": "openid read"})
    assert claims_of(narrowed["access_token"])["aud"] == stage.api.identifier
    assert "write" not in narrowed["scope"]

    exchanged = await stage.scene.exchange(stage.app, plain["access_token"], stage.api, "write")
    assert claims_of(exchanged["access_token"])["sid"] == claims["sid"]


async def test_the_session_says_what_the_assertion_said(stage: Stage) -> None:
    """`session_data` has the assertion's claims, and `profile` shows its name as after a sign-in."""
    answer = await stage.redeem(name="Ann", groups=["staff"], form={"scope": "openid profile"})

    session_id = claims_of(answer["access_token"])["sid"]
    async with stage.scene.services.database.reading() as conn:
        session = await sessions.find(conn, session_id, zone_id=stage.scene.zone.id)
    assert session is not None
    assert {"sub": "ann-1", "name": "Ann", "groups": ["staff"]}.items() <= session.session_data.items()
    assert claims_of(answer["id_token"])["name"] == "Ann"
    assert "groups" not in claims_of(answer["id_token"])


@pytest.mark.threat("34a", "34b", "34c", "34d", "34e")
async def test_what_the_provider_must_say(stage: Stage) -> None:
    """Replayed, for others too, for another client, too long, by a stranger, about nobody: one refusal."""
    once = KEY.sign(stage.claims(), typ="JWT")
    assert await stage.redeem(assertion=once)
    issuer, at = stage.claims()["aud"], int(stage.scene.services.clock().timestamp())
    wrong: list[dict[str, Any]] = [
        {"assertion": once},
        {"key": STRANGER},
        {"typ": "at+jwt"},
        {"typ": "oauth-id-jag+jwt"},
        {"iss": "https://idp.example/"},
        {"aud": [issuer]},
        {"aud": [issuer, "https://other.example"]},
        {"aud": "zone"},
        {"aud": str(stage.scene.zone.protocols.oauth2.token_endpoint)},
        {"client_id": "somebody-else"},
        {"sub": "nobody"},
        {"sub": None},
        {"exp": at - 1},
        {"exp": at + 31_536_000},
        {"jti": None},
        {"auth_time": "yesterday"},
        {"iat": at + 600},
        {"assertion": "not.a.jwt"},
    ]
    details = set()
    for changes in wrong:
        await stage.redeem(client_id=stage.app.client_id)
        with pytest.raises(InvalidGrant) as refusal:
            await stage.redeem(**changes)
        details.add(refusal.value.detail)
    assert details == {"the assertion is not valid"}


async def test_whom_it_does_not_let_in(stage: Stage) -> None:
    """Public clients, disabled users, what was not declared, and what the user has not agreed to."""
    company, zone = stage.scene.company, stage.scene.zone
    assert await stage.redeem()
    with pytest.raises(InvalidRequest):
        await stage.scene.post([("grant_type", GRANT), *stage.app.form.items()])
    with pytest.raises(UnauthorizedClient):
        await stage.redeem(app=await company.app(zone, "browser", public=True))
    with pytest.raises(InvalidTarget):
        await stage.redeem(form={"resource": "https://elsewhere.test"})
    with pytest.raises(InvalidScope):
        await stage.redeem(form={"scope": "admin"})
    asking = await company.app(zone, "asking", consent="required", dependencies=[stage.api])
    with pytest.raises(AccessDenied) as refusal:
        await stage.redeem(app=asking)
    assert refusal.value.members["reason"] == "user_authorization_required"

    bob = await federated(stage.scene, stage.provider, "bob@acme.test", "bob-1")
    assert await stage.redeem(sub="bob-1")
    await company.update(USER, zone.id, bob.id, status="disabled")
    with pytest.raises(InvalidGrant):
        await stage.redeem(sub="bob-1")


@pytest.mark.threat("18n")
async def test_ends_when_the_provider_says_so(stage: Stage) -> None:
    """A logout token about the user ends what was opened on the provider's word; one of another, nothing.

    An assertion does not say in which of the provider's sessions; so any of that user's may be it.
    """
    scene, zone = stage.scene, await stage.scene.services.zones.get(stage.scene.zone.id)
    token = (await stage.redeem())["access_token"]
    for subject, ended in (("bob-2", 0), ("ann-1", 1)):
        assert await scene.exchange(stage.app, token, stage.api)
        meant = await backchannel_receiver.receive(scene.services, zone, stage.logout_token(sub=subject))
        assert (meant > 0) == bool(ended)

    with pytest.raises(InvalidGrant):
        await scene.exchange(stage.app, token, stage.api)


async def test_a_provider_that_hangs_up_may_say_it_again(stage: Stage) -> None:
    """What was not done does not count as said."""
    scene, zone = stage.scene, await stage.scene.services.zones.get(stage.scene.zone.id)
    token = (await stage.redeem())["access_token"]
    logout = stage.logout_token()
    async with scene.services.database.transaction() as conn:  # whoever comes now has to wait
        await sessions.lock(conn, claims_of(token)["sid"], zone_id=zone.id)
        hasty = asyncio.create_task(backchannel_receiver.receive(scene.services, zone, logout))
        assert await asyncio.wait({hasty}, timeout=0.2) == (set(), {hasty})
        hasty.cancel()
        assert await asyncio.wait({hasty}, timeout=5) == ({hasty}, set())

    assert await backchannel_receiver.receive(scene.services, zone, logout) == 1
    with pytest.raises(InvalidRequest):
        await backchannel_receiver.receive(scene.services, zone, logout)


async def test_without_the_shared_state_nothing_is_issued(stage: Stage) -> None:
    """Whether an assertion was used before cannot be told then."""

    class Away(InProcessState):
        async def use_once(self, key: str, *, made_at: float, ttl_seconds: int) -> bool:
            raise Unavailable("away")

    assert await stage.redeem()
    with pytest.raises(Unavailable):
        await stage.redeem(services=replace(stage.scene.services, state=Away()))


async def test_a_zone_without_provider(own_scene: Scene, stage: Stage) -> None:
    """Nobody can vouch for the users of a zone that signs them in itself."""
    app = await own_scene.company.app(own_scene.zone, "agent")
    person: Person = await own_scene.company.person(own_scene.zone, "ann@acme.test")
    assert await own_scene.company.token(own_scene.zone, app, person)
    with pytest.raises(InvalidGrant):
        await replace(stage, scene=own_scene).redeem(app=app)


@pytest.mark.threat("18m")
@pytest.mark.parametrize("what", ["user", "provider"])
async def test_a_change_meanwhile_begins_no_session(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """No session is begun for a user who has just been disabled, nor by a provider that has been changed."""
    company, zone, services = stage.scene.company, stage.scene.zone, stage.scene.services
    eve = await federated(stage.scene, stage.provider, f"eve-{what}@acme.test", f"eve-{what}")
    assert "access_token" in await stage.redeem(sub=f"eve-{what}")
    answer = token_responses.answer

    async def late(*arguments: Any, **named: Any) -> dict[str, Any]:
        if what == "user":
            await company.update(USER, zone.id, eve.id, status="disabled")
        else:
            await company.update(PROVIDER, zone.id, stage.provider.id, name=f"Sign-in {secrets.token_hex(2)}")
        return await answer(*arguments, **named)

    monkeypatch.setattr(token_responses, "answer", late)
    with pytest.raises(InvalidGrant):
        await stage.redeem(sub=f"eve-{what}")
    async with services.database.reading() as conn:
        standing = await sessions.of_user(conn, eve.id, zone_id=zone.id, now=services.clock())
    assert len(standing) == (0 if what == "user" else 1)

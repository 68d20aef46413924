"""Sessions of applications without a user: what their own tokens rest on, until somebody ends them."""

import asyncio
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from tests.support.factories import App
from tests.support.scene import Scene, claims_of
from tests.support.state_doubles import with_state
from tests.support.waiting import let_elapse

from runtime.domain.errors import InvalidGrant
from runtime.domain.kinds import PROVIDER, SESSION, Verb
from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.session import Session
from runtime.domain.kinds.values import SessionStatus, SessionType
from runtime.domain.oauth.claims import AccessTokenFacts
from runtime.domain.oauth.entity_profiles import EntityProfile
from runtime.services import epochs
from runtime.services.authority import application_sessions
from runtime.services.container import Services
from runtime.services.issuing.access_tokens import issue_access_token, new_token_id
from runtime.storage.sql import entities
from runtime.storage.state.memory import InProcessState


@pytest.fixture
async def deep(scene: Scene) -> Resource:
    """What the API asks for with the tokens that it gets."""
    return await scene.company.resource(scene.zone, f"https://deep{monotonic()}.test", scopes=["read"])


@pytest.fixture
async def job(scene: Scene, deep: Resource) -> App:
    """An application that acts on its own behalf, and exchanges its own tokens."""
    return await scene.company.app(scene.zone, f"job{monotonic()}", dependencies=[deep])


async def own_token(scene: Scene, app: App, *, services: Services | None = None, **form: str) -> str:
    fields = {"grant_type": "client_credentials", **form, **app.form}
    answer = await scene.post(list(fields.items()), services=services)
    return str(answer["access_token"])


async def sessions_of(scene: Scene, app: App) -> list[Session]:
    async with scene.services.database.reading() as conn:
        found = [each async for each in entities.all_of(conn, SESSION, within={"zone_id": scene.zone.id})]
    return [each for each in found if isinstance(each, Session) and each.application_id == app.id]


async def end(scene: Scene, session_id: str, verb: Verb) -> None:
    """As an administrator does by the API."""
    patch = [{"status": "revoked"}] if verb is Verb.UPDATE else []
    await scene.company.run(SESSION, verb, {"zone_id": scene.zone.id}, session_id, *patch)


async def test_tokens_of_an_application_rest_on_one_session(scene: Scene, job: App, deep: Resource) -> None:
    """Whatever they are for, and however many are asked for at once, also by several processes."""
    other = with_state(scene.services, InProcessState())
    tokens = await asyncio.gather(
        *(own_token(scene, job) for _ in range(5)),
        *(own_token(scene, job, services=other, resource=deep.identifier) for _ in range(5)),
    )
    await other.epochs.close()

    (session,) = await sessions_of(scene, job)
    assert {claims_of(each)["sid"] for each in tokens} == {session.id}
    assert (session.session_type, session.user_id) == (SessionType.APPLICATION, None)


async def test_the_session_says_which_application_it_is_of(scene: Scene, job: App) -> None:
    """Issuer, subject and provider, and the claims of the application."""
    await own_token(scene, job)

    (session,) = await sessions_of(scene, job)
    issuer = str(scene.zone.protocols.oauth2.issuer)
    assert session.metadata is not None
    assert session.metadata.name == job.application.name
    assert (session.issuer, session.subject) == (issuer, job.application.identifier)
    assert session.session_data == {
        "iss": issuer,
        "sub": job.application.identifier,
        "client_id": job.client_id,
        "sub_profile": "service",
    }
    async with scene.services.database.reading() as conn:
        own = await entities.find_by(conn, PROVIDER, "type", "service-sts", within={"zone_id": scene.zone.id})
    assert own is not None
    assert session.provider_id == own.id


@pytest.mark.parametrize("verb", [Verb.UPDATE, Verb.DELETE])
async def test_ending_it_ends_all_that_rests_on_it(
    scene: Scene, job: App, deep: Resource, verb: Verb
) -> None:
    """Revoked or deleted, on every process within a second: its tokens, and what was exchanged from them."""
    far = with_state(scene.services, InProcessState())
    own = await own_token(scene, job)
    exchanged = (await scene.exchange(job, own, deep, "read", services=far))["access_token"]
    assert claims_of(exchanged)["sid"] == claims_of(own)["sid"]

    await end(scene, claims_of(own)["sid"], verb)

    with pytest.raises(InvalidGrant):
        await scene.exchange(job, own, deep, "read")
    await let_elapse(epochs.RECENT_SECONDS)
    with pytest.raises(InvalidGrant):
        await scene.exchange(job, own, deep, "read", services=far)
    await far.epochs.close()


async def test_a_new_token_begins_another_session(scene: Scene, job: App, deep: Resource) -> None:
    """Ending a session withdraws what was issued; the application's credential still stands."""
    before = claims_of(await own_token(scene, job))["sid"]
    await end(scene, before, Verb.UPDATE)

    after = await own_token(scene, job)

    assert claims_of(after)["sid"] != before
    assert await scene.exchange(job, after, deep, "read")
    assert {each.id: each.status for each in await sessions_of(scene, job)} == {
        before: SessionStatus.REVOKED,
        claims_of(after)["sid"]: SessionStatus.ACTIVE,
    }


async def test_each_client_id_has_its_own(scene: Scene, job: App, deep: Resource) -> None:
    """Ending the session of one credential leaves the tokens of the other."""
    second = await scene.company.credential(scene.zone, job.application)
    one, other = await own_token(scene, job), await own_token(scene, second)
    assert claims_of(one)["sid"] != claims_of(other)["sid"]

    await end(scene, claims_of(one)["sid"], Verb.UPDATE)

    assert await scene.exchange(second, other, deep, "read")
    with pytest.raises(InvalidGrant):
        await scene.exchange(job, one, deep, "read")


async def test_tokens_end_before_their_session(scene: Scene, job: App) -> None:
    """A longer token gets a session that lasts; the next ones share it, so there are few for each client."""
    resources = [
        await scene.company.resource(
            scene.zone, f"https://long{days}-{monotonic()}.test", credential_lifetime_seconds=days * 86_400
        )
        for days in (1, 40, 70)
    ]
    app = await scene.company.app(scene.zone, f"long{monotonic()}", dependencies=resources)

    tokens = [await own_token(scene, app, resource=each.identifier) for each in (*resources, *resources)]

    ends = {each.id: each.expires_at for each in await sessions_of(scene, app)}
    claims = [claims_of(each) for each in tokens]
    assert all(each["exp"] <= ends[each["sid"]].timestamp() for each in claims)
    assert len(ends) == 2, "one that lasts long enough for 40 days does for 70"


async def test_a_token_of_an_earlier_release_is_good_until_it_ends(
    scene: Scene, job: App, deep: Resource
) -> None:
    """It names no session; nothing but its end, its client and its own withdrawal ends it."""
    zone, now = await scene.services.zones.get(scene.zone.id), scene.services.clock()
    facts: dict[str, Any] = {
        "issuer": zone.issuer,
        "subject": job.application.identifier,
        "subject_profile": EntityProfile.SERVICE,
        "audience": zone.issuer,
        "client_id": job.client_id,
        "scopes": frozenset(),
        "issued_at": now,
        "expires_at": now + timedelta(minutes=5),
        "token_id": new_token_id(),
        "session_id": None,
        "authenticated_at": None,
        "acr": None,
        "actors": (),
    }
    older = issue_access_token(zone, AccessTokenFacts(**facts))

    assert "sid" not in claims_of((await scene.exchange(job, older, deep, "read"))["access_token"])

    gone = issue_access_token(zone, AccessTokenFacts(**facts | {"session_id": "gone"}))
    with pytest.raises(InvalidGrant):
        await scene.exchange(job, gone, deep, "read")


async def test_a_session_of_a_user_is_none_of_an_application(scene: Scene, job: App, deep: Resource) -> None:
    """An application's token that names a user's session rests on nothing."""
    ann = await scene.company.person(scene.zone, f"ann{monotonic()}@acme.test")
    zone = await scene.services.zones.get(scene.zone.id)

    assert await zone.application_sessions.get(claims_of(await own_token(scene, job))["sid"])
    assert await zone.application_sessions.get(ann.session_id) is None


async def test_a_warm_client_reads_no_session(
    scene: Scene, job: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next tokens of a client cost no question to the database."""
    first = claims_of(await own_token(scene, job))["sid"]

    async def ask(*_: Any) -> None:
        raise AssertionError("asked the database")

    monkeypatch.setattr(application_sessions, "_find_or_begin", ask)
    assert claims_of(await own_token(scene, job))["sid"] == first

"""Who may present which token, and who is said to act."""

from contextlib import nullcontext
from typing import Any

import pytest
from tests.support.factories import App, Person
from tests.support.possession import Holder
from tests.support.scene import Scene, acting, claims_of

from runtime.domain.errors import InvalidGrant, InvalidRequest
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, ACTOR_REFUSED, SUBJECT_REFUSED
from runtime.services.decision_log import Decision
from runtime.services.tokens import revocation


@pytest.fixture(scope="module")
async def provider(scene: Scene, api: Resource) -> App:
    """Provides the resource that the agent gets tokens for."""
    return await scene.company.app(scene.zone, "provider", dependencies=[api])


@pytest.fixture(scope="module")
async def tools(scene: Scene, provider: App) -> Resource:
    return await scene.company.resource(
        scene.zone, "https://tools.test", scopes=["call"], application_id=provider.id
    )


@pytest.fixture(scope="module")
async def agent(scene: Scene, tools: Resource, api: Resource) -> App:
    return await scene.company.app(scene.zone, "agent", dependencies=[tools, api])


@pytest.fixture(scope="module")
async def stranger(scene: Scene, tools: Resource, api: Resource) -> App:
    """Authenticates well and depends on the same resources, but has nothing to do with the token."""
    return await scene.company.app(scene.zone, "stranger", dependencies=[tools, api])


@pytest.mark.threat("14a", "14b")
async def test_a_token_is_good_for_its_client_and_provider_alone(
    scene: Scene,
    agent: App,
    provider: App,
    stranger: App,
    tools: Resource,
    api: Resource,
    subject: str,
) -> None:
    """A token is good in the hands of its client and of the provider of its audience, and of nobody else."""
    issued = (await scene.exchange(agent, subject, tools, "call"))["access_token"]
    assert await scene.exchange(provider, issued, api, "read")
    assert await scene.exchange(agent, issued, api, "read")

    with pytest.raises(InvalidGrant):
        await scene.exchange(stranger, issued, api, "read")
    with pytest.raises(InvalidGrant):
        await scene.exchange(stranger, subject, api, "read")
    with pytest.raises(InvalidGrant):
        await scene.exchange(provider, subject, api, "read")


@pytest.mark.threat("14b")
async def test_a_second_credential_is_the_same_application(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """The rule is about applications: while credentials are replaced, both work with one token."""
    renewed = await scene.company.credential(scene.zone, agent.application)

    assert await scene.exchange(renewed, subject, api, "read")


@pytest.mark.threat("15a")
@pytest.mark.standard("RFC 8693")
async def test_may_act_binds_without_actor_token(
    scene: Scene, agent: App, api: Resource, ann: Person
) -> None:
    """Leaving the actor token out does not get around `may_act`."""
    theirs = await _token(scene, agent, ann, {"may_act": {"sub": "agent"}})
    assert await scene.exchange(agent, theirs, api, "read")

    for may_act in (
        {"sub": "another"},
        {},
        "agent",
        {"sub": "agent", "client_id": "other"},
        {"sub": "agent", "until": "tomorrow"},
        {"sub": "agent", "iss": "https://elsewhere.test"},
    ):
        with pytest.raises(InvalidGrant):
            await scene.exchange(agent, await _token(scene, agent, ann, {"may_act": may_act}), api, "read")


async def _with_actor(
    scene: Scene, agent: App, subject: str, api: Resource, actor_token: str, *, proof: str | None = None
) -> dict[str, Any]:
    """The answer to an exchange with an actor token."""
    named = {"actor_token": actor_token, "actor_token_type": ACCESS_TOKEN}
    return await scene.exchange(agent, subject, api, "read", proof=proof, **named)


async def test_an_actor_token_confirms_who_authenticated(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """The application's own token changes nothing: the chain has the application, once."""
    answer = await _with_actor(scene, agent, subject, api, await _own_token(scene, agent))

    assert acting(claims_of(answer["access_token"])) == ("agent",)


@pytest.mark.threat("15b")
async def test_another_applications_actor_token_lends_nothing(
    scene: Scene, agent: App, stranger: App, api: Resource, subject: str
) -> None:
    """Who acts is who authenticated."""
    with pytest.raises(InvalidGrant) as refusal:
        await _with_actor(scene, agent, subject, api, await _own_token(scene, stranger))
    assert refusal.value.detail == ACTOR_REFUSED
    assert refusal.value.internal == "actor token: it is not the application's own"


@pytest.mark.threat("15b")
async def test_a_users_token_is_no_actor_token(scene: Scene, agent: App, api: Resource, subject: str) -> None:
    """Though the application is the client that it was issued to."""
    with pytest.raises(InvalidGrant):
        await _with_actor(scene, agent, subject, api, subject)


async def test_an_actor_token_that_is_none_is_malformed(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """The request is at fault, not the token."""
    with pytest.raises(InvalidRequest):
        await _with_actor(scene, agent, subject, api, "x")


async def test_a_revoked_actor_token_confirms_nobody(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """As any revoked token."""
    services, own = scene.services, await _own_token(scene, agent)
    zone = await services.zones.get(scene.zone.id)
    client = await zone.clients.get(agent.client_id)
    assert client is not None
    decision = Decision(zone.organization_id, zone.id, services.clock(), "test-request")
    await revocation.revoke(services, zone, client, own, services.clock(), decision)

    with pytest.raises(InvalidGrant) as refusal:
        await _with_actor(scene, agent, subject, api, own)
    assert (refusal.value.detail, refusal.value.internal) == (
        ACTOR_REFUSED,
        "actor token: the token has been revoked",
    )


async def test_the_refusal_says_which_of_both_tokens_it_is(
    scene: Scene, agent: App, api: Resource, subject: str
) -> None:
    """One text for whatever is wrong with the actor token, and another for the subject token."""
    own, unsigned = await _own_token(scene, agent), f"{subject.rpartition('.')[0]}.{'A' * 86}"
    assert await _with_actor(scene, agent, subject, api, own)

    with pytest.raises(InvalidGrant, match=ACTOR_REFUSED):
        await _with_actor(scene, agent, subject, api, unsigned)
    with pytest.raises(InvalidGrant, match=SUBJECT_REFUSED):
        await _with_actor(scene, agent, unsigned, api, own)


HOLDER, OTHER = Holder(), Holder()


@pytest.mark.parametrize(("holder", "is_its"), [(HOLDER, True), (OTHER, False), (None, False)])
async def test_a_bound_actor_token_needs_its_key(
    scene: Scene, agent: App, api: Resource, subject: str, holder: Holder | None, is_its: bool
) -> None:
    """Whoever has only stolen it confirms nothing with it."""
    endpoint = str(scene.zone.protocols.oauth2.token_endpoint)
    form = [("grant_type", "client_credentials"), *agent.form.items()]
    own = (await scene.post(form, proof=HOLDER.proof(endpoint)))["access_token"]
    proof = holder.proof(endpoint) if holder else None

    with nullcontext() if is_its else pytest.raises(InvalidGrant):
        assert await _with_actor(scene, agent, subject, api, own, proof=proof)


@pytest.mark.threat("15c")
@pytest.mark.standard("RFC 8693")
async def test_actors_are_nested_never_dropped(
    scene: Scene, agent: App, provider: App, tools: Resource, api: Resource, subject: str
) -> None:
    """A delegated token exchanged again names everyone who acted."""
    first = (await scene.exchange(agent, subject, tools, "call"))["access_token"]
    second = (await scene.exchange(provider, first, api, "read"))["access_token"]

    assert acting(claims_of(second)) == ("provider", "agent")


async def _token(scene: Scene, app: App, person: Person, extra: dict[str, Any]) -> str:
    return await scene.company.token(scene.zone, app, person, extra=extra)


async def _own_token(scene: Scene, app: App) -> str:
    answer = await scene.post([("grant_type", "client_credentials"), *app.form.items()])
    token: str = answer["access_token"]
    return token

"""Who may present which token, and who is said to act."""

from typing import Any

import pytest
from tests.support.factories import App, Person
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import InvalidGrant, InvalidRequest
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN


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
async def test_confused_deputy(
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


@pytest.mark.threat("15b")
async def test_actor_token_is_the_applications_own(
    scene: Scene, agent: App, stranger: App, api: Resource, subject: str
) -> None:
    """An actor token confirms who authenticated; another application's lends nothing."""
    own = await _own_token(scene, agent)
    foreign = await _own_token(scene, stranger)

    async def exchange(actor_token: str) -> dict[str, Any]:
        return await scene.exchange(
            agent, subject, api, "read", actor_token=actor_token, actor_token_type=ACCESS_TOKEN
        )

    assert claims_of((await exchange(own))["access_token"])["act"] == {"sub": "agent"}
    for token in (foreign, subject):
        with pytest.raises(InvalidGrant):
            await exchange(token)
    with pytest.raises(InvalidRequest):
        await exchange("x")


@pytest.mark.threat("15c")
@pytest.mark.standard("RFC 8693")
async def test_actors_are_nested_never_dropped(
    scene: Scene, agent: App, provider: App, tools: Resource, api: Resource, subject: str
) -> None:
    """A delegated token exchanged again names everyone who acted."""
    first = (await scene.exchange(agent, subject, tools, "call"))["access_token"]
    second = (await scene.exchange(provider, first, api, "read"))["access_token"]

    assert claims_of(second)["act"] == {"sub": "provider", "act": {"sub": "agent"}}


async def _token(scene: Scene, app: App, person: Person, extra: dict[str, Any]) -> str:
    return await scene.company.token(scene.zone, app, person, extra=extra)


async def _own_token(scene: Scene, app: App) -> str:
    answer = await scene.post([("grant_type", "client_credentials"), *app.form.items()])
    token: str = answer["access_token"]
    return token

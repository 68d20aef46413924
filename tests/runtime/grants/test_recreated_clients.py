"""An application, or a client id, that is made again under its name has nothing of the one before."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.support.factories import App
from tests.support.scene import Scene, claims_of
from tests.support.waiting import let_elapse

from runtime.domain.errors import InvalidGrant
from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, RESOURCE
from runtime.domain.kinds.resource import Resource
from runtime.storage.sql import consents, revocations
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import METADATA


@pytest.fixture
async def tools(own_scene: Scene) -> tuple[App, Resource]:
    """An application that provides a resource, and may call itself."""
    company, zone = own_scene.company, own_scene.zone
    resource = await company.resource(zone, "https://tools.test")
    provider = await company.app(zone, "tools", dependencies=[resource])
    await company.update(RESOURCE, zone.id, resource.id, application_id=provider.id)
    return provider, resource


async def own_token(scene: Scene, app: App, resource: Resource) -> str:
    """A token of the application itself."""
    form = [("grant_type", "client_credentials"), ("resource", resource.identifier), *app.form.items()]
    token: str = (await scene.post(form))["access_token"]
    return token


async def made_again(scene: Scene, app: App, resource: Resource) -> App:
    """The application of that name and client id, deleted and made anew, some time after."""
    company, zone = scene.company, scene.zone
    await company.delete(APPLICATION, zone.id, app.id)
    again = await company.create(
        APPLICATION,
        zone.id,
        identifier=app.application.identifier,
        name=app.application.name,
        consent="implicit",
        dependencies=[{"id": resource.id}],
    )
    return await credential(scene, again, app.client_id)


async def credential(scene: Scene, application: Any, client_id: str) -> App:
    """A credential with that client id."""
    made = await scene.company.credential(scene.zone, application)
    table = METADATA.tables["application_credentials"]
    async with scene.services.database.transaction() as conn:
        await conn.execute(update(table).where(table.c.id == made.credential_id).values(identifier=client_id))
    return App(application, client_id, made.secret, made.credential_id)


@pytest.mark.threat("47c", "47d", "47g")
async def test_tokens_of_an_application_are_not_its_successors(
    own_scene: Scene, tools: tuple[App, Resource]
) -> None:
    """Neither its own, nor those it has of users, nor those that others made of them."""
    scene, (provider, resource) = own_scene, tools
    company, zone = scene.company, scene.zone
    app = await company.app(zone, "billing", dependencies=[resource])
    ann = await company.person(zone, "ann@acme.test")
    tokens = {
        "own": await own_token(scene, app, resource),
        "user's": await company.token(zone, app, ann),
    }
    by_others = (await scene.exchange(provider, tokens["own"], resource))["access_token"]
    assert claims_of(by_others)["sub"] == "billing"
    for token in tokens.values():
        await scene.exchange(app, token, resource)
    await scene.exchange(provider, by_others, resource)

    again = await made_again(scene, app, resource)

    for token in tokens.values():
        with pytest.raises(InvalidGrant):
            await scene.exchange(again, token, resource)
    with pytest.raises(InvalidGrant):
        await scene.exchange(provider, by_others, resource)
    await let_elapse(1.1)  # times in tokens are whole seconds
    fresh = await own_token(scene, again, resource)
    await scene.exchange(again, fresh, resource)


async def test_what_users_allowed_is_not_allowed_to_the_next(
    own_scene: Scene, tools: tuple[App, Resource]
) -> None:
    """Consents are of the application that they were given to."""
    scene, (_, resource) = own_scene, tools
    company, zone = scene.company, scene.zone
    app = await company.app(zone, "billing", dependencies=[resource], consent="required")
    ann = await company.person(zone, "ann@acme.test")
    table = METADATA.tables["consents"]
    async with scene.services.database.transaction() as conn:
        await consents.record(
            conn,
            [consents.ConsentRecord(resource.id, frozenset(), None)],
            zone_id=zone.id,
            user_id=ann.user.id,
            client_ref=ClientRef(application_id=app.id),
            now=scene.services.clock(),
        )
        assert (await conn.execute(select(table).where(table.c.zone_id == zone.id))).first()

    await made_again(scene, app, resource)

    async with scene.services.database.reading() as conn:
        assert (await conn.execute(select(table).where(table.c.zone_id == zone.id))).first() is None


async def test_a_name_that_was_given_up_takes_its_tokens_along(
    own_scene: Scene, tools: tuple[App, Resource]
) -> None:
    """Whoever is called so next is not who the tokens speak of, and their holder is not the one called so."""
    scene, (provider, resource) = own_scene, tools
    company, zone = scene.company, scene.zone
    app = await company.app(zone, "billing", dependencies=[resource])
    token = await own_token(scene, app, resource)
    by_others = (await scene.exchange(provider, token, resource))["access_token"]
    await scene.exchange(app, token, resource)

    await company.update(APPLICATION, zone.id, app.id, identifier="invoices")
    await company.app(zone, "billing", dependencies=[resource])

    with pytest.raises(InvalidGrant):
        await scene.exchange(app, token, resource)
    with pytest.raises(InvalidGrant):
        await scene.exchange(provider, by_others, resource)


async def test_a_client_id_that_comes_back_has_no_tokens_of_before(
    own_scene: Scene, tools: tuple[App, Resource]
) -> None:
    """Also in the same application."""
    scene, (_, resource) = own_scene, tools
    app = await scene.company.app(scene.zone, "billing", dependencies=[resource])
    earlier = scene.services.clock() - timedelta(minutes=5)
    person = await scene.company.person(scene.zone, "ann@acme.test")
    token = await scene.company.token(scene.zone, app, person, now=earlier)
    await scene.exchange(app, token, resource)

    await scene.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, app.credential_id)
    again = await credential(scene, app.application, app.client_id)

    with pytest.raises(InvalidGrant):
        await scene.exchange(again, token, resource)


@pytest.mark.threat("47m")
async def test_a_name_is_kept_as_long_as_any_token_may_last(
    own_scene: Scene, tools: tuple[App, Resource]
) -> None:
    """The resource says an hour by now; it said a year when the token was issued."""
    scene, (provider, resource) = own_scene, tools
    company, zone = scene.company, scene.zone
    await company.update(RESOURCE, zone.id, resource.id, credential_lifetime_seconds=31_536_000)
    app = await company.app(zone, "billing", dependencies=[resource])
    token = await own_token(scene, app, resource)
    await scene.exchange(provider, token, resource)
    await company.update(RESOURCE, zone.id, resource.id, credential_lifetime_seconds=3600)

    again = await made_again(scene, app, resource)
    async with scene.services.database.transaction() as conn:
        await revocations.prune(conn, now=scene.services.clock() + timedelta(days=3))
    await scene.services.zones.refresh(zone.id)

    with pytest.raises(InvalidGrant):
        await scene.exchange(provider, token, resource)
    await let_elapse(1.1)  # tokens say whole seconds
    await scene.exchange(provider, await own_token(scene, again, resource), resource)

"""Subjects: an application with the same name as a user may not exchange tokens under that name."""

import pytest
from sqlalchemy import text, update
from tests.support.factories import App, Person
from tests.support.scene import Scene, claims_of

from runtime.domain.errors import UnauthorizedClient
from runtime.domain.kinds import APPLICATION
from runtime.domain.kinds.resource import Resource
from runtime.storage.sql.tables import TABLES


async def called_as(scene: Scene, app: App, name: str) -> None:
    """Call an application as a user is, as it could be once."""
    table = TABLES[APPLICATION.name]
    async with scene.services.database.transaction() as conn:
        await conn.execute(text("DELETE FROM subjects WHERE holder_id = :id"), {"id": app.id})
        await conn.execute(update(table).where(table.c.id == app.id).values(identifier=name))
    await scene.company.update(APPLICATION, scene.zone.id, app.id, name="Any other change")


async def test_no_token_calls_an_application_as_a_user_is(scene: Scene, api: Resource, ann: Person) -> None:
    """Neither as `sub` nor as `act`; with a name of its own it acts again."""
    app = await scene.company.app(scene.zone, "old-app", dependencies=[api])
    own = [("grant_type", "client_credentials"), ("resource", api.identifier), *app.form.items()]
    token = (await scene.post(own))["access_token"]
    assert claims_of(token)["sub"] == "old-app"
    subject = await scene.company.token(scene.zone, app, ann)
    await scene.exchange(app, subject, api)

    await called_as(scene, app, ann.user.identifier)

    with pytest.raises(UnauthorizedClient, match="identifier"):
        await scene.post(own)
    with pytest.raises(UnauthorizedClient, match="identifier"):
        await scene.exchange(app, subject, api)

    await scene.company.update(APPLICATION, scene.zone.id, app.id, identifier="new-app")
    assert claims_of((await scene.post(own))["access_token"])["sub"] == "new-app"

"""Deleted applications and credentials take their tokens along; a successor of the same name gets none."""

import pytest
from tests.runtime.authority.session_scenes import (
    API,
    TOOLS,
    SignIn,
    answered,
    let_a_second_pass,
    make_manager,
    make_sign_in,
)
from tests.support.factories import App
from tests.support.oauth_site import Answer, Site, claims

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, Verb
from runtime.services import epochs
from runtime.services.container import Services
from runtime.storage.sql import consents, sessions

pytestmark = pytest.mark.long

STORAGE = ("embedded", "servers")


@pytest.fixture
def scene(site: Site) -> SignIn:
    return make_sign_in(site)


def again(scene: SignIn, app: App) -> None:
    """Another application with the identifier of one that is gone, and the same client id."""
    company, zone = scene.site.company, scene.zone

    async def make() -> None:
        made = await company.create(
            APPLICATION, zone.id, identifier=app.application.identifier, name="another", consent="implicit"
        )
        await company.run(
            APPLICATION_CREDENTIAL,
            Verb.CREATE,
            {"zone_id": zone.id},
            {"application_id": made.id, "type": "password", "identifier": app.client_id},
        )

    scene.site.run(make())


@pytest.mark.threat("47c", "47g")
def test_another_application_of_the_name_revives_no_chain(site: Site, scene: SignIn) -> None:
    """Where the agent acted, in its own tokens and further on."""
    asked = (scene.links[0], scene.tool_server.app), (scene.links[1], scene.provider)
    assert [scene.introspect(*each) for each in asked] == ["works", "works"]

    scene.site.run(site.company.delete(APPLICATION, scene.zone.id, scene.agent.app.id))
    again(scene, scene.agent.app)

    assert [scene.introspect(*each) for each in asked] == ["inactive", "inactive"]
    assert answered(scene.second_link()) == "400 invalid_grant"
    assert answered(scene.agent.userinfo(scene.subject)) == "401 invalid_token"


def test_a_credential_that_is_replaced_ends_what_it_led_to(site: Site, scene: SignIn) -> None:
    """The new one works at once, in the same second as well; the old one's chains end."""
    let_a_second_pass(site)
    assert scene.introspect(scene.links[1], scene.provider) == "works"
    fresh = site.run(site.company.credential(scene.zone, scene.agent.app.application))

    scene.site.run(site.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, scene.agent.app.credential_id))

    assert scene.introspect(scene.links[0], scene.tool_server.app) == "inactive"
    assert scene.introspect(scene.links[1], scene.provider) == "inactive"
    own = scene.agent.token(authenticate=False, grant_type="client_credentials", resource=TOOLS, **fresh.form)
    assert own.status_code == 200, own.text
    assert scene.introspect(own.json()["access_token"], scene.tool_server.app) == "works"


@pytest.mark.threat("18a")
@pytest.mark.parametrize("for_itself", [False, True])
def test_a_credential_ends_what_it_led_to_without_an_exchange_of_its_own(
    site: Site, scene: SignIn, for_itself: bool
) -> None:
    """Its application handed over a token as it came: of a sign-in for the tools, or one for itself."""
    if for_itself:
        token = scene.agent.token(grant_type="client_credentials", resource=TOOLS).json()["access_token"]
    else:
        answer = scene.browser.open(scene.agent.url(resources=[TOOLS]))
        assert isinstance(answer, Answer)
        token = scene.redeemed(scene.agent, answer)["access_token"]
    further = scene.exchange(scene.tool_server, token, API).json()["access_token"]
    assert scene.introspect(further, scene.provider) == "works"
    let_a_second_pass(site)
    let_a_second_pass(site)

    scene.site.run(site.company.delete(APPLICATION_CREDENTIAL, scene.zone.id, scene.agent.app.credential_id))

    assert scene.introspect(further, scene.provider) == "inactive"


def test_what_a_user_takes_back_ends_management_tokens_for_good(site: Site) -> None:
    """The application needs no consent, so it may go on at once: with a token that is issued afterwards."""
    manager = make_manager(site)
    zone, sid = manager.api.home_zone(), claims(manager.token)["sid"]
    still = manager.still()
    of_user = ("management API", "organization token")
    assert [still[each]() for each in of_user] == ["works", "works"]

    async def take_back(services: Services) -> None:
        resource = await (await services.zones.get(zone.id)).resources.resolve(manager.api.server.url)
        assert resource is not None
        async with services.epochs.transaction() as (conn, bumped):
            session = await sessions.find(conn, sid, zone_id=zone.id)
            assert session is not None
            assert session.user_id is not None
            bumped.update(await epochs.bump_user(conn, zone.id, session.user_id))
            of_this = {"user_id": session.user_id, "resource_id": resource.id}
            await consents.withdraw(conn, zone_id=zone.id, **of_this, now=services.clock())

    site.server.call(take_back)

    assert [still[each]() for each in of_user] == ["401", "401"]
    assert answered(manager.ada.calling()("GET", "/zones")) == "works"

"""What goes takes its tokens along, and another application or credential of its name gets none of them."""

import pytest
from tests.runtime.authority.scenes import TOOLS, SignIn, answered, let_a_second_pass, make_sign_in
from tests.runtime.sign_in.support import Site
from tests.support.factories import App

from runtime.domain.kinds import APPLICATION, APPLICATION_CREDENTIAL, Verb

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

"""Zone settings: what operators set, for lack of a member in the management API."""

import pytest
from tests.support.scene import Scene

from runtime.domain.errors import AccessDenied, NotFound, ValidationFailed
from runtime.domain.oauth.zone_settings import ZoneSettings
from runtime.services.zone_settings import set_zone_setting


async def test_missing_grants_in_the_words_of_some_clients(own_scene: Scene) -> None:
    """The code changes, and nothing else of the refusal; switched back, it is as before."""
    company, zone = own_scene.company, own_scene.zone
    api = await company.resource(zone, "https://api.test", scopes=["read"])
    agent = await company.app(zone, "agent", consent="required", dependencies=[api])
    person = await company.person(zone, "ann@acme.test")
    subject = await company.token(zone, agent, person)

    refusals = []
    for value in ("access_denied", "insufficient_authorization", "access_denied"):
        await set_zone_setting(own_scene.services, zone.id, "grant-missing-error", value)
        with pytest.raises(AccessDenied) as refusal:
            await own_scene.exchange(agent, subject, api)
        assert refusal.value.code == value
        address, _, link = refusal.value.members["error_uri"].partition("?link=")
        assert link
        members = refusal.value.members | {"error_uri": address}
        refusals.append((refusal.value.status, refusal.value.detail, members))
    assert refusals[0] == refusals[1] == refusals[2]
    assert refusals[0][2]["reason"] == "user_authorization_required"


async def test_a_zone_setting_is_kept_beside_those_set_before(own_scene: Scene) -> None:
    """Each call sets one setting, spelt with hyphens or underscores."""
    services, zone = own_scene.services, own_scene.zone

    async def then(name: str, value: str) -> ZoneSettings:
        await set_zone_setting(services, zone.id, name, value)
        return (await services.zones.get(zone.id)).settings

    first = await then("require_dpop_nonce", "on")
    second = await then("grant-missing-error", "insufficient_authorization")
    third = await then("grant-missing-error", "access_denied")

    assert first == third == ZoneSettings(require_dpop_nonce=True)
    assert second == ZoneSettings(require_dpop_nonce=True, grant_missing_error="insufficient_authorization")


async def test_strict_audiences_are_a_member_of_the_zone_that_operators_set_as_well(own_scene: Scene) -> None:
    """A new zone is strict; set by command, the API shows it, and no other member changes."""
    services, zone = own_scene.services, own_scene.zone
    assert zone.protocols.oauth2.strict_assertion_audience is True

    for value, expected in (("off", False), ("on", True)):
        await set_zone_setting(services, zone.id, "strict-assertion-audience", value)

        found = (await services.zones.get(zone.id)).entity.protocols.oauth2
        assert found == zone.protocols.oauth2.model_copy(update={"strict_assertion_audience": expected})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "no-such",
            "on",
            "are grant-missing-error, require-active-accountable, require-dpop-nonce, strict-assert",
        ),
        ("strict-assertion-audience", "perhaps", "`on` or `off`"),
    ],
)
async def test_an_unknown_zone_setting_or_value_is_refused_with_the_known_ones(
    own_scene: Scene, name: str, value: str, message: str
) -> None:
    """The refusal lists what there is to choose from."""
    with pytest.raises(ValidationFailed, match=message):
        await set_zone_setting(own_scene.services, own_scene.zone.id, name, value)


async def test_a_zone_setting_needs_a_zone(own_scene: Scene) -> None:
    """A zone that does not exist is not found."""
    with pytest.raises(NotFound):
        await set_zone_setting(own_scene.services, "nowhere", "strict-assertion-audience", "on")

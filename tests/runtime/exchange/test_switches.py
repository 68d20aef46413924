"""A zone's switches: what operators set that no member of the management API stands for."""

import pytest
from tests.support.scene import Scene

from runtime.domain.errors import AccessDenied, NotFound, ValidationFailed
from runtime.domain.oauth.switches import Switches
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
        refusals.append((refusal.value.status, refusal.value.detail, refusal.value.members))
    assert refusals[0] == refusals[1] == refusals[2]
    assert refusals[0][2]["reason"] == "user_authorization_required"


async def test_switches_that_there_are(own_scene: Scene) -> None:
    """Names and values are checked; what was set before stays."""
    services, zone = own_scene.services, own_scene.zone
    assert (
        await set_zone_setting(services, zone.id, "strict_assertion_audience", "on")
    ).strict_assertion_audience
    kept = await set_zone_setting(services, zone.id, "grant-missing-error", "insufficient_authorization")
    assert kept == Switches(strict_assertion_audience=True, grant_missing_error="insufficient_authorization")
    assert await set_zone_setting(services, zone.id, "grant-missing-error", "access_denied") == Switches(
        strict_assertion_audience=True
    )

    with pytest.raises(
        ValidationFailed, match="there are grant-missing-error, require-dpop-nonce, strict-assertion-audience"
    ):
        await set_zone_setting(services, zone.id, "no-such", "on")
    with pytest.raises(ValidationFailed, match="`on` or `off`"):
        await set_zone_setting(services, zone.id, "strict-assertion-audience", "perhaps")
    with pytest.raises(NotFound):
        await set_zone_setting(services, "nowhere", "strict-assertion-audience", "on")

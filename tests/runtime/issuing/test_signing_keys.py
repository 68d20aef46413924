"""A zone's signing keys: published before they sign, kept after they have, and opened once."""

from datetime import timedelta

import jwt
import pytest
from tests.support.factories import App, Company, Person
from tests.support.rewired import with_new_zones
from tests.support.scene import Scene

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.kinds.zone import Zone
from runtime.services.management.zones import key_rotation


@pytest.fixture
async def zone(company: Company) -> Zone:
    return await company.zone("Keys")


async def test_new_zone_has_one_key_of_each_algorithm(company: Company, zone: Zone) -> None:
    """Both are published, with no private member; RS256 signs."""
    view = await company.services.zones.get(zone.id)

    assert sorted(jwk["alg"] for jwk in view.jwks) == ["ES256", "RS256"]
    assert {jwk["kty"] for jwk in view.jwks} == {"RSA", "EC"}
    assert not [jwk for jwk in view.jwks if {"d", "p", "q", "dp", "dq", "qi", "k"} & jwk.keys()]
    assert not [jwk for jwk in view.jwks if not jwk["kid"]]
    assert {jwk["use"] for jwk in view.jwks} == {"sig"}
    assert view.access_token_algorithm == "RS256"


async def test_rotation_publishes_first_and_signs_later(company: Company, zone: Zone) -> None:
    """The next key is in the set at once and signs after fifteen minutes; the old one still verifies."""
    before = (await company.services.zones.get(zone.id)).signing("RS256").kid

    after = await key_rotation.rotate(company.services, zone.id)

    view = await company.services.zones.get(zone.id)
    assert {before, after} <= {jwk["kid"] for jwk in view.jwks}
    assert view.signing("RS256").kid == before
    later_parts = with_new_zones(
        company.services, clock=lambda: company.services.clock() + timedelta(minutes=16)
    )
    later = await later_parts.zones.get(zone.id)
    assert later.signing("RS256").kid == after
    assert before in later.keys


async def test_replacing_at_once_withdraws_what_a_planned_change_left(company: Company, zone: Zone) -> None:
    """A key that was only waiting for its planned end is withdrawn too, and so is the one to follow it."""
    before = (await company.services.zones.get(zone.id)).signing("RS256").kid
    planned = await key_rotation.rotate(company.services, zone.id)

    after = await key_rotation.rotate(company.services, zone.id, at_once=True)

    view = await company.services.zones.get(zone.id)
    assert view.signing("RS256").kid == after
    assert not {before, planned} & view.keys.keys()


async def test_planned_change_ends_the_view(company: Company, zone: Zone) -> None:
    """A view that was made before a key takes over is not used after that."""
    minutes = [0]
    clock = company.services.clock
    services = with_new_zones(company.services, clock=lambda: clock() + timedelta(minutes=minutes[0]))
    after = await key_rotation.rotate(services, zone.id)
    first = await services.zones.get(zone.id)
    assert await services.zones.get(zone.id) is first

    minutes[0] = 16

    assert (await services.zones.get(zone.id)).signing("RS256").kid == after
    assert services.zones.cached(zone.id) is not first


async def test_algorithm_of_a_zone(company: Company, zone: Zone) -> None:
    """A zone set to ES256 signs its access tokens with it; the header says which key."""
    scene = Scene(company, zone)
    app: App = await company.app(zone, "app")
    await key_rotation.use_algorithm(company.services, zone.id, "ES256")

    answer = await scene.post([("grant_type", "client_credentials"), *app.form.items()])

    header = jwt.get_unverified_header(answer["access_token"])
    view = await company.services.zones.get(zone.id)
    assert header == {"typ": "at+jwt", "alg": "ES256", "kid": view.signing("ES256").kid}
    jwk = next(each for each in view.jwks if each["kid"] == header["kid"])
    claims = jwt.decode(answer["access_token"], jwt.PyJWK(jwk), ["ES256"], audience=view.issuer)
    assert claims["sub"] == "app"


async def test_private_keys_are_opened_once(
    company: Company, zone: Zone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A management write makes a new view, and does not parse the zone's keys again."""
    await company.services.zones.get(zone.id)
    monkeypatch.setattr(SigningKey, "from_pem", None)
    first = await company.services.zones.get(zone.id)

    person: Person = await company.person(zone, "k@acme.test")
    await company.group(zone, "Any", [person.user])

    assert await company.services.zones.get(zone.id) is not first

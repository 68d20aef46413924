"""Resources: their identifiers are the `aud` of tokens, and so is the issuer of their zone."""

from collections.abc import Callable

import pytest
from tests.runtime.management.conftest import Api

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda issuer: issuer,
    "with a slash": lambda issuer: f"{issuer}/",
    "scheme in upper case": lambda issuer: issuer.replace("http", "HTTP", 1),
    "escaped": lambda issuer: issuer.replace("/z/", "/%7A/"),
}


@pytest.mark.threat("14e")
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_are_not_called_as_their_zone_is(api: Api, spelled: Callable[[str], str]) -> None:
    """Neither made so nor renamed; what stands beside or below the issuer is another name."""
    zone = api.zone()
    issuer = zone.body["protocols"]["oauth2"]["issuer"]
    made = zone.make("resources", identifier=f"{issuer}/tools")
    path = zone.path(f"/resources/{made['id']}")
    api.ok("PATCH", path, {"identifier": f"{issuer}-tools"})

    body = {"identifier": spelled(issuer), "name": "Mine"}
    for method, where in (("POST", zone.path("/resources")), ("PATCH", path)):
        refused = api.refused(400, method, where, body)
        assert "the issuer of the zone" in refused["message"]

    assert api.ok("GET", path)["identifier"] == f"{issuer}-tools"


def test_may_be_called_as_another_zone_is(api: Api) -> None:
    """Its tokens say who issued them; and nobody learns which zones there are."""
    other = api.zone().body["protocols"]["oauth2"]["issuer"]

    assert api.zone().make("resources", identifier=other)["identifier"] == other

"""Providers: which settings are refused when they are written."""

import pytest
from tests.runtime.management.conftest import Zone


def settings(pointer: str) -> dict[str, dict[str, dict[str, str]]]:
    """The members of a provider whose token responses are read so."""
    return {"protocols": {"oauth2": {"token_response_access_token_pointer": pointer}}}


@pytest.mark.threat("46k")
@pytest.mark.parametrize(
    "pointer", ["refresh_token", "id_token", "authed_user.refresh_token", "/data/id_token", "refreshToken"]
)
def test_a_pointer_to_another_token_is_refused(zone: Zone, pointer: str) -> None:
    """Neither created nor changed so; what leads to an access token is accepted."""
    made = zone.make("providers", **settings("authed_user.access_token"))
    path = zone.path(f"/providers/{made['id']}")
    zone.api.ok("PATCH", path, settings("/data/token"))

    body = {"identifier": "https://refused.example", "name": "Other", **settings(pointer)}
    assert not [
        (method, where)
        for method, where in (("POST", zone.path("/providers")), ("PATCH", path))
        if "name the access token" not in zone.api.refused(400, method, where, body)["message"]
    ]

    kept = zone.api.ok("GET", path)["protocols"]["oauth2"]
    assert kept["token_response_access_token_pointer"] == "/data/token"

"""Providers: which settings are refused when they are written."""

from typing import Any

import pytest
from sqlalchemy import select
from tests.runtime.management.conftest import Zone

from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES


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


def scopes(place: str, *named: str) -> dict[str, Any]:
    """A provider's settings with these scopes."""
    protocol, member = place.split(".")
    return {"protocols": {protocol: {member: list(named)}}}


PLACES = ("oauth2.scopes_supported", "openid.scopes")


@pytest.mark.parametrize("named", [("a b",), ("a", "a"), ('a"',), ("é",)])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_scope_is_refused(zone: Zone, place: str, named: tuple[str, ...]) -> None:
    """Of a new provider and of one that is changed, as for resources."""
    body = {"identifier": f"https://{zone.api.named()}.example", "name": "Provider"}
    made = zone.make("providers", **body | scopes(place, "a", "b"))
    path = zone.path(f"/providers/{made['id']}")
    other = body | {"identifier": f"https://{zone.api.named()}.example"} | scopes(place, *named)

    assert zone.api.refused(400, "POST", zone.path("/providers"), other)["details"][0]["field"].startswith(
        f"protocols.{place}"
    )
    zone.api.refused(400, "PATCH", path, scopes(place, *named))
    protocol, member = place.split(".")
    assert zone.api.ok("GET", path)["protocols"][protocol][member] == ["a", "b"]


@pytest.mark.parametrize("place", PLACES)
def test_scopes_of_before_stay(zone: Zone, place: str) -> None:
    """What was stored when any text was accepted is read, and its provider changed."""
    body = {"identifier": f"https://{zone.api.named()}.example", "name": "Provider"}
    made = zone.make("providers", **body | scopes(place, "a", "b"))
    protocol, member = place.split(".")
    table = TABLES["Provider"]
    path = zone.path(f"/providers/{made['id']}")

    async def store(services: Services) -> None:
        async with services.database.transaction() as conn:
            of_it = table.c.id == made["id"]
            kept = (await conn.execute(select(table.c.protocols).where(of_it))).scalar_one()
            kept = {**kept, protocol: {**kept[protocol], member: ["a b", "a b"]}}
            await conn.execute(table.update().where(of_it).values(protocols=kept))

    zone.api.server.call(store)

    assert zone.api.ok("GET", path)["protocols"][protocol][member] == ["a b", "a b"]
    renamed = zone.api.ok("PATCH", path, {"name": "Another"})
    assert (renamed["name"], renamed["protocols"][protocol][member]) == ("Another", ["a b", "a b"])
    zone.api.refused(400, "PATCH", path, scopes(place, "a b"))
    assert zone.api.ok("PATCH", path, scopes(place, "a"))["protocols"][protocol][member] == ["a"]

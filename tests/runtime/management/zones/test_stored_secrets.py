"""A provider's stored secret goes to the addresses that it was given for, and nowhere else."""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update
from tests.runtime.management.conftest import Api, Zone
from tests.runtime.management.zones.test_provider_checks import SECRET, Told, scripted

from runtime.adapters.keys.sealing import SealBroken, Sealer, new_data_key
from runtime.domain.kinds import PROVIDER
from runtime.domain.kinds.provider import Provider, ProviderOAuth2, ProviderProtocols
from runtime.services import address_bound_secrets
from runtime.services.container import Services
from runtime.storage.sql.tables import TABLES

TABLE = TABLES[PROVIDER.name]


@pytest.fixture
def good() -> Iterator[Told]:
    """The provider that the secret was given for."""
    with scripted() as provider:
        yield provider


@pytest.fixture
def evil() -> Iterator[Told]:
    """Another server, which publishes all that a provider does."""
    with scripted() as provider:
        yield provider


def made(zone: Zone, told: Told, **members: Any) -> str:
    """The path of a provider with the secret, which the checks pass."""
    body = {"client_id": "zone", "client_secret": SECRET, "identifier": told.issuer} | members
    path = zone.path(f"/providers/{zone.make('providers', **body)['id']}")
    assert zone.api.ok("POST", f"{path}/validate")["status"] == "pass"
    assert told.asked.count("/token") == 1
    return path


def moves(evil: Told) -> list[dict[str, Any]]:
    """Every way to another address."""
    oauth2 = {
        "issuer": {"issuer": evil.issuer},
        "token_endpoint": {"token_endpoint": f"{evil.issuer}/token"},
        "jwks_uri": {"jwks_uri": f"{evil.issuer}/keys"},
        "revocation_endpoint": {"revocation_endpoint": f"{evil.issuer}/revoke"},
    }
    return [{"identifier": evil.issuer}, *({"protocols": {"oauth2": one}} for one in oauth2.values())]


@pytest.mark.threat("46a", "46b", "46c", "46d", "46e")
@pytest.mark.parametrize("move", range(5))
def test_another_address_takes_the_secret_again(zone: Zone, good: Told, evil: Told, move: int) -> None:
    """The change is refused without it, with what to do; a check afterwards still goes to the old address."""
    path, patch = made(zone, good), moves(evil)[move]

    refused = zone.api.refused(400, "PATCH", path, patch)
    assert "send it again" in refused["message"]
    assert refused["message"].startswith("`client_secret`")

    assert zone.api.ok("POST", f"{path}/validate")["status"] == "pass"
    assert good.asked.count("/token") == 2
    assert evil.asked == []
    zone.api.ok("PATCH", path, {"name": "Any other change", "client_id": "zone"})


@pytest.mark.threat("46i")
def test_given_again_it_is_used_there(zone: Zone, good: Told, evil: Told) -> None:
    """With the new address; or it is cleared, and nothing is sent."""
    path = made(zone, good)
    zone.api.ok("PATCH", path, {"identifier": evil.issuer, "client_secret": SECRET})
    assert zone.api.ok("POST", f"{path}/validate")["status"] == "pass"
    assert evil.asked.count("/token") == 1

    zone.api.ok("PATCH", path, {"identifier": good.issuer, "client_secret": None})
    result = zone.api.ok("POST", f"{path}/validate")
    assert {each["check"]: each["status"] for each in result["checks"]}["credential_exchange"] == (
        "skipped_with_reason"
    )
    assert good.asked.count("/token") == 1


def test_saying_the_same_address_otherwise_is_no_move(zone: Zone, good: Told) -> None:
    """The issuer is the identifier where nothing else is said."""
    path = made(zone, good)
    zone.api.ok("PATCH", path, {"protocols": {"oauth2": {"issuer": good.issuer, "scopes_supported": ["a"]}}})
    assert zone.api.ok("POST", f"{path}/validate")["status"] == "pass"


def test_a_row_that_was_changed_by_hand_opens_no_secret(zone: Zone, good: Told, evil: Told) -> None:
    """It is sealed for its addresses, however others came there."""
    path = made(zone, good)
    entity_id = path.rpartition("/")[2]

    async def move(services: Services) -> None:
        async with services.database.transaction() as conn:
            await conn.execute(update(TABLE).where(TABLE.c.id == entity_id).values(identifier=evil.issuer))

    zone.api.server.call(move)

    result = zone.api.ok("POST", f"{path}/validate")
    assert {each["check"]: each["status"] for each in result["checks"]}["credential_exchange"] == (
        "skipped_with_reason"
    )
    assert "/token" not in evil.asked


def test_a_secret_from_before_still_opens(zone: Zone, good: Told) -> None:
    """It was sealed for its row alone, and is guarded by the refusal of another address."""
    path = made(zone, good)
    entity_id = path.rpartition("/")[2]

    async def as_before(services: Services) -> None:
        view = await services.zones.get(zone.id)
        sealed = view.sealer.seal(SECRET.encode(), bound_to=f"providers/{entity_id}/client_secret")
        async with services.database.transaction() as conn:
            await conn.execute(update(TABLE).where(TABLE.c.id == entity_id).values(client_secret=sealed))
            assert (await conn.execute(select(TABLE.c.id).where(TABLE.c.client_secret == sealed))).first()

    zone.api.server.call(as_before)

    assert zone.api.ok("POST", f"{path}/validate")["status"] == "pass"
    zone.api.refused(400, "PATCH", path, {"identifier": "https://other.example"})


def test_a_secret_sealed_before_an_address_was_added_opens() -> None:
    """Its seal knows of three addresses: it opens for them, and not beside a revocation endpoint."""
    sealer, issuer = Sealer(new_data_key()), "https://idp.example"
    digest = sha256(orjson.dumps([issuer, None, None])).hexdigest()
    sealed = sealer.seal(SECRET.encode(), bound_to=f"providers/{'p' * 26}/client_secret/{digest}")
    known = {"organization_id": "o", "zone_id": "z", "name": "P", "slug": "p", "identifier": issuer}
    times = {"created_at": datetime.now(UTC), "updated_at": datetime.now(UTC)}
    before = Provider.model_validate({"id": "p" * 26, **known, **times, "client_secret": sealed})
    oauth2 = ProviderOAuth2(issuer=issuer, revocation_endpoint="https://evil.example/revoke")
    moved = before.model_copy(update={"protocols": ProviderProtocols(oauth2=oauth2)})

    assert address_bound_secrets.opened(sealer, PROVIDER, before, "client_secret") == SECRET
    with pytest.raises(SealBroken):
        address_bound_secrets.opened(sealer, PROVIDER, moved, "client_secret")


def test_the_connection_of_an_organization_has_the_same_rule(api: Api, good: Told, evil: Told) -> None:
    """Its people's provider is a provider."""
    path = f"/organizations/{api.organization_id}/sso-connection"
    api.ok("POST", path, {"client_id": "zone", "client_secret": SECRET, "identifier": good.issuer})
    try:
        assert not [
            patch
            for patch in (
                {"identifier": evil.issuer},
                {"protocols": {"oauth2": {"token_endpoint": f"{evil.issuer}/token"}}},
                {"protocols": {"oauth2": {"jwks_uri": f"{evil.issuer}/keys"}}},
            )
            if "send it again" not in api.refused(400, "PATCH", path, patch)["message"]
        ]
        api.ok("PATCH", path, {"identifier": evil.issuer, "client_secret": SECRET})
    finally:
        api.ok("DELETE", path)

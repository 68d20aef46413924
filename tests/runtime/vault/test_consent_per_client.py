"""A user's consent to one client never lets another one use what is in the vault for that user."""

from datetime import timedelta

import pytest
from tests.runtime.vault.conftest import KEY, Desk

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds.user_agent import ClientMetadata, Registration
from runtime.services.authority.consents import require_allowance
from runtime.services.client_types import Client, UserAgentClient
from runtime.services.clients import client_lookup, dynamic_registration
from runtime.services.vault import credentials

SORTS = ("managed", "dynamic", "described")


async def client_of(desk: Desk, sort: str, name: str) -> Client:
    """A client of that sort, which asks for consent."""
    services = desk.scene.services
    zone = await services.zones.get(desk.scene.zone.id)
    metadata = ClientMetadata(redirect_uris=[f"http://127.0.0.1/{name}"], client_name=name)
    if sort == "managed":
        app = {"first": desk.shy, "second": desk.coy}[name]
        return await client_lookup.resolve_client(services, zone, app.client_id)
    if sort == "dynamic":
        document = {"redirect_uris": metadata.redirect_uris, "client_name": name}
        return UserAgentClient(await dynamic_registration.register(services, zone, document))
    return UserAgentClient(
        await dynamic_registration.store_client(
            services,
            zone,
            f"https://{name}.test/client.json",
            metadata,
            Registration.METADATA_DOCUMENT,
            fresh_until=services.clock() + timedelta(days=1),
        )
    )


async def used_by(desk: Desk, client: Client) -> str:
    """The key, as the exchange obtains it for a client. Raises AccessDenied."""
    services, now = desk.scene.services, desk.scene.services.clock()
    zone = await services.zones.get(desk.scene.zone.id)
    root = await zone.session_roots.read(desk.ann.session_id)
    assert root is not None
    allowance = await require_allowance(services, zone, client, root, desk.resource, wanted=None, now=now)
    found = await credentials.require(
        services, zone, client, root, desk.resource, desk.vault, allowance=allowance, now=now
    )
    return found.access_token.get_secret_value()


@pytest.mark.threat("44a", "44b", "44c")
@pytest.mark.parametrize("second", SORTS)
@pytest.mark.parametrize("first", SORTS)
async def test_each_client_needs_the_users_consent_of_its_own(desk: Desk, first: str, second: str) -> None:
    """The grant is shared by both; the second client may use it when the user has agreed to that one too."""
    one, other = await client_of(desk, first, "first"), await client_of(desk, second, "second")
    assert one.client_ref != other.client_ref
    await desk.store()
    with pytest.raises(AccessDenied):
        await used_by(desk, one)

    await desk.agree(one.client_ref)

    assert await used_by(desk, one) == KEY
    with pytest.raises(AccessDenied) as refusal:
        await used_by(desk, other)
    assert refusal.value.members["reason"] == "user_authorization_required"

    await desk.agree(other.client_ref)
    assert await used_by(desk, other) == await used_by(desk, one) == KEY
    assert len(await desk.rows("delegated_grants")) == 1


@pytest.mark.parametrize("sort", SORTS)
async def test_consent_without_a_grant_opens_nothing(desk: Desk, sort: str) -> None:
    """What the user lets a client do is worth nothing before the user has stored a key."""
    client = await client_of(desk, sort, "first")
    await desk.agree(client.client_ref)

    with pytest.raises(AccessDenied):
        await used_by(desk, client)

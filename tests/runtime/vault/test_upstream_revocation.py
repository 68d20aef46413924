"""What ends a connected account ends it at its provider too (RFC 7009): by the outbox, not in the request."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update
from tests.runtime.vault.conftest import TOKENS, Account, account_at
from tests.support.logs import logged_lines
from tests.support.rewired import run_job
from tests.support.rotating_provider import RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Scripted

from runtime.domain.errors import OAuthError
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, USER
from runtime.services import retention
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.outbox import upstream_revocations
from runtime.storage.sql.tables import delegated_grants, outbox, vault_tokens

BOTH = [TOKENS.refresh_token, TOKENS.access_token]


@pytest.fixture
def idp() -> Iterator[RotatingProvider]:
    """The provider."""
    with rotating_provider() as running:
        yield running


@pytest.fixture
async def connected(own_scene: Scene, idp: RotatingProvider) -> Account:
    """Ann's account at the provider."""
    account = await account_at(own_scene, idp.server.url, **idp.settings)
    await account.connect()
    return account


async def end(account: Account, what: str) -> None:
    """Revoke or delete the grant, or delete what it belongs to."""
    company, zone_id = account.scene.company, account.scene.zone.id
    (grant,) = await account.rows("delegated_grants")
    if what == "revoked":
        await company.update(DELEGATED_GRANT, zone_id, grant["id"], status="revoked")
        return
    kind, entity_id = {
        "grant": (DELEGATED_GRANT, grant["id"]),
        "user": (USER, account.ann.user.id),
        "resource": (RESOURCE, account.resource.id),
    }[what]
    await company.delete(kind, zone_id, entity_id)


async def waiting(account: Account) -> int:
    """How many revocations wait in the outbox."""
    rows = await account.rows("outbox")
    return sum(row["topic"] == upstream_revocations.TOPIC and row["parked_at"] is None for row in rows)


@pytest.mark.parametrize("what", ["revoked", "grant", "user", "resource"])
async def test_what_ends_here_ends_at_the_provider(
    connected: Account, idp: RotatingProvider, what: str
) -> None:
    """Both tokens, the refresh token first, with the zone's credentials; and nothing is left to deliver."""
    await end(connected, what)
    assert idp.revoked == []

    await connected.scene.services.outbox.deliver_due()

    assert idp.revoked == BOTH
    assert idp.server.at("/revoke")[0].basic == ("zone", "zone-secret")
    assert await waiting(connected) == 0


async def test_renaming_the_resource_ends_them_too(connected: Account, idp: RotatingProvider) -> None:
    """They were given for the former address."""
    await connected.scene.company.update(
        RESOURCE, connected.scene.zone.id, connected.resource.id, identifier="https://moved.test"
    )

    await connected.scene.services.outbox.deliver_due()

    assert idp.revoked == BOTH


async def test_revoking_on_the_account_page_ends_them_too(connected: Account, idp: RotatingProvider) -> None:
    """As by the API."""
    services = connected.scene.services
    zone = await services.zones.get(connected.scene.zone.id)
    root = await zone.session_roots.read(connected.ann.session_id)
    assert root is not None
    (grant,) = await connected.rows("delegated_grants")

    await withdrawal.grant(services, zone, SignedInUser(root.session, root.principal.user), grant["id"])
    await services.outbox.deliver_due()

    assert idp.revoked == BOTH


async def test_connecting_again_revokes_nothing(connected: Account, idp: RotatingProvider) -> None:
    """A provider that ends all of a user's tokens with one of them would end the new one."""
    await connected.connect(replace(TOKENS, access_token="at-again"))

    await connected.scene.services.outbox.deliver_due()

    assert idp.revoked == []


async def test_the_outbox_has_no_token_in_clear(connected: Account) -> None:
    """The message is sealed, and the tokens in it as the vault had them."""
    await end(connected, "revoked")

    (row,) = [row for row in await connected.rows("outbox") if row["topic"] == upstream_revocations.TOPIC]
    assert TOKENS.access_token.encode() not in row["payload_sealed"]


async def test_a_provider_that_is_down_is_told_later(connected: Account, idp: RotatingProvider) -> None:
    """The message stays, and is tried again when it is due."""
    services = connected.scene.services
    idp.revocation = Scripted(status=503)
    await end(connected, "revoked")
    await services.outbox.deliver_due()
    assert await waiting(connected) == 1

    idp.revocation = None
    async with services.database.transaction() as conn:
        await conn.execute(update(outbox).values(next_attempt_at=services.clock() - timedelta(seconds=1)))
    await services.outbox.deliver_due()

    assert idp.revoked[-2:] == BOTH
    assert await waiting(connected) == 0


async def test_a_provider_that_refuses_is_not_asked_again(connected: Account, idp: RotatingProvider) -> None:
    """Its answer will not change by itself: a dead letter, logged without the token."""
    idp.revocation = Scripted({"error": "invalid_client"}, 401)
    await end(connected, "revoked")

    with logged_lines() as lines:
        await connected.scene.services.outbox.deliver_due()
        await connected.scene.services.outbox.deliver_due()

    assert len(idp.revoked) == 1
    assert "invalid_client" in str(lines)
    assert TOKENS.access_token not in str(lines)
    assert str(TOKENS.refresh_token) not in str(lines)


async def test_a_provider_without_the_endpoint_is_sent_nothing(
    own_scene: Scene, idp: RotatingProvider
) -> None:
    """The tokens end there by themselves."""
    account = await account_at(own_scene, idp.server.url, **idp.settings_without("revocation_endpoint"))
    await account.connect()
    await end(account, "revoked")

    await account.scene.services.outbox.deliver_due()

    assert idp.revoked == []
    assert await waiting(account) == 0


@pytest.mark.parametrize("change", ["another", "deleted"])
async def test_a_provider_that_was_changed_meanwhile_is_sent_no_token(
    connected: Account, idp: RotatingProvider, change: str
) -> None:
    """They came from other addresses than it has now."""
    company, zone_id = connected.scene.company, connected.scene.zone.id
    await end(connected, "revoked")
    if change == "another":
        body = {"client_id": "another", "client_secret": "another"}
        await company.update(PROVIDER, zone_id, connected.provider.id, **body)
    else:
        await company.update(RESOURCE, zone_id, connected.resource.id, credential_provider_id=None)
        await company.delete(PROVIDER, zone_id, connected.provider.id)

    await connected.scene.services.outbox.deliver_due()

    assert idp.revoked == []


async def test_what_a_refresh_brings_for_a_revoked_grant_is_revoked(
    connected: Account, idp: RotatingProvider
) -> None:
    """Nobody has it here, so nobody is to have it there."""
    services = connected.scene.services
    idp.current, idp.delay_seconds = TOKENS.refresh_token, 0.5
    past = services.clock() - timedelta(seconds=1)
    async with services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens)
            .where(vault_tokens.c.zone_id == connected.scene.zone.id)
            .values(expires_at=past, refresh_at=past)
        )
    request = asyncio.create_task(connected.exchange())
    await asyncio.to_thread(idp.asked.wait, 10)
    await end(connected, "revoked")
    with suppress(OAuthError):
        await request

    await services.outbox.deliver_due()

    assert {"at-1", "rt-1"} <= set(idp.revoked)


@pytest.mark.parametrize(
    ("days_ago", "state", "is_kept"), [(31, "dead", False), (29, "dead", True), (31, "live", True)]
)
async def test_dead_credentials_are_forgotten_in_time(
    connected: Account, days_ago: int, state: str, is_kept: bool
) -> None:
    """Thirty days after their provider has ended them; the grant stays, and with it what the user said."""
    services = connected.scene.services
    async with services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens)
            .where(vault_tokens.c.zone_id == connected.scene.zone.id)
            .values(state=state, updated_at=services.clock() - timedelta(days=days_ago))
        )

    await run_job(services, retention.JOB)

    assert bool(await connected.rows("vault_tokens")) == is_kept
    assert len(await connected.rows("delegated_grants")) == 1


async def test_credentials_of_expired_grants_are_forgotten_in_time(connected: Account) -> None:
    """As long after the grant has expired."""
    services = connected.scene.services
    async with services.database.transaction() as conn:
        await conn.execute(
            update(delegated_grants)
            .where(delegated_grants.c.zone_id == connected.scene.zone.id)
            .values(expires_at=services.clock() - timedelta(days=31))
        )

    await run_job(services, retention.JOB)

    assert await connected.rows("vault_tokens") == []

"""What ends a connected account ends it at its provider too (RFC 7009): by the outbox, not in the request."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import update
from tests.runtime.vault.conftest import SCOPES, TOKENS, Account, account_at, three_apps
from tests.support.factories import Company, found_company
from tests.support.logs import logged_lines
from tests.support.rewired import run_job, with_new_zones
from tests.support.rotating_provider import RotatingProvider, rotating_provider
from tests.support.scene import Scene
from tests.support.scripted_provider import Scripted

from runtime.domain.errors import OAuthError
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, USER, ZONE, Verb
from runtime.domain.kinds.values import TokenEndpointAuthMethod
from runtime.services import retention
from runtime.services.account import withdrawal
from runtime.services.authority.browser_sessions import SignedInUser
from runtime.services.container import Services
from runtime.services.management.members import organization_users
from runtime.services.management.organizations import sso
from runtime.services.management.unit_of_work import unit_of_work
from runtime.services.vault import upstream_revocations
from runtime.storage.sql import vault_tokens as vault_storage
from runtime.storage.sql.tables import delegated_grants, outbox, vault_tokens
from runtime.storage.sql.vault_tokens import SealedTokens

BOTH = [TOKENS.refresh_token, TOKENS.access_token]
LATER = replace(TOKENS, access_token="at-later", refresh_token="rt-later")


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
    if what == "zone":
        await company.run(ZONE, Verb.DELETE, {}, zone_id)
        return
    grant = await grant_of(account)
    if what == "revoked":
        await company.update(DELEGATED_GRANT, zone_id, grant["id"], status="revoked")
        return
    kind, entity_id = {
        "grant": (DELEGATED_GRANT, grant["id"]),
        "user": (USER, account.ann.user.id),
        "resource": (RESOURCE, account.resource.id),
        "provider": (PROVIDER, account.provider.id),
    }[what]
    await company.delete(kind, zone_id, entity_id)


async def grant_of(account: Account) -> dict[str, Any]:
    """The delegated grant of Ann for the resource."""
    of_ann = {"user_id": account.ann.user.id, "resource_id": account.resource.id}
    (grant,) = [row for row in await account.rows("delegated_grants") if of_ann.items() <= row.items()]
    return grant


async def make_due(account: Account) -> None:
    """Let what waits for another attempt be due."""
    services = account.scene.services
    async with services.database.transaction() as conn:
        await conn.execute(update(outbox).values(next_attempt_at=services.clock() - timedelta(seconds=1)))


async def waiting(account: Account) -> int:
    """How many revocations wait in the outbox."""
    rows = await account.rows("outbox")
    return sum(row["topic"] == upstream_revocations.TOPIC and row["parked_at"] is None for row in rows)


@pytest.mark.parametrize("what", ["revoked", "grant", "user", "resource", "provider", "zone"])
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
    await make_due(connected)
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


@pytest.mark.threat("46h")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("change", ["client", "address", "provider", "zone"])
async def test_tokens_are_revoked_where_they_came_from(
    connected: Account, idp: RotatingProvider, change: str, when: str
) -> None:
    """With the client and the secret of then, whether the provider changes, or goes, first or afterwards."""
    company, zone_id = connected.scene.company, connected.scene.zone.id
    with rotating_provider() as elsewhere:
        if when == "after":
            await end(connected, "revoked")
        if change == "client":
            body = {"client_id": "another", "client_secret": "another"}
            await company.update(PROVIDER, zone_id, connected.provider.id, **body)
        elif change == "address":
            await company.update(PROVIDER, zone_id, connected.provider.id, **elsewhere.settings)
        else:
            await end(connected, change)

        await connected.scene.services.outbox.deliver_due()

        assert idp.revoked == BOTH
        assert {each.basic for each in idp.server.at("/revoke")} == {("zone", "zone-secret")}
        assert elsewhere.server.received == []


async def test_a_secret_that_was_rotated_meanwhile_is_used(connected: Account, idp: RotatingProvider) -> None:
    """The provider is the same, and takes the former one no longer."""
    await end(connected, "revoked")
    await connected.scene.company.update(
        PROVIDER, connected.scene.zone.id, connected.provider.id, client_secret="rotated"
    )

    await connected.scene.services.outbox.deliver_due()

    assert {each.basic for each in idp.server.at("/revoke")} == {("zone", "rotated")}


@pytest.mark.parametrize("method", [TokenEndpointAuthMethod.PRIVATE_KEY_JWT, None], ids=["key", "secret"])
async def test_without_the_zone_nobody_signs_for_it(
    own_scene: Scene, idp: RotatingProvider, method: TokenEndpointAuthMethod | None
) -> None:
    """Where the zone's own key is what it authenticates by, the tokens end at the provider by themselves."""
    settings = idp.settings
    settings["protocols"]["oauth2"]["token_endpoint_auth_method"] = method
    if method is not None:
        del settings["client_secret"]
    account = await account_at(own_scene, idp.server.url, **settings)
    await account.connect()
    await end(account, "zone")

    await account.scene.services.outbox.deliver_due()

    assert idp.revoked == ([] if method is not None else BOTH)


async def again(account: Account, how: str) -> None:
    """Ann connects an account again: for the same resource, for another one, or by another provider's row."""
    company, zone, provider = account.scene.company, account.scene.zone, account.provider
    if how == "same":
        await account.connect(LATER)
        return
    if how == "another row":
        body = provider.model_dump(mode="json", include={"name", "client_id", "protocols"})
        provider = await company.create(PROVIDER, zone.id, identifier="again", client_secret="s", **body)
    resource = await company.resource(
        zone, "https://boards.test", scopes=list(SCOPES), credential_provider_id=provider.id
    )
    await replace(account, resource=resource, provider=provider).connect(LATER)


@pytest.mark.parametrize("how", ["same", "another", "another row"])
async def test_a_late_revocation_ends_no_new_connection(
    connected: Account, idp: RotatingProvider, how: str
) -> None:
    """Many a provider ends all of a user's tokens with one of them, so it is told of none."""
    services = connected.scene.services
    idp.revocation = Scripted(status=503)
    await end(connected, "revoked")
    await services.outbox.deliver_due()
    assert idp.revoked == BOTH[:1]  # it was tried

    idp.revocation = None
    await again(connected, how)
    await make_due(connected)
    await services.outbox.deliver_due()

    assert idp.revoked == BOTH[:1]
    assert await waiting(connected) == 0


async def test_one_of_two_connections_ends_without_the_other(
    connected: Account, idp: RotatingProvider
) -> None:
    """The provider is told when the last one ends."""
    services = connected.scene.services
    await again(connected, "another")
    await end(connected, "revoked")
    await services.outbox.deliver_due()
    assert idp.revoked == []

    (left,) = [each for each in await connected.rows("delegated_grants") if each["status"] == "active"]
    await connected.scene.company.update(DELEGATED_GRANT, left["zone_id"], left["id"], status="revoked")
    await services.outbox.deliver_due()

    assert idp.revoked == [LATER.refresh_token, LATER.access_token]


@pytest.mark.parametrize("other", ["dead", "expired", "of another user", "elsewhere"])
async def test_what_keeps_no_revocation_back(connected: Account, idp: RotatingProvider, other: str) -> None:
    """A credential that is worth nothing any more, another user's, and one of another provider."""
    scene = connected.scene
    if other == "of another user":
        await connected.connect(LATER, person=await scene.company.person(scene.zone, "bob@acme.test"))
    elif other == "elsewhere":
        body = {"name": "Other", "client_id": "zone", "client_secret": "s"}
        provider = await scene.company.create(
            PROVIDER, scene.zone.id, identifier="https://other.test", **body
        )
        resource = await scene.company.resource(
            scene.zone, "https://other.test/api", scopes=list(SCOPES), credential_provider_id=provider.id
        )
        await replace(connected, resource=resource, provider=provider).connect(LATER)
    else:
        await again(connected, "another")
        await worthless(connected, other)
    await end(connected, "revoked")

    await scene.services.outbox.deliver_due()

    assert idp.revoked == BOTH


async def worthless(account: Account, how: str) -> None:
    """Let every credential but that for the resource be dead, or its grant be over."""
    mine = (await grant_of(account))["id"]
    if how == "dead":
        change = update(vault_tokens).where(vault_tokens.c.grant_id != mine).values(state="dead")
    else:
        over = account.scene.services.clock() - timedelta(seconds=1)
        change = update(delegated_grants).where(delegated_grants.c.id != mine).values(expires_at=over)
    async with account.scene.services.database.transaction() as conn:
        await conn.execute(change)


async def test_a_message_of_another_release_waits_for_one_that_knows_it(
    connected: Account, idp: RotatingProvider
) -> None:
    """It is tried again, by whichever release runs then."""
    services = connected.scene.services
    async with services.database.transaction() as conn:
        await services.outbox.enqueue(
            conn,
            upstream_revocations.TOPIC,
            {"row_id": "r", "access_token": "t"},
            organization_id=connected.scene.zone.organization_id,
            zone_id=connected.scene.zone.id,
        )

    await services.outbox.deliver_due()

    assert await waiting(connected) == 1


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
    assert [row["refresh_token_set"] for row in await connected.rows("delegated_grants")] == [is_kept]


async def test_credentials_of_expired_grants_are_forgotten_in_time(connected: Account) -> None:
    """As long after the grant has expired."""
    services = connected.scene.services
    await connected.connect(replace(TOKENS, refresh_token_expires_in_seconds=60))

    for days, left in ((29, 1), (31, 0)):
        now = services.clock() + timedelta(days=days)
        await run_job(with_new_zones(services, clock=partial(_time, now)), retention.JOB)
        assert len(await connected.rows("vault_tokens")) == left


async def test_a_refresh_that_brings_another_end_is_forgotten_by_that(connected: Account) -> None:
    """The end of the grant in the vault is the one that the grant has."""
    services = connected.scene.services
    await connected.connect(replace(TOKENS, refresh_token_expires_in_seconds=60))
    (row,), grant = await connected.rows("vault_tokens"), await grant_of(connected)
    later = services.clock() + timedelta(days=90)
    sealed = SealedTokens(b"a", b"r", "Bearer", None)
    async with services.database.transaction() as conn:
        assert await vault_storage.replace(
            conn,
            row["id"],
            sealed,
            zone_id=row["zone_id"],
            version=1,
            now=services.clock(),
            scopes=frozenset(SCOPES),
            grant_expires_at=later,
        )

    now = services.clock() + timedelta(days=31)
    await run_job(with_new_zones(services, clock=partial(_time, now)), retention.JOB)

    assert grant["expires_at"] < later == (await grant_of(connected))["expires_at"]
    assert len(await connected.rows("vault_tokens")) == 1


def _time(now: datetime) -> datetime:
    return now


async def account_at_sso(company: Company) -> Account:
    """An account at the provider of an organization's single sign-on, which issues for a resource, too."""
    endpoints = {name: f"https://sso.test/{name}" for name in ("authorization_endpoint", "token_endpoint")}
    body = {"identifier": "https://sso.test", "client_id": "zone", "protocols": {"oauth2": endpoints}}
    async with unit_of_work(company.services, company.caller, "test") as unit:
        made = await sso.enable(unit, {"organization_id": company.organization_id}, body)
        home = await organization_users.home_zone(unit)
    resource = await company.resource(
        home, "https://tracker.test", scopes=list(SCOPES), credential_provider_id=made.id
    )
    scene = Scene(company, home)
    apps = await three_apps(scene, resource)
    provider = await (await company.services.zones.get(home.id)).providers.get(made.id)
    assert provider is not None
    account = Account(scene, provider, resource, *apps, await company.person(home, "ann@acme.test"))
    await account.connect()
    return account


@pytest.mark.threat("46m")
@pytest.mark.parametrize("how", ["another issuer", "disabled"])
async def test_the_provider_of_single_sign_on_ends_as_any(services: Services, how: str) -> None:
    """What it has issued is revoked there, and handed out to nobody any more."""
    account = await account_at_sso(await found_company(services, "Acme"))
    company = account.scene.company
    assert (await account.exchange())["access_token"] == TOKENS.access_token
    of_this = {"organization_id": company.organization_id}

    async with unit_of_work(company.services, company.caller, "test") as unit:
        if how == "disabled":
            await sso.disable(unit, of_this)
        else:
            await sso.update(unit, of_this, {"identifier": "https://other.test"})

    assert await account.rows("vault_tokens") == []
    assert await waiting(account) == 1
    answer: dict[str, Any] = {}
    with suppress(OAuthError):
        answer = await account.exchange()  # a resource without a provider has tokens of the zone
    assert answer.get("access_token") != TOKENS.access_token

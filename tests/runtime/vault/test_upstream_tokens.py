"""Tokens of an account that a user has connected are handed out by token exchange, as stored keys are."""

from dataclasses import replace

import pytest
from pydantic import SecretStr
from sqlalchemy import update
from tests.runtime.vault.conftest import TOKENS, Account

from runtime.adapters.keys.sealing import SealBroken
from runtime.domain.errors import AccessDenied, InvalidRequest, InvalidScope
from runtime.domain.kinds import DELEGATED_GRANT, PROVIDER, RESOURCE, SECRET
from runtime.domain.kinds.provider import Provider
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.services.vault.sealing import VaultTokens, open_refresh_token, seal
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import vault_tokens
from runtime.storage.sql.vault_tokens import SealedTokens

REQUIRED = "user_authorization_required"


async def test_an_exchange_hands_out_the_providers_access_token(account: Account) -> None:
    """With the members of RFC 8693, and for no longer than the provider said."""
    await account.connect()

    answer = await account.exchange()

    assert answer["access_token"] == TOKENS.access_token
    assert answer["issued_token_type"] == ACCESS_TOKEN
    assert answer["token_type"] == "Bearer"
    assert answer["scope"] == "read write"
    assert 1780 <= answer["expires_in"] <= 1800


async def test_a_token_without_lifetime_is_asked_for_again_as_a_token_of_the_zone(account: Account) -> None:
    """Nobody knows when it ends; the application asks again when one of the zone would be over."""
    await account.connect(replace(TOKENS, expires_in_seconds=None))

    assert 3590 <= (await account.exchange())["expires_in"] <= 3600


async def test_the_refresh_token_stays_in_the_vault(account: Account) -> None:
    """No application gets it."""
    await account.connect()

    assert TOKENS.refresh_token not in (await account.exchange()).values()


async def test_without_an_account_the_user_is_asked_for(account: Account) -> None:
    """The refusal has the reason and the address for the user."""
    with pytest.raises(AccessDenied) as refusal:
        await account.exchange()

    assert refusal.value.members["reason"] == REQUIRED
    assert "/oauth/connect?" in refusal.value.members["error_uri"]
    assert refusal.value.internal == "no account is connected"


async def test_a_chain_without_a_user_has_no_account(account: Account) -> None:
    """The refusal says that it takes a user's token, and not that a user has not authorized."""
    await account.connect()
    own = await account.scene.post([("grant_type", "client_credentials"), *account.agent.form.items()])

    with pytest.raises(AccessDenied, match="no user is behind this request") as refusal:
        await account.scene.exchange(account.agent, own["access_token"], account.resource)

    assert "exchange a token of a user" in refusal.value.detail


async def test_a_shared_secret_does_not_stand_in_for_an_account(account: Account) -> None:
    """Users act as themselves at an outside provider; only keys of the vault can be shared."""
    body = {"name": "key", "entity_id": account.resource.id, "data": {"type": "token", "token": "sk"}}
    await account.scene.company.create(SECRET, account.scene.zone.id, **body)

    with pytest.raises(AccessDenied):
        await account.exchange()


async def test_connecting_makes_a_grant_with_the_scopes_of_the_provider(account: Account) -> None:
    """Those it granted; and the grant says that a refresh token is there."""
    await account.connect(replace(TOKENS, scopes=frozenset({"read"})))

    (grant,) = await account.rows("delegated_grants")
    assert grant["scopes"] == ["read"]
    assert grant["refresh_token_set"]
    assert grant["status"] == "active"
    assert grant["expires_at"] is None


async def test_scopes_beyond_the_request_are_dropped(account: Account) -> None:
    """Whatever the provider adds, the grant has no scope that was not requested."""
    await account.connect(replace(TOKENS, scopes=frozenset({"read", "admin"})), requested=["read"])

    assert (await account.rows("delegated_grants"))[0]["scopes"] == ["read"]
    assert (await account.exchange())["scope"] == "read"


async def test_connecting_again_replaces_the_scopes(account: Account) -> None:
    """What the former token could do says nothing about the new one."""
    await account.connect()

    await account.connect(replace(TOKENS, access_token="at-second", scopes=frozenset({"read"})))

    (grant,) = await account.rows("delegated_grants")
    assert grant["scopes"] == ["read"]
    answer = await account.exchange()
    assert (answer["access_token"], answer["scope"]) == ("at-second", "read")


async def test_who_asks_for_more_than_the_account_was_connected_for_is_sent_to_the_user(
    account: Account,
) -> None:
    """They can connect it again for more; a scope that the resource does not have is refused as such."""
    await account.connect(replace(TOKENS, scopes=frozenset({"read"})))

    with pytest.raises(AccessDenied) as refusal:
        await account.exchange(scope="read write")
    assert refusal.value.members["reason"] == "user_authorization_required"
    with pytest.raises(InvalidScope):
        await account.exchange(scope="read admin")


@pytest.mark.parametrize("scope", ["read", "write"])
async def test_a_token_is_not_handed_out_for_a_part_of_its_scopes(account: Account, scope: str) -> None:
    """Who asks for less than it can do is refused, as for a key."""
    await account.connect()

    with pytest.raises(InvalidScope, match="cannot be narrowed"):
        await account.exchange(scope=scope)


async def test_a_consent_to_a_part_does_not_open_the_account(account: Account) -> None:
    """An application that may read gets no token that may write."""
    await account.connect()
    await account.agree(ClientRef(application_id=account.shy.id), ["read"])

    with pytest.raises(AccessDenied):
        await account.exchange(account.shy)


async def test_the_consent_to_one_application_is_none_to_another(account: Account) -> None:
    """The account is shared by both; each needs the user's consent of its own."""
    await account.connect()
    await account.agree(ClientRef(application_id=account.shy.id))

    assert (await account.exchange(account.shy))["access_token"] == TOKENS.access_token
    with pytest.raises(AccessDenied) as refusal:
        await account.exchange(account.coy)
    assert refusal.value.internal == (
        "the user has not consented, or has withdrawn the consent to this application"
    )


async def test_a_resource_that_loses_a_scope_takes_another_authorization(account: Account) -> None:
    """The token can still do what the resource does not offer any more."""
    await account.connect()
    await account.scene.company.update(RESOURCE, account.scene.zone.id, account.resource.id, scopes=["read"])

    with pytest.raises(AccessDenied) as refusal:
        await account.exchange()
    assert refusal.value.members["reason"] == REQUIRED


@pytest.mark.parametrize(
    ("refresh_token", "refresh_lifetime", "status"),
    [("rt", None, "active"), ("rt", 60, "expired"), (None, None, "expired")],
    ids=["with a refresh token", "after the refresh token", "without a refresh token"],
)
async def test_a_grant_ends_with_what_keeps_it_alive(
    account: Account, refresh_token: str | None, refresh_lifetime: int | None, status: str
) -> None:
    """With its refresh token, where there is one; else with its access token."""
    tokens = replace(
        TOKENS,
        expires_in_seconds=60,
        refresh_token=refresh_token,
        refresh_token_expires_in_seconds=refresh_lifetime,
    )
    grant_id = await account.connect(tokens)

    (grant,) = await account.rows("delegated_grants")
    assert grant["id"] == grant_id
    assert (grant["expires_at"] is None) == (status == "active")


async def test_an_account_is_its_users_alone(account: Account) -> None:
    """Somebody else's exchange at the same application does not open it."""
    await account.connect()
    eve = await account.scene.company.person(account.scene.zone, "eve@acme.test")

    with pytest.raises(AccessDenied):
        await account.exchange(person=eve)


async def test_a_revoked_grant_forgets_the_tokens(account: Account) -> None:
    """In the transaction that revokes it."""
    grant_id = await account.connect()

    await account.scene.company.update(DELEGATED_GRANT, account.scene.zone.id, grant_id, status="revoked")

    assert await account.rows("vault_tokens") == []
    with pytest.raises(AccessDenied):
        await account.exchange()


@pytest.mark.parametrize("changed", ["provider", "resource"])
async def test_tokens_of_a_provider_that_was_changed_meanwhile_are_not_kept(
    account: Account, changed: str
) -> None:
    """What was issued before belongs to another client, or to another resource."""
    company, zone_id = account.scene.company, account.scene.zone.id
    if changed == "provider":
        await company.update(PROVIDER, zone_id, account.provider.id, client_id="another")
    else:
        await company.update(RESOURCE, zone_id, account.resource.id, identifier="https://moved.test")

    with pytest.raises(InvalidRequest, match="connect the account again"):
        await account.connect()

    assert await account.rows("vault_tokens") == []


async def test_the_database_has_no_token_in_clear(account: Account) -> None:
    """Neither the access token nor the refresh token."""
    await account.connect()

    (row,) = await account.rows("vault_tokens")
    assert TOKENS.access_token.encode() not in row["access_token"]
    assert str(TOKENS.refresh_token).encode() not in row["refresh_token"]


async def test_connecting_is_recorded_without_the_tokens(account: Account) -> None:
    """The record of token events says whose account was connected for which resource."""
    await account.connect()

    (event,) = [each for each in await account.rows("token_events") if each["event"] == "credential"]
    assert (event["outcome"], event["user_id"], event["resource_id"]) == (
        "connected",
        account.ann.user.id,
        account.resource.id,
    )
    assert TOKENS.access_token not in str(event)


async def test_a_token_of_another_users_row_does_not_open(account: Account) -> None:
    """Whoever copies a ciphertext into another row of the database gets an error."""
    eve = await account.scene.company.person(account.scene.zone, "eve@acme.test")
    mine = await account.connect()
    theirs = await account.connect(replace(TOKENS, access_token="at-eve"), person=eve)
    rows = {row["grant_id"]: row for row in await account.rows("vault_tokens")}
    async with account.scene.services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens)
            .where(vault_tokens.c.grant_id == mine)
            .values(access_token=rows[theirs]["access_token"])
        )

    with pytest.raises(SealBroken):
        await account.exchange()


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "another"},
        {"identifier": "https://another.test"},
        {"protocols": {"oauth2": {"issuer": "https://idp.test", "token_endpoint": "https://x.test/t"}}},
        {"protocols": {"oauth2": {"issuer": "https://idp.test", "revocation_endpoint": "https://x.test/r"}}},
    ],
    ids=["client", "issuer", "token endpoint", "revocation endpoint"],
)
async def test_a_refresh_token_opens_for_no_other_address(
    account: Account, change: dict[str, object]
) -> None:
    """However that came into the provider's row: it is sealed for where it came from."""
    zone = await account.scene.services.zones.get(account.scene.zone.id)
    sealed = _sealed(account, account.provider)
    assert open_refresh_token(zone.sealer, "row", 1, sealed, account.provider) == SecretStr("rt")
    moved = Provider.model_validate(account.provider.model_dump() | change)

    with pytest.raises(SealBroken):
        open_refresh_token(zone.sealer, "row", 1, sealed, moved)


def _sealed(account: Account, provider: Provider) -> SealedTokens:
    zone = account.scene.services.zones.cached(account.scene.zone.id)
    assert zone is not None
    tokens = VaultTokens(SecretStr("at"), SecretStr("rt"), "Bearer", None)
    return seal(zone.sealer, "row", 1, tokens, provider)


async def test_what_a_former_provider_was_granted_says_nothing(account: Account) -> None:
    """A revoked grant of the provider that the resource had before keeps no account of the new one out."""
    company, zone_id = account.scene.company, account.scene.zone.id
    former = await account.connect()
    assert (await account.exchange())["access_token"] == TOKENS.access_token
    await company.update(DELEGATED_GRANT, zone_id, former, status="revoked")
    new = await company.create(PROVIDER, zone_id, identifier="https://new.test", name="New", client_id="zone")
    await company.update(RESOURCE, zone_id, account.resource.id, credential_provider_id=new.id)
    with pytest.raises(AccessDenied):
        await account.exchange()

    await account.connect(replace(TOKENS, access_token="at-new"), provider=new)

    assert (await account.exchange())["access_token"] == "at-new"

"""A key that a user has stored for a resource of the vault is handed out by token exchange, and ended."""

from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import update
from tests.runtime.vault.conftest import KEY, OTHER_KEY, Desk

from runtime.adapters.keys.sealing import SealBroken
from runtime.domain.errors import AccessDenied, InvalidClient, InvalidGrant, InvalidRequest, InvalidScope
from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, PROVIDER, RESOURCE, SESSION, USER
from runtime.domain.oauth.exchange import ACCESS_TOKEN
from runtime.services.vault import static_credentials
from runtime.storage.sql import consents
from runtime.storage.sql import vault_tokens as storage
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.tables import delegated_grants, vault_tokens
from runtime.storage.sql.vault_tokens import SealedTokens

REQUIRED = "user_authorization_required"


async def refused(desk: Desk, **exchange: object) -> AccessDenied:
    """The refusal of an exchange."""
    with pytest.raises(AccessDenied) as refusal:
        await desk.exchange(**exchange)  # type: ignore[arg-type]
    return refusal.value


async def test_an_exchange_hands_out_the_stored_key(desk: Desk) -> None:
    """As it was stored, with the members of RFC 8693, for as long as a token of the zone would be good."""
    await desk.store()

    answer = await desk.exchange()

    assert answer["access_token"] == KEY
    assert answer["issued_token_type"] == ACCESS_TOKEN
    assert answer["token_type"] == "Bearer"
    assert answer["scope"] == "read write"
    assert 3590 <= answer["expires_in"] <= 3600


async def test_without_a_key_the_user_is_asked_for(desk: Desk) -> None:
    """The refusal has the reason and the address for the user, also where consent is implied."""
    refusal = await refused(desk)

    assert refusal.members["reason"] == REQUIRED
    assert "/oauth/connect?" in refusal.members["error_uri"]
    assert refusal.internal == "no key is stored"


async def test_client_credentials_are_told_that_they_have_no_user(desk: Desk) -> None:
    """No user is to be asked, so there is no address for one; the text says what to do."""
    form = [("grant_type", "client_credentials"), *desk.agent.form.items()]
    assert await desk.scene.post(form)

    with pytest.raises(AccessDenied) as refusal:
        await desk.scene.post([*form, ("resource", desk.resource.identifier)])

    assert refusal.value.detail.startswith("client credentials have no user.")
    assert "token-exchange" in refusal.value.detail
    assert refusal.value.members == {"reason": "token_exchange_required"}
    await desk.scene.services.decisions.flush()
    (refused,) = [each for each in await desk.rows("token_events") if each["resource_id"] == desk.resource.id]
    assert refused["reason"] == "access_denied: token_exchange_required"


async def test_storing_makes_a_delegated_grant(desk: Desk) -> None:
    """One for the user, the resource and the vault, with the scopes of the resource."""
    await desk.store()

    (grant,) = await desk.rows("delegated_grants")
    assert (grant["user_id"], grant["resource_id"], grant["provider_id"]) == (
        desk.ann.user.id,
        desk.resource.id,
        desk.vault.id,
    )
    assert grant["status"] == "active"
    assert grant["scopes"] == ["read", "write"]
    assert not grant["refresh_token_set"]


async def test_storing_is_recorded_without_the_key(desk: Desk) -> None:
    """The record of token events says who stored a key for which resource."""
    await desk.store()

    (event,) = [each for each in await desk.rows("token_events") if each["event"] == "credential"]
    assert (event["outcome"], event["user_id"], event["resource_id"]) == (
        "stored",
        desk.ann.user.id,
        desk.resource.id,
    )
    assert KEY not in str(event)


async def test_another_key_replaces_the_first(desk: Desk) -> None:
    """The grant stays, and the next exchange hands out the new key."""
    await desk.store()
    (before,) = await desk.rows("delegated_grants")
    assert (await desk.exchange())["access_token"] == KEY

    await desk.store(OTHER_KEY)

    assert (await desk.exchange())["access_token"] == OTHER_KEY
    (after,) = await desk.rows("delegated_grants")
    assert after["id"] == before["id"]
    assert len(await desk.rows("vault_tokens")) == 1


async def test_a_key_is_its_users_alone(desk: Desk) -> None:
    """Somebody else's exchange at the same application does not get it."""
    await desk.store()
    eve = await desk.scene.company.person(desk.scene.zone, "eve@acme.test")

    await refused(desk, person=eve)

    await desk.store(OTHER_KEY, eve)
    assert (await desk.exchange(person=eve))["access_token"] == OTHER_KEY
    assert (await desk.exchange())["access_token"] == KEY


async def test_the_database_has_no_key_in_clear(desk: Desk) -> None:
    """Nothing but ciphertext is stored."""
    await desk.store()

    (row,) = await desk.rows("vault_tokens")
    assert KEY.encode() not in row["access_token"]


async def test_a_ciphertext_does_not_open_in_another_row(desk: Desk) -> None:
    """Whoever swaps two users' rows in the database gets an error, not the other user's key."""
    eve = await desk.scene.company.person(desk.scene.zone, "eve@acme.test")
    await desk.store()
    await desk.store(OTHER_KEY, eve)
    mine, theirs = await desk.rows("vault_tokens")
    async with desk.scene.services.database.transaction() as conn:
        await conn.execute(
            update(vault_tokens)
            .where(vault_tokens.c.id == mine["id"])
            .values(access_token=theirs["access_token"])
        )

    owner = {each["id"]: each["user_id"] for each in await desk.rows("delegated_grants")}[mine["grant_id"]]
    with pytest.raises(SealBroken):
        await desk.exchange(person=desk.ann if owner == desk.ann.user.id else eve)


@pytest.mark.parametrize("scope", ["read", "write"])
async def test_a_key_is_not_handed_out_for_a_part_of_its_scopes(desk: Desk, scope: str) -> None:
    """Nobody can narrow an API key, so whoever asks for less than it is worth is refused."""
    await desk.store()

    with pytest.raises(InvalidScope, match="cannot be narrowed"):
        await desk.exchange(scope=scope)


async def test_a_consent_to_a_part_does_not_open_the_key(desk: Desk) -> None:
    """An application that was allowed to read gets no key that may write."""
    await desk.store()
    await desk.agree(ClientRef(application_id=desk.shy.id), ["read"])

    refusal = await refused(desk, app=desk.shy)

    assert refusal.members["reason"] == REQUIRED


async def test_a_policy_against_a_part_refuses_the_key(desk: Desk) -> None:
    """What policy takes away cannot be taken out of a key: nothing is handed out."""
    await desk.store()
    await desk.scene.company.policies(
        desk.scene.zone,
        "permit (principal, action, resource);",
        'forbid (principal, action, resource) when { context.scopes.contains("write") };',
    )

    refusal = await refused(desk)

    assert refusal.members["reason"] == "policy_denied"


async def test_a_scope_that_the_resource_gains_is_not_the_keys(desk: Desk) -> None:
    """A key is worth what the user stored it for."""
    await desk.store()
    await desk.scene.company.update(
        RESOURCE, desk.scene.zone.id, desk.resource.id, scopes=["read", "write", "admin"]
    )
    await desk.agree(ClientRef(application_id=desk.shy.id), ["read", "write", "admin"])

    assert (await desk.exchange(desk.shy))["scope"] == "read write"


async def test_a_scope_that_the_resource_loses_makes_the_key_unusable(desk: Desk) -> None:
    """The key can still do it, and nobody can consent to what the resource does not offer any more."""
    await desk.store()
    await desk.scene.company.update(RESOURCE, desk.scene.zone.id, desk.resource.id, scopes=["read"])
    await desk.agree(ClientRef(application_id=desk.shy.id), ["read"])

    refusal = await refused(desk, app=desk.shy)

    assert refusal.members["reason"] == REQUIRED


async def test_a_key_stored_after_the_resource_lost_a_scope_is_usable(desk: Desk) -> None:
    """It replaces the scopes of the grant: they are what the resource has when the key is stored."""
    await desk.store()
    await desk.scene.company.update(RESOURCE, desk.scene.zone.id, desk.resource.id, scopes=["read"])

    await desk.store(OTHER_KEY)

    answer = await desk.exchange()
    assert (answer["access_token"], answer["scope"]) == (OTHER_KEY, "read")


async def test_a_key_is_not_said_to_have_a_scope_that_the_resource_gains(desk: Desk) -> None:
    """Also where consent is implied: `scope` is what the key can do."""
    await desk.store()
    await desk.scene.company.update(
        RESOURCE, desk.scene.zone.id, desk.resource.id, scopes=["read", "write", "admin"]
    )

    assert (await desk.exchange())["scope"] == "read write"
    with pytest.raises(InvalidScope):
        await desk.exchange(scope="read write admin")


async def test_a_revoked_grant_hands_out_nothing_and_keeps_no_key(desk: Desk) -> None:
    """Revocation by the API forgets the key in the same transaction."""
    await desk.store()
    (grant,) = await desk.rows("delegated_grants")

    await desk.revoke(grant["id"])

    assert await desk.rows("vault_tokens") == []
    refusal = await refused(desk)
    assert refusal.members["reason"] == REQUIRED
    assert (
        refusal.internal == "the user's grant for the resource was revoked, by the user or an administrator"
    )


async def test_storing_a_key_renews_a_revoked_grant(desk: Desk) -> None:
    """It is the user's own word, as consenting is for tokens of the zone."""
    await desk.store()
    (grant,) = await desk.rows("delegated_grants")
    await desk.revoke(grant["id"])

    await desk.store(OTHER_KEY)

    assert (await desk.exchange())["access_token"] == OTHER_KEY


async def test_a_key_ends_with_its_grant(desk: Desk) -> None:
    """A grant that has expired hands out nothing."""
    await desk.store()
    async with desk.scene.services.database.transaction() as conn:
        ended = desk.scene.services.clock() - timedelta(seconds=1)
        await conn.execute(update(delegated_grants).values(expires_at=ended))

    assert (await refused(desk)).internal == "the user's grant for the resource has expired"


@pytest.mark.parametrize("gone", ["grant", "user", "resource"])
async def test_a_key_goes_with_what_it_belongs_to(desk: Desk, gone: str) -> None:
    """Deleting the grant, the user or the resource leaves nothing in the vault."""
    await desk.store()
    (grant,) = await desk.rows("delegated_grants")
    kind, entity_id = {
        "grant": (DELEGATED_GRANT, grant["id"]),
        "user": (USER, desk.ann.user.id),
        "resource": (RESOURCE, desk.resource.id),
    }[gone]

    await desk.scene.company.delete(kind, desk.scene.zone.id, entity_id)

    assert await desk.rows("vault_tokens") == []


async def test_a_renamed_resource_gets_no_key_that_was_stored_for_its_former_address(desk: Desk) -> None:
    """The grant is revoked and the key forgotten: the user decides about the new address."""
    await desk.store()

    renamed = await desk.scene.company.update(
        RESOURCE, desk.scene.zone.id, desk.resource.id, identifier="https://other.test"
    )

    token = await desk.scene.company.token(desk.scene.zone, desk.agent, desk.ann)
    with pytest.raises(AccessDenied):
        await desk.scene.exchange(desk.agent, token, renamed)
    assert [each["status"] for each in await desk.rows("delegated_grants")] == ["revoked"]
    assert await desk.rows("vault_tokens") == []


async def test_a_resource_with_another_name_for_people_keeps_its_keys(desk: Desk) -> None:
    """Only the address says where a key goes."""
    await desk.store()

    await desk.scene.company.update(RESOURCE, desk.scene.zone.id, desk.resource.id, name="Tickets")

    assert (await desk.exchange())["access_token"] == KEY


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": "Another name"}, "active"),
        ({"client_id": "another-client"}, "revoked"),
        ({"identifier": "https://another.test"}, "revoked"),
        ({"protocols": {"oauth2": {"token_endpoint": "https://another.test/token"}}}, "revoked"),
        ({"protocols": {"oauth2": {"revocation_endpoint": "https://another.test/revoke"}}}, "revoked"),
    ],
    ids=["name", "client", "issuer", "token endpoint", "revocation endpoint"],
)
async def test_a_provider_that_is_another_by_now_ends_the_grants_with_its_tokens(
    desk: Desk, change: dict[str, object], status: str
) -> None:
    """What it has issued belongs to its former client at its former address, and is sent to no other."""
    scene = desk.scene
    provider = await scene.company.create(
        PROVIDER, scene.zone.id, identifier="https://idp.test", name="Elsewhere", client_id="zone"
    )
    async with scene.services.database.transaction() as conn:
        grant_id, _ = await consents.grant(
            conn,
            organization_id=scene.zone.organization_id,
            zone_id=scene.zone.id,
            user_id=desk.ann.user.id,
            resource_id=desk.resource.id,
            provider_id=provider.id,
            scopes=["read"],
            now=scene.services.clock(),
        )
        tokens = SealedTokens(b"access", b"refresh", "Bearer", None)
        now = scene.services.clock()
        await storage.put(conn, new_id(), tokens, zone_id=scene.zone.id, grant_id=grant_id, now=now)

    await scene.company.update(PROVIDER, scene.zone.id, provider.id, **change)

    (grant,) = await desk.rows("delegated_grants")
    assert grant["status"] == status
    assert len(await desk.rows("vault_tokens")) == (1 if status == "active" else 0)


@pytest.mark.parametrize("ended", ["session", "user", "application"])
async def test_a_key_is_not_handed_out_after_what_the_request_rests_on_has_ended(
    desk: Desk, ended: str
) -> None:
    """A session, a user, or an application: the vault is opened by none of them any more."""
    await desk.store()
    company, zone_id = desk.scene.company, desk.scene.zone.id
    token = await company.token(desk.scene.zone, desk.agent, desk.ann)
    assert await desk.scene.exchange(desk.agent, token, desk.resource)

    if ended == "session":
        await company.update(SESSION, zone_id, desk.ann.session_id, status="revoked")
    elif ended == "user":
        await company.update(USER, zone_id, desk.ann.user.id, status="disabled")
    else:
        await company.delete(APPLICATION, zone_id, desk.agent.id)

    with pytest.raises((InvalidGrant, InvalidClient)):
        await desk.scene.exchange(desk.agent, token, desk.resource)


@pytest.mark.parametrize("source", ["zone", "outside"])
async def test_only_resources_of_the_vault_take_a_key(desk: Desk, source: str) -> None:
    """The zone's own token service needs none, and an outside provider issues its own."""
    scene = desk.scene
    outside = await scene.company.create(
        PROVIDER, scene.zone.id, identifier="https://idp.test", name="Elsewhere"
    )
    resource = await scene.company.resource(
        scene.zone,
        "https://other.test",
        **({"credential_provider_id": outside.id} if source == "outside" else {}),
    )
    zone = await scene.services.zones.get(scene.zone.id)

    with pytest.raises(InvalidRequest, match="no key is kept"):
        await static_credentials.store(
            scene.services, zone, desk.ann.user.id, resource.id, SecretStr(KEY), shown=resource.identifier
        )


@pytest.mark.parametrize("value", ["", "  \n", "a\nb", "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 8193])
def test_what_is_no_key_is_refused(value: str) -> None:
    """An empty one, one that no header can carry, and one that is too long."""
    with pytest.raises(InvalidRequest, match="the key"):
        static_credentials.check(value)


def test_white_space_around_a_key_is_dropped() -> None:
    """A key that was copied with the line's end is stored without it."""
    assert static_credentials.check(f" {KEY}\n").get_secret_value() == KEY


async def test_an_application_without_a_user_has_no_key(desk: Desk) -> None:
    """A client credentials request for a resource of the vault is refused."""
    await desk.store()

    with pytest.raises(AccessDenied):
        await desk.scene.post(
            [
                ("grant_type", "client_credentials"),
                ("resource", desk.resource.identifier),
                *desk.agent.form.items(),
            ]
        )

"""A credential of the vault is read once and kept sealed; whatever changes what it rests on voids that."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from tests.runtime.vault.conftest import TOKENS, Account, reads_of_the_vault
from tests.support.state_doubles import Counting, with_state

from runtime.domain.errors import AccessDenied, OAuthError
from runtime.domain.kinds import APPLICATION, DELEGATED_GRANT, PROVIDER, RESOURCE, SESSION, USER
from runtime.services.vault import credential_cache
from runtime.storage.sql.client_refs import ClientRef
from runtime.storage.sql.vault_tokens import VaultPlace


@pytest.fixture
async def warm(account: Account) -> Account:
    """Ann's account, whose token was handed out."""
    await account.connect()
    await account.exchange()
    return account


def place_of(account: Account) -> VaultPlace:
    """What the credential is for."""
    return VaultPlace(account.scene.zone.id, account.ann.user.id, account.resource.id, account.provider.id)


async def test_a_second_exchange_does_not_read_the_vault(warm: Account) -> None:
    """It hands out the same token, for what is left of its life."""
    with reads_of_the_vault(warm.scene) as reads:
        answer = await warm.exchange()

    assert reads == []
    assert answer["access_token"] == TOKENS.access_token
    assert 1700 <= answer["expires_in"] <= 1800


async def test_a_warm_exchange_is_one_trip_and_no_statement(warm: Account) -> None:
    """As for tokens of the zone: everything else is known. Behind the answers one record each is written, and
    once in ten minutes that the credential is in use.
    """
    scene, state = warm.scene, Counting(warm.scene.services.state)
    services = with_state(scene.services, state)
    subject = await scene.company.token(scene.zone, warm.shy, warm.ann)
    await warm.agree(ClientRef(application_id=warm.shy.id))
    for _ in range(2):
        await scene.exchange(warm.shy, subject, warm.resource, services=services)
    await services.decisions.flush()
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not any(each in statement for each in ("token_events", "epoch_changes", "SET used_at")):
            statements.append(statement)

    state.calls.clear()
    engine = scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        for _ in range(5):
            await scene.exchange(warm.shy, subject, warm.resource, services=services)
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert state.calls == ["fetch"] * 5
    assert [each for each in statements if each.startswith(("SELECT", "UPDATE"))] == []


async def test_applications_share_the_entry_and_never_the_consent(warm: Account) -> None:
    """Another application gets the token from the cache once the user has agreed to that one."""
    with pytest.raises(AccessDenied):
        await warm.exchange(warm.shy)
    await warm.agree(ClientRef(application_id=warm.shy.id))
    await warm.exchange()

    with reads_of_the_vault(warm.scene) as reads:
        assert (await warm.exchange(warm.shy))["access_token"] == TOKENS.access_token
        with pytest.raises(AccessDenied):
            await warm.exchange(warm.coy)
    assert reads == []


async def test_a_token_that_is_about_to_end_is_not_kept(account: Account) -> None:
    """Expiry: what has less than a minute left is read again, and refreshed where it can be."""
    await account.connect(replace(TOKENS, expires_in_seconds=50, refresh_token=None))
    await account.exchange()

    with reads_of_the_vault(account.scene) as reads:
        await account.exchange()

    assert len(reads) == 1


@pytest.mark.parametrize("what", ["grant", "session", "user"])
async def test_revocation_voids_the_entry(warm: Account, what: str) -> None:
    """Of the grant, the session or the user: the next exchange is refused."""
    company, zone_id = warm.scene.company, warm.scene.zone.id
    token = await company.token(warm.scene.zone, warm.agent, warm.ann)
    (grant,) = await warm.rows("delegated_grants")
    kind, entity_id, status = {
        "grant": (DELEGATED_GRANT, grant["id"], "revoked"),
        "session": (SESSION, warm.ann.session_id, "revoked"),
        "user": (USER, warm.ann.user.id, "disabled"),
    }[what]

    await company.update(kind, zone_id, entity_id, status=status)

    with pytest.raises(OAuthError):
        await warm.scene.exchange(warm.agent, token, warm.resource)


async def test_connecting_again_voids_the_entry(warm: Account) -> None:
    """The new token is handed out at once."""
    await warm.connect(replace(TOKENS, access_token="at-again"))

    assert (await warm.exchange())["access_token"] == "at-again"


@pytest.mark.parametrize("what", ["application", "resource", "provider"])
async def test_a_change_of_what_it_is_for_voids_the_entry(warm: Account, what: str) -> None:
    """Of how the application asks for consent, the resource's scopes, or the provider's keys or client."""
    company, zone_id = warm.scene.company, warm.scene.zone.id
    if what == "application":
        await company.update(APPLICATION, zone_id, warm.agent.id, consent="required")
    elif what == "resource":
        await company.update(RESOURCE, zone_id, warm.resource.id, scopes=["read"])
    else:
        await company.update(PROVIDER, zone_id, warm.provider.id, client_id="another")

    with pytest.raises(OAuthError):
        await warm.exchange()


async def test_a_rotated_key_of_the_provider_voids_the_entry(warm: Account) -> None:
    """Other keys for the same client: the token is read again from the vault."""
    oauth2 = {"issuer": "https://idp.test", "jwks_uri": "https://idp.test/keys"}
    await warm.scene.company.update(
        PROVIDER, warm.scene.zone.id, warm.provider.id, protocols={"oauth2": oauth2}
    )

    with reads_of_the_vault(warm.scene) as reads:
        await warm.exchange()

    assert len(reads) == 1


async def test_the_entry_is_sealed(warm: Account) -> None:
    """The short-lived state has no token in clear."""
    kept = await warm.scene.services.state.get(credential_cache.entry_key(place_of(warm)))

    assert kept is not None
    assert TOKENS.access_token.encode() not in kept


@pytest.mark.parametrize("name", ["user_id", "resource_id", "provider_id", "zone_id"])
async def test_an_entry_does_not_open_in_another_place(warm: Account, name: str) -> None:
    """Whoever moves it within the state gives nobody a token of another user, resource or provider."""
    services, place = warm.scene.services, place_of(warm)
    zone = await services.zones.get(warm.scene.zone.id)
    root = await zone.session_roots.read(warm.ann.session_id)
    kept = await services.state.get(credential_cache.entry_key(place))
    now = services.clock()
    assert credential_cache.open_entry(kept, zone, root, place, now) is not None

    elsewhere = replace(place, **{name: "another"})

    assert credential_cache.open_entry(kept, zone, root, elsewhere, now) is None


async def test_an_entry_is_not_used_beyond_its_time(warm: Account) -> None:
    """Nor beyond the time when it is worth refreshing, whatever the state still has."""
    services, place = warm.scene.services, place_of(warm)
    zone = await services.zones.get(warm.scene.zone.id)
    root = await zone.session_roots.read(warm.ann.session_id)
    kept = await services.state.get(credential_cache.entry_key(place))
    later = services.clock() + timedelta(seconds=credential_cache.LONGEST_SECONDS + 1)

    assert credential_cache.open_entry(kept, zone, root, place, later) is None

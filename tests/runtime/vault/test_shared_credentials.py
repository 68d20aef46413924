"""A key that an administrator has stored as a secret of a resource is handed out to all of its users."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event
from tests.runtime.vault.conftest import KEY, Desk

from runtime.domain.errors import AccessDenied, InvalidTarget
from runtime.domain.kinds import RESOURCE, SECRET
from runtime.services.authority.consents import USER_AUTHORIZATION_REQUIRED
from runtime.storage.sql.client_refs import ClientRef

SHARED = "sk-shared-3Wd"


async def share(desk: Desk, value: str = SHARED, **more: object) -> str:
    """A secret of the resource; its id."""
    body = {"name": "key", "entity_id": desk.resource.id, "data": {"type": "token", "token": value}}
    made = await desk.scene.company.create(SECRET, desk.scene.zone.id, **body | more)
    return str(made.id)


async def test_a_secret_of_the_resource_is_handed_out(desk: Desk) -> None:
    """To whoever asks for a user under the same conditions as for any token; no grant is made."""
    await share(desk)

    answer = await desk.exchange()

    assert answer["access_token"] == SHARED
    assert answer["scope"] == "read write"
    assert await desk.rows("delegated_grants") == []


async def test_a_users_own_key_comes_first(desk: Desk) -> None:
    """The shared key is for those who have none."""
    await share(desk)
    await desk.store()
    eve = await desk.scene.company.person(desk.scene.zone, "eve@acme.test")

    assert (await desk.exchange())["access_token"] == KEY
    assert (await desk.exchange(person=eve))["access_token"] == SHARED


async def test_consent_is_asked_for_as_always(desk: Desk) -> None:
    """An application that asks for consent gets the shared key when the user has agreed."""
    await share(desk)
    with pytest.raises(AccessDenied) as refusal:
        await desk.exchange(desk.shy)
    assert refusal.value.members["reason"] == USER_AUTHORIZATION_REQUIRED

    await desk.agree(ClientRef(application_id=desk.shy.id))

    assert (await desk.exchange(desk.shy))["access_token"] == SHARED


async def test_an_undeclared_dependency_is_refused(desk: Desk) -> None:
    """The shared key does not widen what an application may ask for."""
    await share(desk)
    stranger = await desk.scene.company.app(desk.scene.zone, "stranger")

    with pytest.raises(InvalidTarget):
        await desk.exchange(stranger)


async def test_a_deleted_secret_is_handed_out_to_nobody(desk: Desk) -> None:
    """From the next exchange on."""
    secret_id = await share(desk)
    assert await desk.exchange()

    await desk.scene.company.delete(SECRET, desk.scene.zone.id, secret_id)

    with pytest.raises(AccessDenied):
        await desk.exchange()


async def test_the_newest_secret_counts(desk: Desk) -> None:
    """So a key is rotated by storing the next one, and deleting the old one afterwards."""
    await share(desk, "sk-old")
    await share(desk)

    assert (await desk.exchange())["access_token"] == SHARED


async def test_a_changed_value_is_handed_out_at_once(desk: Desk) -> None:
    """Nothing remembers the value from before."""
    secret_id = await share(desk, "sk-old")
    assert (await desk.exchange())["access_token"] == "sk-old"

    await desk.scene.company.update(
        SECRET, desk.scene.zone.id, secret_id, data={"type": "token", "token": SHARED}
    )

    assert (await desk.exchange())["access_token"] == SHARED


async def test_a_user_name_with_a_password_is_no_token(desk: Desk) -> None:
    """Only a secret of type `token` is handed out."""
    await share(desk, data={"type": "password", "username": "u", "password": "p"})

    with pytest.raises(AccessDenied):
        await desk.exchange()


async def test_a_secret_of_a_resource_outside_the_vault_is_not_handed_out(desk: Desk) -> None:
    """A resource whose tokens the zone makes gets a token of the zone, whatever secrets it has."""
    await share(desk)
    await desk.scene.company.update(
        RESOURCE, desk.scene.zone.id, desk.resource.id, credential_provider_id=None
    )

    assert (await desk.exchange())["access_token"].count(".") == 2


async def test_a_user_who_took_the_resource_back_gets_no_shared_key(desk: Desk) -> None:
    """A revoked grant refuses, whatever an administrator has stored."""
    await share(desk)
    await desk.store()
    (grant,) = await desk.rows("delegated_grants")
    await desk.revoke(grant["id"])

    with pytest.raises(AccessDenied):
        await desk.exchange()


async def test_an_application_without_a_user_gets_the_shared_key_by_exchange(desk: Desk) -> None:
    """Its own token, and not a user's key: there is no user."""
    await share(desk)
    await desk.store()
    own = await desk.scene.post([("grant_type", "client_credentials"), *desk.agent.form.items()])

    answer = await desk.scene.exchange(desk.agent, own["access_token"], desk.resource)

    assert answer["access_token"] == SHARED


async def test_a_chain_without_a_user_is_told_what_is_missing(desk: Desk) -> None:
    """No user could authorize anything: the key that an administrator has not stored."""
    own = await desk.scene.post([("grant_type", "client_credentials"), *desk.agent.form.items()])

    with pytest.raises(AccessDenied) as refusal:
        await desk.scene.exchange(desk.agent, own["access_token"], desk.resource)

    assert refusal.value.detail.startswith(
        "no user is behind this request, and no key is stored for all users"
    )
    assert "a secret of type `token`" in refusal.value.detail
    assert "link=" not in refusal.value.members["error_uri"]
    with pytest.raises(AccessDenied, match="the user has not authorized"):
        await desk.exchange()


async def test_a_second_exchange_reads_nothing(desk: Desk) -> None:
    """Neither for the shared key, nor whether the user has one of their own; not even for another user."""
    await share(desk)
    eve = await desk.scene.company.person(desk.scene.zone, "eve@acme.test")
    tokens = [await desk.scene.company.token(desk.scene.zone, desk.agent, each) for each in (desk.ann, eve)]
    for token in tokens:
        await desk.scene.exchange(desk.agent, token, desk.resource)
    await desk.scene.services.decisions.flush()
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if "token_events" not in statement and "epoch_changes" not in statement:
            statements.append(statement)

    engine = desk.scene.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        answers = [await desk.scene.exchange(desk.agent, token, desk.resource) for token in tokens]
    finally:
        event.remove(engine, "before_cursor_execute", note)

    assert [answer["access_token"] for answer in answers] == [SHARED, SHARED]
    assert [each for each in statements if each.startswith(("SELECT", "UPDATE"))] == []


async def test_a_key_of_ones_own_replaces_the_shared_one_at_once(desk: Desk) -> None:
    """However often that was handed out before."""
    await share(desk)
    assert {(await desk.exchange())["access_token"] for _ in range(2)} == {SHARED}

    await desk.store()

    assert (await desk.exchange())["access_token"] == KEY


async def test_a_narrower_resource_does_not_hand_out_what_was_kept(desk: Desk) -> None:
    """What the shared key is worth follows the resource, and so does what is asked for."""
    await share(desk)
    assert (await desk.exchange())["scope"] == "read write"

    await desk.scene.company.update(RESOURCE, desk.scene.zone.id, desk.resource.id, scopes=["read"])

    assert (await desk.exchange())["scope"] == "read"


@pytest.mark.threat("46l")
async def test_a_shared_key_goes_to_no_other_address_than_it_was_stored_for(desk: Desk) -> None:
    """As a user's own key does not; given once more for the new address, or at the former one, it is used."""
    secret_id = await share(desk)
    company, zone = desk.scene.company, desk.scene.zone
    assert (await desk.exchange())["access_token"] == SHARED

    moved = await company.update(RESOURCE, zone.id, desk.resource.id, identifier="https://collector.test")
    elsewhere = replace(desk, resource=moved)
    with pytest.raises(AccessDenied) as refusal:
        await elsewhere.exchange()
    assert refusal.value.members["reason"] == USER_AUTHORIZATION_REQUIRED
    await company.update(SECRET, zone.id, secret_id, name="another name")
    with pytest.raises(AccessDenied):
        await elsewhere.exchange()

    await company.update(SECRET, zone.id, secret_id, data={"type": "token", "token": SHARED})
    assert (await elsewhere.exchange())["access_token"] == SHARED

    await company.update(RESOURCE, zone.id, desk.resource.id, identifier=desk.resource.identifier)
    with pytest.raises(AccessDenied):
        await desk.exchange()

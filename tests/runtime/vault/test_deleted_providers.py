"""A resource whose credential provider is deleted: no request is answered with another credential instead."""

from typing import Any

import pytest
from tests.runtime.explain.test_remedies import last_hop
from tests.runtime.vault.conftest import TOKENS, Account

from runtime.domain.errors import AccessDenied
from runtime.domain.kinds import PROVIDER, RESOURCE
from runtime.services.issuing.target_checks import PROVIDER_DELETED
from runtime.storage.sql import entities


async def delete_provider(account: Account) -> None:
    """The provider goes; its resource stays."""
    await account.scene.company.delete(PROVIDER, account.scene.zone.id, account.provider.id)


async def change(account: Account, **members: Any) -> None:
    """An administrator changes the resource."""
    await account.scene.company.update(RESOURCE, account.scene.zone.id, account.resource.id, **members)


async def token_service(account: Account) -> str:
    """The id of the provider that stands for the zone's own tokens."""
    within = {"zone_id": account.scene.zone.id}
    async with account.scene.services.database.reading() as conn:
        found = await entities.find_by(conn, PROVIDER, "type", "service-sts", within=within)
    assert found is not None
    return found.id


async def refused(account: Account) -> AccessDenied:
    """The refusal of an exchange for the resource."""
    with pytest.raises(AccessDenied) as refusal:
        await account.exchange()
    return refusal.value


async def test_an_exchange_is_refused_after_the_deletion(account: Account) -> None:
    """A token of the zone is not what the owner has chosen; the refusal says what to do, and asks no user."""
    await account.connect()
    assert (await account.exchange())["access_token"] == TOKENS.access_token

    await delete_provider(account)

    refusal = await refused(account)
    assert refusal.members == {"reason": PROVIDER_DELETED}
    assert "an administrator has to set `credential_provider_id`" in refusal.detail
    assert refusal.internal == f"the credential provider `{account.provider.id}` was deleted"


async def test_a_token_of_the_applications_own_is_refused_too(account: Account) -> None:
    """Client credentials would be given a token of the zone for it, as for any other resource."""
    form = [("grant_type", "client_credentials"), *account.agent.form.items()]
    assert await account.scene.post(form)
    await delete_provider(account)

    with pytest.raises(AccessDenied) as refusal:
        await account.scene.post([*form, ("resource", account.resource.identifier)])

    assert refusal.value.members == {"reason": PROVIDER_DELETED}


async def test_other_changes_of_the_resource_choose_nothing(account: Account) -> None:
    """Who gives it another name has said nothing of its tokens."""
    await delete_provider(account)

    await change(account, name="Issues", description="of all teams")

    assert (await refused(account)).members == {"reason": PROVIDER_DELETED}


@pytest.mark.parametrize("chosen", ["null", "service-sts"])
async def test_tokens_of_the_zone_are_issued_once_they_are_chosen(account: Account, chosen: str) -> None:
    """By null, as the API shows it anyway, or by the provider that stands for them."""
    await delete_provider(account)
    await refused(account)

    await change(account, credential_provider_id=None if chosen == "null" else await token_service(account))

    assert (await account.exchange())["access_token"].count(".") == 2


async def test_another_provider_asks_the_user_again(account: Account) -> None:
    """Its account is connected anew; then its tokens are handed out."""
    await delete_provider(account)
    await refused(account)
    body = {"identifier": "https://other.test", "name": "Other", "client_id": "zone"}
    other = await account.scene.company.create(PROVIDER, account.scene.zone.id, **body)

    await change(account, credential_provider_id=other.id)

    assert (await refused(account)).members["reason"] == "user_authorization_required"
    await account.connect(provider=other)
    assert (await account.exchange())["access_token"] == TOKENS.access_token


async def test_the_zones_own_tokens_do_not_end_with_a_provider(account: Account) -> None:
    """A resource that has never had one is not concerned."""
    company, zone = account.scene.company, account.scene.zone
    own = await company.resource(zone, "https://own.test", scopes=["read"])
    app = await company.app(zone, "reader", dependencies=[own], consent="implicit")
    await delete_provider(account)

    token = await company.token(zone, app, account.ann)

    assert (await account.scene.exchange(app, token, own))["scope"] == "read"


async def test_an_explanation_says_what_to_choose(account: Account) -> None:
    """It is the one thing that is missing: nobody is told to connect an account that nobody can connect."""
    await account.connect()
    await delete_provider(account)

    hop = await last_hop(account, account.agent)

    assert (hop.error, hop.reason) == (
        "access_denied",
        f"the credential provider `{account.provider.id}` was deleted",
    )
    (remedy,) = hop.remedies
    assert remedy.startswith("the credential provider of `https://tracker.test` was deleted: set another")
    assert "or `service-sts` if it accepts access tokens of the zone" in remedy

"""A sign-in takes the provider's secret to the addresses that it was given for, and nowhere else."""

from collections.abc import Iterator

import pytest
from oidc_provider_mock import User as MockUser
from sqlalchemy import update
from tests.runtime.login.federation import Foreign, as_person, at_provider, federated, running, sign_in
from tests.support.oauth_site import Answer, Browser, Page, Site, assert_page

from runtime.domain.errors import ValidationFailed
from runtime.domain.kinds import PROVIDER
from runtime.storage.sql.tables import TABLES

STORAGE = ("embedded", "servers")
ADA = MockUser(sub="ada", claims={"email": "ada@acme.example", "email_verified": True})


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    """The provider that the secret was given for."""
    with running(ADA) as provider:
        yield provider


@pytest.fixture(scope="module")
def evil() -> Iterator[Foreign]:
    """A server that waits for secrets."""
    with running(ADA) as provider:
        yield provider


@pytest.mark.threat("46f")
def test_a_sign_in_takes_no_secret_elsewhere(site: Site, foreign: Foreign, evil: Foreign) -> None:
    """Neither by a change through the service, which is refused, nor by one that went around it."""
    zone = federated(site, foreign.issuer)
    client, provider_id = site.app(zone), str(zone.user_identity_provider_id)
    assert isinstance(sign_in(Browser(), client), Answer)
    moved = {"oauth2": {"issuer": foreign.issuer, "token_endpoint": f"{evil.issuer}/oauth2/token"}}

    with pytest.raises(ValidationFailed, match="send it again"):
        site.run(site.company.update(PROVIDER, zone.id, provider_id, protocols=moved))
    assert isinstance(sign_in(Browser(), client), Answer)

    browser = Browser()
    page = at_provider(browser, client)

    async def around() -> None:
        table = TABLES[PROVIDER.name]
        async with site.services.database.transaction() as conn:
            await conn.execute(update(table).where(table.c.id == provider_id).values(protocols=moved))

    site.run(around())
    site.run(site.company.update(PROVIDER, zone.id, provider_id, name="Any other change"))
    refused = browser.open(as_person(browser, page, "ada"))

    assert isinstance(refused, Page)
    assert_page(refused.response, 503)
    assert evil.asked == []

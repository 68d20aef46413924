"""A provider that leaves git takes its tokens with it: they are revoked at it (RFC 7009)."""

from collections.abc import Iterator

import pytest
from tests.reconciler.real.company import Company
from tests.runtime.vault.conftest import SCOPES, TOKENS
from tests.support.rotating_provider import RotatingProvider, rotating_provider

from runtime.domain.kinds import PROVIDER, RESOURCE
from runtime.domain.kinds.provider import Provider
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.attenuation import limit_upstream
from runtime.services import epochs
from runtime.services.container import Services
from runtime.services.vault import upstream_tokens
from runtime.storage.sql import entities

TRACKER = """apiVersion: zonewright/v1
kind: Provider
metadata: {zone: "{zone}", name: tracker}
spec:
  name: Tracker
  identifier: "{url}"
  client_id: zonewright
  client_secret: {from_env: CORP_SECRET, version: "1"}
  protocols:
    oauth2:
      authorization_endpoint: "{url}/authorize"
      token_endpoint: "{url}/token"
      revocation_endpoint: "{url}/revoke"
"""
ISSUES = """apiVersion: zonewright/v1
kind: Resource
metadata: {zone: "{zone}", name: issues}
spec:
  name: Issues
  identifier: "https://issues.example"
  credential_provider: tracker
  scopes: [read, write]
"""


@pytest.fixture
def idp() -> Iterator[RotatingProvider]:
    """The provider."""
    with rotating_provider() as running:
        yield running


def connect(company: Company, email: str, address: str) -> None:
    """Somebody connects an account at the provider."""
    user_id, zone_id = company.user(email), company.zone_id

    async def store(services: Services) -> None:
        zone = await services.zones.get(zone_id)
        async with services.epochs.transaction() as (conn, bumped):
            bumped.update(await epochs.bump_user(conn, zone_id, user_id))
            within = {"zone_id": zone_id}
            provider = await entities.find_by(conn, PROVIDER, "identifier", address, within=within)
            resource = await entities.find_by(
                conn, RESOURCE, "identifier", "https://issues.example", within=within
            )
            assert isinstance(provider, Provider)
            assert isinstance(resource, Resource)
            await upstream_tokens.store_connected(
                conn,
                services,
                zone,
                user_id=user_id,
                resource=resource,
                provider=provider,
                tokens=TOKENS,
                scopes=limit_upstream(frozenset(SCOPES), TOKENS.scopes),
                now=services.clock(),
            )

    company.server.call(store)


@pytest.mark.parametrize("gone", [["tracker", "issues"], ["issues"]], ids=["both", "resource"])
def test_what_leaves_git_is_revoked_at_the_provider(
    company: Company, idp: RotatingProvider, gone: list[str]
) -> None:
    """One changeset deletes the resource, and the provider with its secret; the tokens end afterwards."""
    company.write("tracker.yaml", TRACKER.replace("{url}", idp.server.url))
    company.write("issues.yaml", ISSUES)
    company.apply()
    connect(company, "ann@acme.example", idp.server.url)

    for name in gone:
        (company.folder.path / f"{name}.yaml").unlink()
    company.apply()
    company.server.call(lambda services: services.outbox.deliver_due())

    assert idp.revoked == [TOKENS.refresh_token, TOKENS.access_token]
    assert idp.server.at("/revoke")[0].basic == ("zonewright", "hush!hush")

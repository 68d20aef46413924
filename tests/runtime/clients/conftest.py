"""A zone's token endpoint, a site that publishes keys, and an application that signs with one of them."""

from collections.abc import Iterator

import pytest
from tests.runtime.clients.signing import EC, RSA, Signer, ed_jwk, unnamed
from tests.runtime.grants.conftest import company, own_scene, scene, servers, services, storage_settings
from tests.runtime.login.conftest import browser, pytest_generate_tests, site
from tests.support.publisher import Publisher, publishing
from tests.support.scene import Scene

from runtime.domain.kinds import APPLICATION_CREDENTIAL

__all__ = [
    "browser",
    "company",
    "own_scene",
    "pytest_generate_tests",
    "scene",
    "servers",
    "services",
    "site",
    "storage_settings",
]


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    with publishing() as running:
        keys = [RSA.public_jwk, EC.public_jwk, ed_jwk(), unnamed(RSA, "rsa")]
        running.publish("/keys", {"keys": keys})
        yield running


@pytest.fixture(scope="module")
async def signer(scene: Scene, publisher: Publisher) -> Signer:
    """An application with a `public-key` credential."""
    app = await scene.company.app(scene.zone, "signer")
    made = await scene.company.create(
        APPLICATION_CREDENTIAL,
        scene.zone.id,
        application_id=app.id,
        type="public-key",
        identifier="signing-client",
        jwks_uri=f"{publisher.url}/keys",
    )
    return Signer(scene, app, made.identifier)

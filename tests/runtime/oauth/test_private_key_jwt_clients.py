"""Clients that sign, as other people write them: the example in docs/, and a library of another make."""

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.oauth.conftest import Site
from tests.support.publisher import Publisher, publishing
from tests.support.scene import claims_of

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.kinds import APPLICATION_CREDENTIAL
from runtime.services.zone_settings import set_zone_setting

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from authlib.integrations.base_client import OAuthError
    from authlib.integrations.httpx_client import OAuth2Client
    from authlib.oauth2.rfc7523 import PrivateKeyJWT

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients.md"
EC, RSA = SigningKey.generate("ES256"), SigningKey.generate("RS256")


@pytest.fixture(scope="module")
def publisher() -> Iterator[Publisher]:
    with publishing() as running:
        running.publish("/keys", {"keys": [EC.public_jwk, RSA.public_jwk]})
        yield running


@pytest.fixture(scope="module")
def client_id(site: Site, publisher: Publisher) -> str:
    """The client id of an application whose keys are published."""
    app = site.make(site.company.app(site.zone, "signing"))
    made = site.make(
        site.company.create(
            APPLICATION_CREDENTIAL,
            site.zone.id,
            application_id=app.id,
            type="public-key",
            jwks_uri=f"{publisher.url}/keys",
        )
    )
    identifier: str = made.identifier
    return identifier


@pytest.mark.standard("RFC 7523")
def test_the_example_of_the_documentation(site: Site, client_id: str, tmp_path: Path) -> None:
    """It runs as it stands, with the four values it takes from its surroundings."""
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    key = tmp_path / "key.pem"
    key.write_bytes(EC.to_pem())
    surroundings = {"ZONE": site.issuer, "CLIENT_ID": client_id, "KEY_FILE": str(key), "KEY_ID": EC.kid}
    done = subprocess.run(
        [sys.executable, "-c", example],
        env={"PATH": os.environ["PATH"], **surroundings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert claims_of(done.stdout.strip())["client_id"] == client_id


@pytest.mark.standard("RFC 7523", "Assertion audiences (rfc7523bis)")
def test_authlib_gets_a_token_with_its_own_assertions(site: Site, client_id: str) -> None:
    """`private_key_jwt` as that library does it: for an hour, without a key id; told the issuer for `aud`.

    Left to itself it writes the token endpoint, which only a zone takes that is not strict.
    """
    metadata = site.http.get(f"{site.issuer}/.well-known/oauth-authorization-server").json()
    assert "private_key_jwt" in metadata["token_endpoint_auth_methods_supported"]
    endpoint = metadata["token_endpoint"]

    def fetched(audience: str) -> dict[str, Any]:
        with OAuth2Client(
            client_id=client_id,
            client_secret=RSA.to_pem().decode(),
            token_endpoint_auth_method=PrivateKeyJWT(audience),
        ) as session:
            token: dict[str, Any] = session.fetch_token(endpoint, grant_type="client_credentials")
        return token

    assert claims_of(fetched(site.issuer)["access_token"])["sub"] == "signing"
    with pytest.raises(OAuthError, match="invalid_client"):
        fetched(endpoint)
    site.server.call(
        lambda services: set_zone_setting(services, site.zone.id, "strict-assertion-audience", "off")
    )
    assert claims_of(fetched(endpoint)["access_token"])["sub"] == "signing"
    site.server.call(
        lambda services: set_zone_setting(services, site.zone.id, "strict-assertion-audience", "on")
    )


@pytest.mark.threat("25d")
def test_assertions_on_the_wire(site: Site, client_id: str) -> None:
    """Never in the query string; refusals are not kept, are open to other origins, and set no challenge."""
    good = {"grant_type": "client_credentials", "client_assertion_type": "x", "client_assertion": "a.b.c"}
    in_query = site.http.post(
        f"{site.issuer}/oauth/token", params={"client_assertion": "a.b.c"}, data={"grant_type": "x"}
    )
    assert (in_query.status_code, in_query.json()["error"]) == (400, "invalid_request")
    refused = site.http.post(f"{site.issuer}/oauth/token", data=good, headers={"Origin": "null"})
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert refused.headers["cache-control"] == "no-store"
    assert refused.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in refused.headers
    assert "www-authenticate" not in refused.headers

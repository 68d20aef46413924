"""A sign-in at a provider that somebody else wrote, over real HTTP."""

import asyncio
import http.client
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode, urlsplit

import oidc_provider_mock
import pytest

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.oidc import OpenIDProviders
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.keys.remote import RemoteKeys
from runtime.adapters.outbound import Outbound
from runtime.adapters.upstream_oauth.client_authentication import AssertionSigner

CALLBACK = "http://localhost/oauth/callback"


@pytest.fixture(scope="module")
def issuer():
    with oidc_provider_mock.run_server_in_thread() as server:
        yield f"http://localhost:{server.server_port}"


def sign_in_as(url: str, subject: str) -> dict[str, str]:
    """What a browser would do: submit the provider's form, and read the callback it is sent to."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    form = {"content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", f"{parts.path}?{parts.query}", urlencode({"sub": subject}), form)
    return dict(parse_qsl(urlsplit(connection.getresponse().headers["location"]).query))


@pytest.mark.standard("OpenID Connect Core")
async def test_signs_in_at_a_foreign_provider(issuer):
    """Discovery, authorization, redemption, verification and userinfo fit together; a code works once."""
    outbound = Outbound(allow_private_addresses=True)
    providers = OpenIDProviders(outbound, RemoteKeys(outbound))
    settings = ProviderSettings(issuer=issuer, client_id="zone", client_secret="s3cret")
    verifier = "v" * 64
    try:
        url = await providers.authorization_url(
            settings, redirect_uri=CALLBACK, state="st", verifier=verifier, nonce="n1"
        )
        callback = await asyncio.to_thread(sign_in_as, url, "ada@example.test")
        await providers.check_callback(settings, callback.get("iss"))
        proof = {"code": callback["code"], "verifier": verifier, "redirect_uri": CALLBACK}
        signer = AssertionSigner(datetime.now(UTC))
        tokens = await providers.redeem(settings, **proof, signer=signer)
        identity = await providers.identify(settings, tokens, nonce="n1", now=datetime.now(UTC))
        info = await providers.userinfo(settings, tokens, subject="ada@example.test")
        with pytest.raises(ProviderRefused):
            await providers.redeem(settings, **proof, signer=signer)
    finally:
        await outbound.aclose()

    assert callback["state"] == "st"
    assert identity.subject == info["sub"] == "ada@example.test"

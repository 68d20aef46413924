"""A client of another make goes the whole way: discovery, code, ID token, userinfo, refresh."""

import warnings

import httpx
import pytest
from tests.support.oauth_site import CALLBACK, Answer, Browser, Site

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from authlib.integrations.httpx_client import OAuth2Client
    from authlib.jose import JsonWebKey, jwt
    from authlib.oidc.core import CodeIDToken


@pytest.mark.standard("OpenID Connect Core", "OAuth 2.1")
def test_authlib_needs_only_the_issuer_and_its_credentials(site: Site, browser: Browser) -> None:
    """With nothing but the issuer's address and its own credentials."""
    zone = site.zone()
    user = site.user(zone)
    client = site.app(zone)
    metadata = httpx.get(f"{client.issuer}/.well-known/openid-configuration").json()
    session = OAuth2Client(
        client_id=client.app.client_id,
        client_secret=client.app.secret,
        scope="openid email",
        redirect_uri=CALLBACK,
        code_challenge_method="S256",
        token_endpoint=metadata["token_endpoint"],
    )
    address, state = session.create_authorization_url(
        metadata["authorization_endpoint"], code_verifier=client.verifier, nonce="n-1"
    )

    answer = browser.sign_in(browser.open(address))
    assert isinstance(answer, Answer)
    token = session.fetch_token(
        metadata["token_endpoint"],
        authorization_response=answer.location,
        state=state,
        code_verifier=client.verifier,
    )

    keys = JsonWebKey.import_key_set(httpx.get(metadata["jwks_uri"]).json())
    read = jwt.decode(
        token["id_token"],
        keys,
        claims_cls=CodeIDToken,
        claims_options={"iss": {"value": metadata["issuer"]}, "aud": {"value": client.app.client_id}},
        claims_params={
            "nonce": "n-1",
            "client_id": client.app.client_id,
            "access_token": token["access_token"],
        },
    )
    read.validate()
    assert read["sub"] == user.identifier
    assert session.get(metadata["userinfo_endpoint"]).json()["email"] == user.email
    refreshed = session.refresh_token(metadata["token_endpoint"], refresh_token=token["refresh_token"])
    assert refreshed["access_token"] != token["access_token"]

"""Authorize requests that an application sends ahead, and the browser that brings their name."""

from urllib.parse import urlencode

import httpx
from tests.support.oauth_site import Client


def push(
    client: Client, *, authenticate: bool = True, headers: dict[str, str] | None = None, **changes: str | None
):
    """The answer to a request that is pushed as it should be, unless changed."""
    form = {
        "response_type": "code",
        "client_id": client.app.client_id,
        "redirect_uri": client.redirect_uri,
        "scope": "openid email",
        "state": client.state,
        "nonce": client.nonce,
        "code_challenge": client.challenge,
        "code_challenge_method": "S256",
        **(client.app.form if authenticate else {}),
        **changes,
    }
    fields = {name: value for name, value in form.items() if value is not None}
    return httpx.post(f"{client.issuer}/oauth/par", data=fields, headers=headers, timeout=30)


def bring(client: Client, request_uri: str, **changes: str) -> str:
    """The authorize address that names a pushed request."""
    query = {"client_id": client.app.client_id, "request_uri": request_uri, **changes}
    return f"{client.issuer}/oauth/authorize?{urlencode(query)}"

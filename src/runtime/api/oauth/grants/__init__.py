"""One module a grant type; each has `grant`, which makes the answer's members from a token request."""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

# Grant type -> the module's name, which is also what the record of decisions calls it.
EVENTS = {
    "authorization_code": "authorization_code",
    "refresh_token": "refresh_token",
    "client_credentials": "client_credentials",
    "urn:ietf:params:oauth:grant-type:token-exchange": "token_exchange",
    "urn:ietf:params:oauth:grant-type:jwt-bearer": "jwt_bearer",
}


@cache
def find(grant_type: str) -> Callable[[Any], Awaitable[dict[str, Any]]] | None:
    """The function that answers requests of that grant type; None for one that is not served."""
    if (name := EVENTS.get(grant_type)) is None:
        return None
    module = import_module(f"{__name__}.{name}")
    found: Callable[[Any], Awaitable[dict[str, Any]]] = module.grant
    return found

"""Reads client credentials from the header and form of a request to a zone's OAuth endpoints."""

import re

from sanic.request import Request

from runtime.api.shared.client_address import address_of
from runtime.api.shared.headers import header_of
from runtime.domain.errors import InvalidRequest
from runtime.domain.oauth.forms import Form
from runtime.services.client_types import Client
from runtime.services.clients import authenticate_client
from runtime.services.clients.authentication_throttling import FAILED_AUTHENTICATIONS
from runtime.services.container import Services
from runtime.services.zones import CachedZone

# MSAL for browsers and Node.js numbers its requests in the address, where nobody needs to read it.
_NUMBERED = re.compile(r"client-request-id=[0-9a-f-]{1,64}")


async def require_client(services: Services, zone: CachedZone, request: Request, form: Form) -> Client:
    """The client that the request proves to come from. Raises as `authenticate_client` does."""
    return await authenticate_client(
        services,
        zone,
        form.values,
        authorization=header_of(request, "authorization"),
        address=address_of(request),
        throttle=FAILED_AUTHENTICATIONS,
    )


def refuse_query(request: Request) -> None:
    """Check that nothing that belongs in the body is in the address, where logs would keep it."""
    query = request.query_string
    if query and not _NUMBERED.fullmatch(query):
        raise InvalidRequest("send the parameters in the body, not in the query")

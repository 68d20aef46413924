"""Protected resource metadata (RFC 9728) of the service's own APIs.

The management API is one resource for every organization, and each organization signs in at its home zone. So
the document at the well-known address names no server, which would list the tenants; the one of an
organization has the organization's path inserted, and challenges on that path name it. The userinfo endpoint
and the policy bundle are the zone's: its document is found by appending and by insertion. Spec: RFC 9728.
"""

import re
from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.discovery import MAX_AGE_SECONDS, RESOURCE_SCOPES
from runtime.api.oauth.errors import answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route, for_any_origin
from runtime.domain.errors import NotFound
from runtime.domain.oauth import assertions
from runtime.services.container import Services
from runtime.storage.sql import organizations

PATH = "/.well-known/oauth-protected-resource"
_OF_ORGANIZATION = re.compile(r"/organizations/([0-9a-z]{26})(?:/|\Z)")


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the documents of the management API and of every zone."""
    management, own = for_any_origin(of_management), for_any_origin(of_organization)
    bind_zone_route(app, of_zone, PATH, cors=True, insertion=True, elsewhere=management)
    below = f"{PATH}/organizations/<organization_id:str>"
    app.add_route(own, below, methods=("GET", "HEAD", "OPTIONS"), name="resource_metadata.own")


def challenge_of(public_url: str, path: str) -> str:
    """The challenge of the management API to a request at that path."""
    found = _OF_ORGANIZATION.match(path)
    below = f"/organizations/{found[1]}" if found else ""
    return f'Bearer resource_metadata="{public_url}{PATH}{below}"'


async def of_management(request: Request) -> HTTPResponse:
    """The management API, whoever asks."""
    services: Services = request.app.ctx.services
    return _answer(_management(services))


async def of_organization(request: Request, organization_id: str) -> HTTPResponse:
    """The management API as one organization's people find it: with the zone they sign in at."""
    services: Services = request.app.ctx.services
    async with services.database.querying() as conn:
        organization = await organizations.find(conn, organization_id)
    # Labels can be guessed, ids cannot: only who was told of an organization learns where it signs in.
    if organization is None or organization.id != organization_id or organization.zone_id is None:
        raise NotFound("there is nothing at this address")
    zone = await services.zones.get(organization.zone_id)
    return _answer({**_management(services), "authorization_servers": [zone.issuer]})


@answering_oauth
async def of_zone(request: Request, zone_id: str) -> HTTPResponse:
    """A zone's own APIs, which take its tokens that are for itself."""
    services: Services = request.app.ctx.services
    zone = await services.zones.get(zone_id)
    return _answer(
        {
            "resource": zone.issuer,
            "authorization_servers": [zone.issuer],
            "scopes_supported": list(RESOURCE_SCOPES),
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": list(assertions.ALGORITHMS),
            "resource_name": zone.entity.name,
        }
    )


def _management(services: Services) -> dict[str, Any]:
    return {
        "resource": services.settings.public_url,
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(assertions.ALGORITHMS),
        "resource_name": "Management API",
        "resource_documentation": f"{services.settings.public_url}/docs",
    }


def _answer(document: dict[str, Any]) -> HTTPResponse:
    headers = {"Cache-Control": f"max-age={MAX_AGE_SECONDS}"}
    return HTTPResponse(orjson.dumps(document), headers=headers, content_type="application/json")

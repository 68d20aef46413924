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
from runtime.domain.oauth.resource_metadata import PATH, address
from runtime.services.container import Services
from runtime.storage.sql import organizations

_OF_ORGANIZATION = re.compile(r"/organizations/([0-9a-z]{26})(?:/|\Z)")


def bind(app: Sanic[Any, Any]) -> None:
    """Serve the documents of the management API and of every zone."""
    management, own = for_any_origin(of_management), for_any_origin(of_organization)
    bind_zone_route(app, of_zone, PATH, cors=True, insertion=True, elsewhere=management)
    below = f"{PATH}/organizations/<organization_id:str>"
    app.add_route(own, below, methods=("GET", "HEAD", "OPTIONS"), name="resource_metadata.own")


def document_for(public_url: str, path: str) -> str:
    """The address of the document that the management API names in its challenges at that path."""
    found = _OF_ORGANIZATION.match(path)
    return address(_of(public_url, found[1]) if found else public_url, public_url)


def _of(public_url: str, organization_id: str) -> str:
    """The management API's resource of one organization: what all of its paths begin with."""
    return f"{public_url}/organizations/{organization_id}"


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
    # A client uses a document only for the resource that it has asked about. Spec: RFC 9728 section 3.3.
    own = {
        "resource": _of(services.settings.public_url, organization.id),
        "authorization_servers": [zone.issuer],
    }
    return _answer({**_management(services), **own})


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

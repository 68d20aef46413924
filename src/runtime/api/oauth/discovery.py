"""The metadata documents of a zone (RFC 8414, OpenID Connect Discovery), and its JWK Set.

Every form of the metadata's address answers with the same bytes, made once an epoch. A change of the zone is
in them within a second: whoever keeps them for the five minutes they may be kept waits much longer.
Spec: RFC 8414; OpenID Connect Discovery; zone interface, section 2.
"""

from hashlib import sha256
from typing import Any

import orjson
from sanic import Sanic
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.errors import answering_oauth
from runtime.api.oauth.zone_routes import bind_zone_route
from runtime.domain.oauth import assertions
from runtime.domain.oauth.scopes import POLICY_BUNDLE
from runtime.services.authority.browser_sessions import PROFILE_CLAIMS
from runtime.services.authorization.requests import PROMPTS, RESPONSE_MODES
from runtime.services.grants.token_endpoint import GRANT_TYPES
from runtime.services.zones import CachedZone, ChangeHistory, ZoneCache

MAX_AGE_SECONDS = 300
SCOPES = ("openid", "profile", "email", "offline_access", POLICY_BUNDLE)
# Refresh tokens are between client and authorization server: no resource needs them.
RESOURCE_SCOPES = tuple(scope for scope in SCOPES if scope != "offline_access")
_CLAIMS = (
    *("sub", "iss", "aud", "exp", "iat", "auth_time", "acr", "amr", "nonce", "sid", "at_hash"),
    *("email", "email_verified", *PROFILE_CLAIMS),
)
_METADATA_PATHS = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")

_Document = tuple[bytes, str]  # body and entity tag


def bind(app: Sanic[Any, Any]) -> None:
    """Serve metadata and keys of every zone, at all addresses that clients ask at."""
    for path in _METADATA_PATHS:
        bind_zone_route(app, metadata, path, cors=True, insertion=True)
        bind_zone_route(app, metadata, f"/{path}", cors=True)
    bind_zone_route(app, jwks, "/.well-known/jwks.json", cors=True)


@answering_oauth
async def metadata(request: Request, zone_id: str) -> HTTPResponse:
    """The zone's authorization server metadata, which serves as its OpenID configuration too."""
    zone = await request.app.ctx.services.zones.recent(zone_id)
    return _answer(request, zone, "metadata")


@answering_oauth
async def jwks(request: Request, zone_id: str) -> HTTPResponse:
    """The zone's public keys."""
    zone = await request.app.ctx.services.zones.recent(zone_id)
    return _answer(request, zone, "jwks")


def describe(zone: CachedZone) -> dict[str, Any]:
    """The metadata of a zone: what it serves, and nothing else."""
    oauth2, openid = zone.entity.protocols.oauth2, zone.entity.protocols.openid
    proving = ["client_secret_basic", "client_secret_post", "private_key_jwt"]
    methods = [*proving, "none"]
    algorithms = list(assertions.ALGORITHMS)
    optional: dict[str, Any] = {}
    if oauth2.dcr_enabled:
        optional["registration_endpoint"] = str(oauth2.registration_endpoint)
    return optional | {
        "issuer": zone.issuer,
        "authorization_endpoint": str(oauth2.authorization_endpoint),
        "token_endpoint": str(oauth2.token_endpoint),
        "jwks_uri": str(oauth2.jwks_uri),
        "pushed_authorization_request_endpoint": f"{zone.issuer}/oauth/par",
        "require_pushed_authorization_requests": False,
        "userinfo_endpoint": str(openid.userinfo_endpoint),
        "end_session_endpoint": f"{zone.issuer}/openid/logout",
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": list(RESPONSE_MODES),
        "grant_types_supported": list(GRANT_TYPES),
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "dpop_signing_alg_values_supported": algorithms,
        "revocation_endpoint": f"{zone.issuer}/oauth/revoke",
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint": f"{zone.issuer}/oauth/introspect",
        "introspection_endpoint_auth_methods_supported": proving,
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        # Said when it is off too: clients then register themselves, or ask for a registered client id.
        "client_id_metadata_document_supported": oauth2.cimd.enabled,
        "revocations_uri": f"{zone.issuer}/.well-known/revocations",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "claims_supported": list(_CLAIMS),
        "prompt_values_supported": sorted(PROMPTS),
        "claims_parameter_supported": False,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,
    }


def _answer(request: Request, zone: CachedZone, name: str) -> HTTPResponse:
    body, tag = _document(zone, name)
    headers = {"Cache-Control": f"max-age={MAX_AGE_SECONDS}", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return HTTPResponse(status=304, headers=headers)
    return HTTPResponse(body, headers=headers, content_type="application/json")


class DiscoveryDocumentCache(ZoneCache):
    """The two documents of a zone, metadata and JWK set, with their tags."""

    outlives_changes = True  # they say what the zone is, and nothing of what is in it

    def __init__(self, history: ChangeHistory) -> None:
        self.documents: dict[str, _Document] = {}


def _document(zone: CachedZone, name: str) -> _Document:
    cache = zone.cache_of(DiscoveryDocumentCache).documents
    if (held := cache.get(name)) is None:
        body = orjson.dumps(describe(zone) if name == "metadata" else {"keys": list(zone.jwks)})
        held = body, f'"{sha256(body).hexdigest()[:32]}"'
        cache[name] = held
    return held

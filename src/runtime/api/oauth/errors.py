"""Refusals of the OAuth endpoints as HTTP. Spec: RFC 6749 section 5.2, RFC 6750 section 3."""

from functools import wraps
from typing import Any

import orjson
from sanic.exceptions import SanicException
from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.zone_routes import ZoneHandler, not_found
from runtime.api.shared.request_ids import request_id_of
from runtime.api.shared.request_metrics import RefusalResponse
from runtime.domain.errors import (
    InsufficientScope,
    InvalidClient,
    InvalidToken,
    NonceRequired,
    NotFound,
    OAuthError,
    ServerError,
    TemporarilyUnavailable,
    TokenMissing,
    TooManyRequests,
    Unavailable,
    UpstreamUnavailable,
    UseDpopNonce,
)
from runtime.domain.oauth import assertions, resource_metadata
from runtime.logs import log, throttled_warnings

NO_STORE = {"Cache-Control": "no-store"}
RETRY_AFTER_SECONDS = 2


def oauth_error_response(refusal: OAuthError, issuer: str | None = None, *, base: str = "") -> HTTPResponse:
    """The answer to a refused request.

    Args:
        issuer: names the realm of a challenge, and its metadata.
        base: the address of the service, which issuers may begin with.
    """
    body: dict[str, Any] = {"error": refusal.code, "error_description": refusal.detail, **refusal.members}
    headers = dict(NO_STORE)
    if isinstance(refusal, InvalidClient) and refusal.basic:
        headers["WWW-Authenticate"] = f'Basic realm="{issuer or "zone"}", charset="UTF-8"'
    elif isinstance(refusal, InvalidToken | InsufficientScope):
        headers["WWW-Authenticate"] = _bearer_challenge(refusal, issuer, base)
    if isinstance(refusal, UseDpopNonce | NonceRequired):
        headers["DPoP-Nonce"] = refusal.nonce
    elif isinstance(refusal, TooManyRequests | UpstreamUnavailable):
        headers["Retry-After"] = str(refusal.retry_after_seconds)
    elif isinstance(refusal, TemporarilyUnavailable):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return RefusalResponse(
        orjson.dumps(body),
        status=refusal.status,
        headers=headers,
        content_type="application/json",
        code=refusal.code,
    )


def answering_oauth(handler: ZoneHandler) -> ZoneHandler:
    """A handler of a zone's endpoint whose refusals are told in OAuth's words."""

    @wraps(handler)
    async def answer(request: Request, zone_id: str) -> HTTPResponse:
        try:
            return await handler(request, zone_id)
        except NotFound:
            return not_found()
        except SanicException:
            raise
        except Exception as failure:  # noqa: BLE001 - the edge: what is no refusal is logged and answers 500
            refusal = as_oauth_error(failure, request_id_of(request))
            if isinstance(failure, Unavailable):
                told_away(request, failure)
            if isinstance(refusal, ServerError):
                log.exception(
                    "zone endpoint failed",
                    path=request.path,
                    request_id=request_id_of(request),
                    zone_id=zone_id,
                )
            zone = request.app.ctx.services.zones.cached(zone_id)
            base = request.app.ctx.settings.public_url
            return oauth_error_response(refusal, zone.issuer if zone else None, base=base)

    return answer


def told_away(request: Request, failure: Unavailable) -> None:
    """Log what it is that does not answer, for those who run the service: one line for many requests."""
    reason = f"{failure.detail}: {failure.internal}" if failure.internal else failure.detail
    throttled_warnings.warn("not available", reason=reason, request_id=request_id_of(request))


def as_oauth_error(failure: Exception, request_id: str) -> OAuthError:
    """What an OAuth client is told of a failure that is not in OAuth's words."""
    if isinstance(failure, OAuthError):
        return failure
    if isinstance(failure, Unavailable):
        return TemporarilyUnavailable("please try again shortly", internal=failure.internal or failure.detail)
    return ServerError(f"something went wrong here; request id {request_id}", internal=repr(failure))


def _bearer_challenge(refusal: InvalidToken | InsufficientScope, issuer: str | None, base: str) -> str:
    """What to do about a refused token, and where to read about it. Spec: RFC 6750 section 3, RFC 9728."""
    where = resource_metadata.address(issuer, base) if issuer else ""
    if isinstance(refusal, TokenMissing):
        return resource_metadata.challenge("Bearer", where)
    scheme = refusal.scheme if isinstance(refusal, InvalidToken) else "Bearer"
    return resource_metadata.challenge(
        scheme,
        where,
        error=refusal.code,
        error_description=refusal.detail,
        algs=" ".join(assertions.ALGORITHMS) if scheme == "DPoP" else "",
        scope=refusal.members.get("scope", ""),
    )

"""HTTP handlers of policy bundles: one archive for each user that a token was issued to.

The caller is a user of a zone, with an access token for the zone itself that carries the bundle's own scope;
an API key is none. The session and the user behind the token must still stand, as at userinfo.

Spec: service interface, "Policy bundle"; zone interface, section 3.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

from sanic.request import Request
from sanic.response import HTTPResponse

from runtime.api.oauth.bearer import require_bearer
from runtime.api.oauth.dpop_headers import presented_of
from runtime.api.shared.etags import seen
from runtime.api.shared.request_ids import check_client_request_id, request_id_of
from runtime.contract.bundles import MEDIA_TYPE, Bundle
from runtime.domain.errors import (
    NonceRequired,
    NotAcceptable,
    NotFound,
    OAuthError,
    Unauthorized,
    UnsupportedMedia,
)
from runtime.domain.policy import bundle_archive
from runtime.domain.policy.bundle_archive import MAX_ARCHIVE_BYTES
from runtime.services.bundles import operations, parsing
from runtime.services.bundles.access import BundleCaller
from runtime.services.container import Services
from runtime.services.management.authentication import unverified
from runtime.storage.sql import zone_data

_CODEC = re.compile(r"application/(?:vnd\.[a-z0-9.-]+\.policy-bundle\.v1\+tar\+gzip|octet-stream)")
_ANY = ("*/*", "application/*")
_REFUSED = "an access token of a zone, for the zone itself, is required"

Handler = Callable[[Request], Coroutine[Any, Any, HTTPResponse]]


async def retrieve(request: Request) -> HTTPResponse:
    """The bundle that is in force for the user; the first time it is made."""
    services, holder = await _holder(request)
    _require_acceptable(request.headers.get("accept"))
    bundle = await operations.fetch(services, holder, request_id_of(request))
    if seen(request.headers.get("if-none-match"), bundle.etag):
        return HTTPResponse(status=304, headers=_headers(bundle))
    return await _send(bundle)


async def update(request: Request) -> HTTPResponse:
    """Replace the bundle by the one that is sent; answers what is stored."""
    services, holder = await _holder(request)
    user = await operations.admit_write(services, holder)
    _require_acceptable(request.headers.get("accept"))
    _require_readable(request.headers.get("content-type"))
    data = await _body(request)
    # That may have taken its time, in which the sign-in may have ended.
    services, holder = await _holder(request, proved=holder.subject.jkt)
    wanted = await asyncio.to_thread(parsing.read, data, user_id=user.id)
    bundle = await operations.replace(
        services,
        holder,
        wanted,
        if_match=request.headers.get("if-match"),
        request_id=request_id_of(request),
    )
    return await _send(bundle)


async def reset(request: Request) -> HTTPResponse:
    """Go back to the default policies; the same when nothing was ever changed."""
    services, holder = await _holder(request)
    await operations.admit_write(services, holder)
    await operations.reset(services, holder, request_id_of(request))
    return HTTPResponse(status=204)


async def _holder(request: Request, *, proved: str | None = None) -> tuple[Services, BundleCaller]:
    """Whose token it is that the request carries.

    Args:
        proved: as in `Presented`.
    Raises: Unauthorized.
    """
    services: Services = request.app.ctx.services
    presented = presented_of(request, f"{services.settings.public_url}{request.path}")
    kid = unverified.key_id(presented.token) if presented else None
    if kid is None:
        raise Unauthorized(_REFUSED)
    async with services.database.querying() as conn:
        zone_id = await zone_data.zone_of_key(conn, kid)
    try:
        zone = await services.zones.get(zone_id or "")
        bearer = await require_bearer(services, zone, request, audience=zone.issuer, proved=proved)
    except (OAuthError, NotFound) as refused:
        nonce = refused.nonce if isinstance(refused, NonceRequired) else None
        raise Unauthorized(_REFUSED, internal=refused.internal, nonce=nonce) from None
    check_client_request_id(request, uuid=False)
    return services, BundleCaller(zone, bearer.subject, bearer.root, bearer.client)


def _require_acceptable(accept: str | None) -> None:
    """Raise NotAcceptable unless the caller takes a bundle in the one codec there is.

    Spec: RFC 9110 section 12.5.1.
    """
    for entry in (accept or "*/*").lower().split(","):
        media, *parameters = (part.strip() for part in entry.split(";"))
        refused = any(re.fullmatch(r"q=0(?:\.0*)?", parameter) for parameter in parameters)
        if not refused and (media in _ANY or _CODEC.fullmatch(media)):
            return
    raise NotAcceptable(f"a bundle is `{MEDIA_TYPE}`")


def _require_readable(content_type: str | None) -> None:
    """Raise UnsupportedMedia for a body in another codec. Without a type it is taken for one."""
    media = (content_type or MEDIA_TYPE).partition(";")[0].strip().lower()
    if not _CODEC.fullmatch(media):
        raise UnsupportedMedia(f"send a bundle as `{MEDIA_TYPE}`")


async def _body(request: Request) -> bytes:
    """The archive, read only now that the caller is known. Sanic refuses what is too large or too slow."""
    if request.stream is not None:
        request.stream.request_max_size = MAX_ARCHIVE_BYTES
        await request.receive_body()  # type: ignore[no-untyped-call]
    return bytes(request.body)


async def _send(bundle: Bundle) -> HTTPResponse:
    packed = await asyncio.to_thread(bundle_archive.write, bundle.archive())
    return HTTPResponse(packed, headers=_headers(bundle), content_type=MEDIA_TYPE)


def _headers(bundle: Bundle) -> dict[str, str]:
    return {"ETag": bundle.etag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}


HANDLERS: dict[str, Handler] = {
    "policy_bundle.retrieve": retrieve,
    "policy_bundle.update": update,
    "policy_bundle.reset": reset,
}

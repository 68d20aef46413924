"""The DPoP proof and the access token of a request, and the nonce for the next proof.

Spec: RFC 9449 sections 4.3 and 7.1.
"""

from sanic.request import Request

from runtime.api.shared.headers import header_of
from runtime.services.clients import dpop_verification
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.zones import CachedZone


def proof_of(request: Request) -> str | None:
    """The `DPoP` header; None without one. Two of them make one text, as in HTTP, and that is no proof."""
    return header_of(request, "dpop")


def offered_nonce(request: Request, zone: CachedZone | None) -> dict[str, str]:
    """The header that tells who sends proofs of the nonce for the next one, where the zone wants nonces.

    Spec: RFC 9449 section 8.2.
    """
    if zone is None or not zone.settings.require_dpop_nonce or proof_of(request) is None:
        return {}
    services = request.app.ctx.services
    return {"DPoP-Nonce": dpop_verification.nonce(services, zone, services.clock())}


def presented_of(request: Request, uri: str) -> PresentedToken | None:
    """The credential in the Authorization header, when it is one of the two schemes for tokens.

    Args:
        uri: the address that was asked for, as this service knows it.
    """
    scheme, _, token = (header_of(request, "authorization") or "").partition(" ")
    scheme, token = scheme.lower(), token.strip()
    if scheme not in ("bearer", "dpop") or not token:
        return None
    return PresentedToken(token, scheme == "dpop", proof_of(request), request.method, uri)

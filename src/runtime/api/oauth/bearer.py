"""Access tokens at a zone's own endpoints. Spec: RFC 6750; RFC 9068 section 4; RFC 9449 section 7."""

from dataclasses import dataclass

from sanic.request import Request

from runtime.api.oauth.proofs import proof_of
from runtime.domain.errors import (
    InsufficientScope,
    InvalidDpopProof,
    InvalidGrant,
    InvalidRequest,
    InvalidToken,
    ProofRefused,
    TokenMissing,
)
from runtime.services import possession
from runtime.services.exchange.subject import Subject, check_root, verify_subject
from runtime.services.parts import Parts
from runtime.services.zones import RootView, ZoneView

_REFUSED = "the access token is not valid here"


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who presents a zone's token at the zone itself: the token's subject, and the session behind it."""

    subject: Subject
    root: RootView


async def require_bearer(
    parts: Parts,
    view: ZoneView,
    request: Request,
    *,
    audience: str,
    scope: str | None = None,
    uri: str | None = None,
) -> Bearer:
    """The user whose access token the request carries in its Authorization header.

    Args:
        audience: what the token must have been issued for.
        scope: what it must carry.
        uri: the address of the endpoint, which a proof must be for; under `public_url` when absent.
    Raises: InvalidToken, also for a token whose session or user has ended, and for one that is bound to a
        key without a proof; InsufficientScope.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    scheme, token = scheme.lower(), token.strip()
    if scheme not in ("bearer", "dpop") or not token:
        raise TokenMissing("an access token is required")
    try:
        subject = verify_subject(view, token, parts.clock())
        await require_possession(parts, view.id, request, token, subject.jkt, uri=uri)
        bearer = await _standing(parts, view, subject, audience)
    except (InvalidGrant, InvalidRequest) as failure:
        raise _under(scheme, InvalidToken(_REFUSED, internal=failure.internal)) from None
    except InvalidToken as refusal:
        raise _under(scheme, refusal) from None
    if scope is not None and scope not in subject.scopes:
        raise InsufficientScope("the access token lacks a scope", scope=scope)
    return bearer


async def require_possession(
    parts: Parts, realm: str, request: Request, token: str, jkt: str | None, *, uri: str | None = None
) -> None:
    """Check that a bound token comes with a proof of its key, and one that is not as a bearer token.

    Args:
        realm: within which a proof works once.
        jkt: thumbprint of the key that the token is bound to.
        uri: the address that was asked for; under `public_url` when absent.
    Raises: InvalidToken; Unavailable when it cannot be told whether the proof was used before.
    Spec: RFC 9449 section 7.
    """
    is_bound = request.headers.get("authorization", "")[:5].lower() == "dpop "
    if is_bound != (jkt is not None):
        raise InvalidToken(_REFUSED, internal="bound to a key and presented without, or the reverse")
    if jkt is None:
        return
    try:
        if (proof := proof_of(request)) is None:
            raise InvalidDpopProof("a DPoP proof is required")
        proved = await possession.prove(
            parts,
            realm,
            proof,
            method=request.method,
            uri=uri or f"{parts.settings.public_url}{request.path}",
            now=parts.clock(),
            access_token=token,
        )
    except InvalidDpopProof as failure:
        raise ProofRefused(failure.detail, internal=failure.internal) from None
    if proved != jkt:
        raise InvalidToken(_REFUSED, internal="bound to another key")


async def _standing(parts: Parts, view: ZoneView, subject: Subject, audience: str) -> Bearer:
    if subject.audience != audience or subject.session_id is None:
        raise InvalidToken(_REFUSED, internal="another audience, or no user")
    root = check_root(await view.root(subject.session_id), subject, parts.clock())
    if await view.client(subject.client_id) is None:
        raise InvalidToken(_REFUSED, internal="the application is gone")
    return Bearer(subject, root)


def _under(scheme: str, refusal: InvalidToken) -> InvalidToken:
    """The refusal, challenging in the words of the scheme that was tried."""
    if scheme == "dpop":
        refusal.scheme = "DPoP"
    return refusal

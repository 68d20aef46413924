"""Access tokens at a zone's own endpoints. Spec: RFC 6750; RFC 9068 section 4; RFC 9449 section 7."""

from dataclasses import dataclass, replace

from sanic.request import Request

from runtime.api.oauth.dpop_headers import presented_of
from runtime.domain.errors import (
    InsufficientScope,
    InvalidGrant,
    InvalidRequest,
    InvalidToken,
    TokenMissing,
    TokenSentTwice,
)
from runtime.services.authority.subject_tokens import (
    SubjectToken,
    check_chain,
    require_not_denied,
    require_not_taken_back,
    require_root,
    require_sign_in_consent,
    verify_subject_token,
)
from runtime.services.client_types import Client
from runtime.services.clients import dpop_verification
from runtime.services.clients.dpop_verification import PresentedToken
from runtime.services.container import Services
from runtime.services.decision_log import current_decision
from runtime.services.zones import CachedZone, SessionRoot

_REFUSED = "the access token is not valid here"


@dataclass(frozen=True, slots=True)
class BearerUser:
    """Who presents a zone's token at the zone itself: its subject, the session behind it, and its client."""

    subject: SubjectToken
    root: SessionRoot
    client: Client


async def require_bearer(
    services: Services,
    zone: CachedZone,
    request: Request,
    *,
    audience: str,
    scope: str | None = None,
    uri: str | None = None,
    proved: str | None = None,
) -> BearerUser:
    """The user whose access token the request carries in its Authorization header.

    Args:
        audience: what the token must have been issued for.
        scope: what it must carry.
        uri: the address of the endpoint, which a proof must be for; under `public_url` when absent.
        proved: as in `PresentedToken`.
    Raises: InvalidToken, also for a token whose session or user has ended, and for one that is bound to a
        key without a proof; TokenSentTwice; InsufficientScope.
    """
    presented = presented_of(request, uri or f"{services.settings.public_url}{request.path}")
    if presented is None:
        raise TokenMissing("an access token is required")
    if "access_token" in request.args or "access_token" in (request.form or ()):
        raise TokenSentTwice("send one access token, in the Authorization header")
    try:
        subject = verify_subject_token(zone, presented.token, services.clock())
        await dpop_verification.require_proof(services, zone, replace(presented, proved=proved), subject.jkt)
        bearer = await _standing(services, zone, subject, audience)
    except (InvalidGrant, InvalidRequest) as failure:
        raise _under(presented, InvalidToken(_REFUSED, internal=failure.internal)) from None
    except InvalidToken as refusal:
        raise _under(presented, refusal) from None
    if scope is not None and scope not in subject.scopes:
        raise InsufficientScope("the access token lacks the required scope", scope=scope)
    return bearer


async def _standing(services: Services, zone: CachedZone, subject: SubjectToken, audience: str) -> BearerUser:
    if subject.audience != audience or subject.session_id is None or subject.actors:
        raise InvalidToken(_REFUSED, internal="another audience, no user, or a token with an actor chain")
    require_not_denied(zone, subject.token_id)
    root = require_root(await zone.session_roots.get(subject.session_id), subject, services.clock())
    decision = current_decision()
    decision.user_id = root.principal.user.id
    client = await check_chain(zone, subject)
    require_not_taken_back(zone, root, subject)
    decision.name_client(client)
    await require_sign_in_consent(services, zone, subject, client, root)
    return BearerUser(subject, root, client)


def _under(presented: PresentedToken, refusal: InvalidToken) -> InvalidToken:
    """The refusal, challenging in the words of the scheme that was tried."""
    if presented.is_bound:
        refusal.scheme = "DPoP"
    return refusal

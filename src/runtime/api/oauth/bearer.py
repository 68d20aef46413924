"""Bearer tokens at a zone's own endpoints. Spec: RFC 6750; RFC 9068 section 4."""

from dataclasses import dataclass

from sanic.request import Request

from runtime.domain.errors import (
    InsufficientScope,
    InvalidGrant,
    InvalidRequest,
    InvalidToken,
    TokenMissing,
)
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
    parts: Parts, view: ZoneView, request: Request, *, audience: str, scope: str | None = None
) -> Bearer:
    """The user whose access token the request carries in its Authorization header.

    Args:
        audience: what the token must have been issued for.
        scope: what it must carry.
    Raises: InvalidToken, also for a token whose session or user has ended; InsufficientScope.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise TokenMissing("an access token is required")
    now = parts.clock()
    try:
        subject = verify_subject(view, token.strip(), now)
        if subject.audience != audience or subject.session_id is None:
            raise InvalidToken(_REFUSED, internal="another audience, or no user")
        root = check_root(await view.root(subject.session_id), subject, now)
        if await view.client(subject.client_id) is None:
            raise InvalidToken(_REFUSED, internal="the application is gone")
    except (InvalidGrant, InvalidRequest) as failure:
        raise InvalidToken(_REFUSED, internal=failure.internal) from None
    if scope is not None and scope not in subject.scopes:
        raise InsufficientScope("the access token lacks a scope", scope=scope)
    return Bearer(subject, root)

"""Introspection: is a token still good, and what does it say?

Whoever asks is an audience of the token: the application that provides the resource in `aud`, or for a
refresh token the client that holds it. To others every token is one that nobody knows. Spec: RFC 7662.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from runtime.adapters.keys.signing import InvalidToken as TokenRefused
from runtime.adapters.keys.signing import verify
from runtime.domain.errors import (
    AccessDenied,
    InsufficientAuthorization,
    InvalidClient,
    InvalidGrant,
    InvalidRequest,
    OAuthError,
)
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE, seconds
from runtime.domain.oauth.forms import Form
from runtime.domain.oauth.scopes import to_text
from runtime.services.authority import revalidation
from runtime.services.authority.subject import (
    Subject,
    check_chain,
    own_authority,
    refused,
    require_basis,
    require_not_denied,
    require_root,
    subject_of,
)
from runtime.services.clients import authenticate_client
from runtime.services.clients.guessing import GUESSING
from runtime.services.grants import refresh_token
from runtime.services.parties import ApplicationClient, Client
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView

INACTIVE = b'{"active":false}'


@dataclass(frozen=True, slots=True)
class Known:
    """An access token whose signature was found to be in order, and what is told of it while it is good."""

    subject: Subject
    told: bytes


async def respond(
    parts: Parts, zone_id: str, form: Form, *, authorization: str | None, address: str
) -> bytes:
    """The JSON object that answers the question; exactly `INACTIVE` whatever is wrong with the token.

    An assertion can be used only once, so a request with one begins on the zone as the database has it.

    Raises: OAuthError, InvalidClient for a caller that has not proved who it is; NotFound for an unknown
        zone; Unavailable.
    """

    async def attempt(view: ZoneView) -> bytes:
        client = await authenticate_client(
            parts, view, form.values, authorization=authorization, address=address, guessing=GUESSING
        )
        token = form.values.get("token")
        if token is None:
            raise InvalidRequest("`token` is missing")
        if client.is_public:
            raise InvalidClient(internal="a public client proves nothing")
        return await _told_of(parts, view, client, token, parts.clock())

    may_repeat = "client_assertion" not in form.values
    try:
        return await revalidation.on_current_zone(parts, zone_id, attempt, may_repeat=may_repeat)
    except _Inactive:
        return INACTIVE


class _Inactive(OAuthError):
    """The token is not active, as far as the caller may know."""


async def _told_of(parts: Parts, view: ZoneView, client: Client, token: str, now: datetime) -> bytes:
    """What a token says. Raises _Inactive, StaleZone, Unavailable."""
    try:
        if token.count(".") == 2:
            return await _access_token(parts, view, client, token, now)
        return await _refresh_token(parts, view, client, token, now)
    except (InvalidGrant, AccessDenied, InsufficientAuthorization) as refusal:
        raise _Inactive(refusal.detail) from None


async def _access_token(parts: Parts, view: ZoneView, client: Client, token: str, now: datetime) -> bytes:
    """What an access token says, while everything it rests on stands. Raises InvalidGrant, AccessDenied."""
    known = _known(view, token, now)
    subject = known.subject
    root, _ = await revalidation.revalidate(
        parts, view, await revalidation.cached_root(view, subject.session_id)
    )
    require_not_denied(view, subject.token_id)
    await _require_provider(view, client, subject)
    issued_to = await check_chain(view, subject)
    if subject.session_id is None:
        await own_authority(view, subject)
        return known.told
    standing = require_root(root, subject, now)
    await require_basis(parts, view, subject, issued_to, standing, now)
    return known.told


def _known(view: ZoneView, token: str, now: datetime) -> Known:
    """The token, from its signature or from having seen it before. Raises InvalidGrant."""
    digest = sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
    known: Known | None = view.introspected.get(digest)
    if known is None:
        try:
            claims = verify(
                token, view.keys, typ=ACCESS_TOKEN_TYPE, issuer=view.issuer, audience=None, now=now
            )
        except TokenRefused as failure:
            raise refused(str(failure)) from None
        known = Known(subject_of(digest, claims), _told(claims))
        view.introspected.put(digest, known)
    if known.subject.expires_at <= now.timestamp():
        raise refused("expired")
    return known


def _told(claims: Mapping[str, Any]) -> bytes:
    """The claims as the token has them, each one of them. Spec: RFC 7662 section 2.2."""
    token_type = "DPoP" if "jkt" in claims.get("cnf", {}) else "Bearer"
    return orjson.dumps({"active": True, "token_type": token_type, **claims})


async def _require_provider(view: ZoneView, client: Client, subject: Subject) -> None:
    """Check that the caller provides the resource in the token's `aud`. Raises InvalidGrant."""
    resource = await view.resource(subject.audience)
    if (
        resource is None
        or not isinstance(client, ApplicationClient)
        or resource.identifier != subject.audience
        or resource.application_id != client.application.id
    ):
        raise refused("the caller is no audience of the token")


async def _refresh_token(parts: Parts, view: ZoneView, client: Client, token: str, now: datetime) -> bytes:
    """What a refresh token of the caller stands for. Asking does not use it. Raises InvalidGrant."""
    family = await refresh_token.find_family(parts, view, client, token)
    if family is None or not refresh_token.is_usable(parts, family, token, now):
        raise refused("unknown, or used up")
    session, user = await refresh_token.standing(parts, view, family, now)
    authenticated_at = session.authenticated_at
    told = {
        "active": True,
        "iss": view.issuer,
        "sub": user.identifier,
        "client_id": client.client_id,
        "scope": to_text(frozenset(family.scopes)),
        "iat": seconds(family.rotated_at or family.created_at),
        "exp": seconds(min(family.expires_at, session.expires_at)),
        "sid": session.id,
        "auth_time": seconds(authenticated_at) if authenticated_at else None,
        "acr": session.acr,
    }
    return orjson.dumps({name: value for name, value in told.items() if value is not None})

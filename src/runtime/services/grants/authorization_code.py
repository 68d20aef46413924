"""The authorization code grant: checks what the code is bound to, then creates session and tokens."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from runtime.domain.errors import InvalidGrant, InvalidRequest, OAuthError
from runtime.domain.kinds.role import User
from runtime.domain.oauth import pkce
from runtime.domain.oauth.exchange_steps import Step
from runtime.services.authority import active
from runtime.services.authority.active import NotActive
from runtime.services.authority.browser_sessions import BrowserSessionCache
from runtime.services.authorization import authorization_codes
from runtime.services.authorization.authorization_codes import REFUSED, CodeGrant, IssuedIds
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants import refresh_token_rotation as refreshing
from runtime.services.grants.context import TokenContext
from runtime.services.issuing import token_responses
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.zones import CachedZone
from runtime.storage.sql import code_redemption, session_users, sessions, zone_addresses
from runtime.storage.sql.code_redemption import BrowserLogin
from runtime.storage.sql.sessions import SessionRecord

_LOOKS = 3  # at a sign-in that others change at the same time


async def grant(context: TokenContext) -> dict[str, Any]:
    """The tokens of a sign-in, for the client that started it."""
    return await redeem(
        context.services,
        context.zone,
        context.client,
        context.form,
        context.resources,
        context.now,
        context.jkt,
        decision=context.decision,
    )


async def redeem(
    services: Services,
    zone: CachedZone,
    client: Client,
    form: Mapping[str, str],
    named: Sequence[str],
    now: datetime,
    jkt: str | None = None,
    *,
    decision: Decision,
) -> dict[str, Any]:
    """The token response for a code.

    Whatever is wrong with the request, the code is gone afterwards.

    Args:
        jkt: thumbprint of the key that the sender has proved to have; the tokens are bound to it.
        decision: is filled in on the way; its step is the one that refused.
    Raises: InvalidRequest, InvalidGrant, InvalidTarget, AccessDenied.
    Spec: RFC 6749 section 4.1.3, RFC 7636 section 4.6.
    """
    decision.step = Step.SUBJECT_TOKEN
    code = form.get("code")
    if code is None:
        raise InvalidRequest("`code` is missing")
    grant, produced = await authorization_codes.redeem(services, zone, code)
    _require_same_client(grant, client)
    _require_same_redirect_uri(grant, form.get("redirect_uri"))
    _require_same_key(grant, jkt)
    pkce.check_verifier(form.get("code_verifier"), grant.challenge)
    made = CodeRedemption(services, zone, client, grant, produced, named, jkt, now, decision)
    decision.user_id = grant.user_id
    answer = await _made_of(made)
    await authorization_codes.end_if_reused(services, zone, code, produced)
    return answer


@dataclass(frozen=True, slots=True)
class CodeRedemption:
    """A code whose bindings are in order, and what is to be made of it."""

    services: Services
    zone: CachedZone
    client: Client
    grant: CodeGrant
    produced: IssuedIds
    named: Sequence[str]
    jkt: str | None
    now: datetime
    decision: Decision


@dataclass(frozen=True, slots=True)
class _SignIn:
    """The sign-in behind a code.

    Attributes:
        session: the browser session in which the code was asked for.
        top: the one that stands for the browser now: that one, or the one that took its place.
    """

    session: SessionRecord
    user: User
    top: SessionRecord


class _Changed(Exception):
    """The sign-in is not what it was when it was looked at."""


async def _made_of(redemption: CodeRedemption) -> dict[str, Any]:
    """The answer, once what it stands on is kept.

    The sign-in as this process saw it last is good enough to try: what is kept is kept only if the sign-in is
    still that. A refusal takes a look at the database.
    """
    held = redemption.zone.cache_of(BrowserSessionCache).sessions.get(redemption.grant.session_id)
    if held is not None:
        session, user = held
        with suppress(_Changed, OAuthError):
            return await _made_under(redemption, _SignIn(session, user, top=session))
        await _require_client(redemption)
    for _ in range(_LOOKS):
        _forget_attempt(redemption.decision)
        with suppress(_Changed):
            return await _made_under(redemption, await _signed_in(redemption))
        await _require_client(redemption)
    _forget_attempt(redemption.decision)
    raise InvalidGrant(REFUSED, internal="the session changed repeatedly during the request")


def _forget_attempt(decision: Decision) -> None:
    """Begin at the session again: what an attempt that does not count came to is no part of the record."""
    decision.step, decision.resource_id, decision.determining = Step.SESSION, None, ()


async def _require_client(redemption: CodeRedemption) -> None:
    """Check after a vain attempt that the client is still there: what users agreed to has gone with it."""
    client = redemption.client
    found = await redemption.zone.clients.find_now(client.client_id)
    if found is None or found.client.client_ref != client.client_ref:
        _forget_attempt(redemption.decision)
        raise InvalidGrant(REFUSED, internal="the client no longer exists")


async def _made_under(redemption: CodeRedemption, sign_in: _SignIn) -> dict[str, Any]:
    """The answer under a sign-in. Raises _Changed when that is not so any more, and nothing is kept."""
    services, zone, now = redemption.services, redemption.zone, redemption.now
    grant, client, produced = redemption.grant, redemption.client, redemption.produced
    decision = redemption.decision
    _require_standing(grant, sign_in, now)
    authority = UserAuthorization(
        session=_application_session(redemption, sign_in),
        user=sign_in.user,
        client=client,
        scopes=grant.scopes,
        resources=grant.resources,
        jkt=redemption.jkt,
    )
    target = await token_responses.choose_target(
        services, zone, authority, redemption.named, decision=decision
    )
    answer = await token_responses.answer(
        services, zone, authority, target, nonce=grant.nonce, now=now, decision=decision
    )
    decision.step = Step.STORING
    refresh_token, family = refreshing.new_family(services, zone, authority, produced.family_id, now)
    under = BrowserLogin(sign_in.top, sign_in.user)
    async with services.database.writing_once(tenant=zone.organization_id) as conn:
        kept = family if client.may_refresh else None
        if not await code_redemption.insert_session(conn, authority.session, kept, under=under):
            raise _Changed
        if zone.former:
            await zone_addresses.tell_session(conn, zone.id, authority.session.id, zone.issuer)
        await client_lookup.mark_used(conn, client, now=now)
    return answer | ({"refresh_token": refresh_token} if client.may_refresh else {})


def _require_same_client(grant: CodeGrant, client: Client) -> None:
    if (grant.party_id, grant.client_id) != (client.client_ref.id, client.client_id):
        raise InvalidGrant(REFUSED, internal="the code belongs to another client")


def _require_same_key(grant: CodeGrant, jkt: str | None) -> None:
    """A code that was asked for with the thumbprint of a key is for who has it. Spec: RFC 9449 section 10."""
    if grant.jkt not in (None, jkt):
        raise InvalidGrant(REFUSED, internal="no DPoP proof with the key of the authorization request")


def _require_same_redirect_uri(grant: CodeGrant, redirect_uri: str | None) -> None:
    """With a PKCE challenge it may be left out, as in OAuth 2.1; when it is sent, it must be the same."""
    if redirect_uri is None and grant.challenge is not None:
        return
    if redirect_uri != grant.redirect_uri:
        raise InvalidGrant(REFUSED, internal="another redirect URI")


async def _signed_in(redemption: CodeRedemption) -> _SignIn:
    """The sign-in as the database has it. Raises InvalidGrant when it is gone."""
    zone_id, session_id = redemption.zone.id, redemption.grant.session_id
    async with redemption.services.database.querying() as conn:
        found = await session_users.by_session(conn, session_id, zone_id=zone_id)
        if found is None:
            raise InvalidGrant(REFUSED, internal="the session or the user no longer exists")
        session, user = found
        top = session
        while top.parent_id is not None:
            above = await sessions.find(conn, top.parent_id, zone_id=zone_id)
            if above is None:
                raise InvalidGrant(REFUSED, internal="the session that replaced it no longer exists")
            top = above
    return _SignIn(session, user, top)


def _require_standing(grant: CodeGrant, sign_in: _SignIn, now: datetime) -> None:
    """Check that the user of the code is signed in. Raises InvalidGrant."""
    if sign_in.user.id != grant.user_id:
        raise InvalidGrant(REFUSED, internal="the session of another user")
    try:
        active.require_active(sign_in.session, sign_in.user, now, within=sign_in.top)
    except NotActive as failure:
        raise InvalidGrant(REFUSED, internal=str(failure)) from None


def _application_session(redemption: CodeRedemption, sign_in: _SignIn) -> SessionRecord:
    """The session that the application's tokens stand on.

    It ends with the browser session, unless `offline_access` was granted: then it stands alone and lives as
    long as it is used, and only its client is told when the user signs out.
    Spec: OpenID Connect Back-Channel Logout section 2.7.
    """
    services, client_ref, now = redemption.services, redemption.client.client_ref, redemption.now
    offline = "offline_access" in redemption.grant.scopes
    lasting = now + timedelta(seconds=services.settings.refresh_lifetime_seconds)
    return replace(
        sign_in.session,
        id=redemption.produced.session_id,
        parent_id=None if offline else sign_in.top.id,
        browser_session_id=sign_in.top.id if offline else None,
        application_id=client_ref.application_id,
        user_agent_id=client_ref.user_agent_id,
        client_id=redemption.client.client_id,
        session_type="offline" if offline else "application",
        expires_at=lasting if offline else sign_in.session.expires_at,
        created_at=now,
        updated_at=now,
        status="active",
        epoch=1,
        metadata={"name": redemption.client.name},
        cookie_hash=None,
        provider_id_token=None,
    )

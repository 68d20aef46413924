"""Redeeming an authorization code: the bindings checked one by one, then a session, a family and tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from runtime.domain.errors import InvalidGrant, InvalidRequest
from runtime.domain.kinds.role import User
from runtime.domain.kinds.values import UserStatus
from runtime.domain.oauth import pkce
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.sign_in import clients, codes, refreshing, tokens
from runtime.services.sign_in.codes import REFUSED, CodeGrant, Produced
from runtime.services.sign_in.tokens import Authority
from runtime.services.zones import ZoneView
from runtime.storage.sql import refresh as families
from runtime.storage.sql import sessions, signed_in
from runtime.storage.sql.sessions import Session


async def redeem(
    parts: Parts,
    view: ZoneView,
    client: Client,
    form: Mapping[str, str],
    named: Sequence[str],
    now: datetime,
    jkt: str | None = None,
) -> tuple[dict[str, Any], Authority]:
    """The token response for a code, and the authority it was made from.

    Whatever is wrong with the request, the code is gone afterwards.

    Args:
        jkt: thumbprint of the key that the sender has proved to have; the tokens are bound to it.
    Raises: InvalidRequest, InvalidGrant, InvalidTarget, AccessDenied.
    Spec: RFC 6749 section 4.1.3, RFC 7636 section 4.6.
    """
    code = form.get("code")
    if code is None:
        raise InvalidRequest("`code` is missing")
    grant, produced = await codes.redeem(parts, view.id, code)
    _require_same_client(grant, client)
    _require_same_redirect_uri(grant, form.get("redirect_uri"))
    _require_same_key(grant, jkt)
    pkce.check_verifier(form.get("code_verifier"), grant.challenge)
    root, user = await _signed_in(parts, view, grant, now)
    authority = Authority(
        session=_application_session(parts, root, grant, client, produced, now),
        user=user,
        client=client,
        scopes=grant.scopes,
        resources=grant.resources,
        jkt=jkt,
    )
    target = await tokens.choose_target(parts, view, authority, named)
    answer = await tokens.answer(parts, view, authority, target, nonce=grant.nonce, now=now)
    refresh_token, family = refreshing.new_family(parts, view, authority, produced.family_id, now)
    if client.may_refresh:
        answer["refresh_token"] = refresh_token
    async with parts.database.transaction() as conn:
        top = await _locked_top(conn, root)
        if top is None or not top.is_active(now):
            raise InvalidGrant(REFUSED, internal="the session ended meanwhile")
        below = None if authority.session.session_type == "offline" else top.id
        await sessions.add(conn, replace(authority.session, parent_id=below))
        if client.may_refresh:
            await families.add(conn, family)
        await clients.used(conn, client, now=now)
    await codes.end_if_reused(parts, view.id, code, produced)
    return answer, authority


async def _locked_top(conn: AsyncConnection, root: Session) -> Session | None:
    """The browser session that stands for the browser now: the code's own, or the one that took its place.

    Whoever ends it waits until the transaction does, and then finds what was put below it.
    """
    top = await sessions.find(conn, root.parent_id or root.id, zone_id=root.zone_id, lock=True)
    while top is not None and top.parent_id is not None:
        top = await sessions.find(conn, top.parent_id, zone_id=root.zone_id, lock=True)
    return top


def _require_same_client(grant: CodeGrant, client: Client) -> None:
    if (grant.party_id, grant.client_id) != (client.party.id, client.client_id):
        raise InvalidGrant(REFUSED, internal="the code belongs to another client")


def _require_same_key(grant: CodeGrant, jkt: str | None) -> None:
    """A code that was asked for with the thumbprint of a key is for who has it. Spec: RFC 9449 section 10."""
    if grant.jkt not in (None, jkt):
        raise InvalidGrant(REFUSED, internal="nothing proves possession of the key it was asked for with")


def _require_same_redirect_uri(grant: CodeGrant, redirect_uri: str | None) -> None:
    """With a PKCE challenge it may be left out, as in OAuth 2.1; when it is sent, it must be the same."""
    if redirect_uri is None and grant.challenge is not None:
        return
    if redirect_uri != grant.redirect_uri:
        raise InvalidGrant(REFUSED, internal="another redirect URI")


async def _signed_in(parts: Parts, view: ZoneView, grant: CodeGrant, now: datetime) -> tuple[Session, User]:
    """The browser session and the user of the code, both still good. Raises InvalidGrant."""
    async with parts.database.querying() as conn:
        found = await signed_in.by_session(conn, grant.session_id, zone_id=view.id)
    if found is None or found[1].id != grant.user_id:
        raise InvalidGrant(REFUSED, internal="the session or the user is gone")
    root, user = found
    if not root.is_active(now) or user.status is not UserStatus.ACTIVE:
        raise InvalidGrant(REFUSED, internal="session over or user disabled")
    return root, user


def _application_session(
    parts: Parts, root: Session, grant: CodeGrant, client: Client, produced: Produced, now: datetime
) -> Session:
    """The session that the application's tokens stand on.

    It ends with the browser session, unless `offline_access` was granted: then it stands alone and lives as
    long as it is used.
    """
    offline = "offline_access" in grant.scopes
    end = now + timedelta(seconds=parts.settings.refresh_lifetime_seconds) if offline else root.expires_at
    return replace(
        root,
        id=produced.session_id,
        application_id=client.party.application_id,
        user_agent_id=client.party.user_agent_id,
        client_id=client.client_id,
        session_type="offline" if offline else "application",
        expires_at=end,
        created_at=now,
        updated_at=now,
        status="active",
        epoch=1,
        metadata={"name": client.name},
        cookie_hash=None,
        provider_id_token=None,
    )

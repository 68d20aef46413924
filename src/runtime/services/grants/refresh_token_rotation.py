"""The refresh token grant: rotation on use, a short grace period, and revocation of the family on reuse.

A token names its family, so that one of any age is recognised; what counts is its hash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import InvalidGrant, InvalidRequest, UnauthorizedClient
from runtime.domain.kinds.role import User
from runtime.domain.lifetimes import ACTIVE, is_active
from runtime.domain.oauth.exchange_steps import Step
from runtime.domain.oauth.resources import RequestedResource
from runtime.services.authority import active, session_revocation
from runtime.services.authority.active import NotActive
from runtime.services.client_types import Client
from runtime.services.clients import client_lookup
from runtime.services.container import Services
from runtime.services.decision_log import Decision
from runtime.services.grants.context import TokenContext
from runtime.services.issuing import token_responses
from runtime.services.issuing.token_responses import UserAuthorization
from runtime.services.zones import CachedZone
from runtime.storage.sql import refresh_families as storage
from runtime.storage.sql import revocations, session_users, sessions, zone_addresses
from runtime.storage.sql.refresh_families import RefreshFamily
from runtime.storage.sql.sessions import SessionRecord

GRACE_SECONDS = 30
REFUSED = "the refresh token is not valid"
_MAX_TOKEN_CHARS = 200


async def grant(context: TokenContext) -> dict[str, Any]:
    """New tokens in place of those that run out, and the refresh token that follows."""
    return await refresh(
        context.services,
        context.zone,
        context.client,
        context.form,
        context.resources,
        context.now,
        context.jkt,
        decision=context.decision,
    )


def new_family(
    services: Services, zone: CachedZone, authority: UserAuthorization, family_id: str, now: datetime
) -> tuple[str, RefreshFamily]:
    """The first refresh token of a new family, and the family to keep."""
    token = _new_token(family_id)
    return token, RefreshFamily(
        id=family_id,
        zone_id=zone.id,
        application_id=authority.client.client_ref.application_id,
        user_agent_id=authority.client.client_ref.user_agent_id,
        client_id=authority.client.client_id,
        session_id=authority.session.id,
        user_id=authority.user.id,
        scopes=sorted(authority.scopes),
        resources={each.id: sorted(each.scopes) for each in authority.resources},
        current_hash=services.hasher.hash(token),
        expires_at=authority.session.expires_at,
        created_at=now,
        jkt=_bound(authority.client, authority.jkt),
    )


async def refresh(
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
    """The token response for a refresh token.

    Scopes and resources can only be narrowed, and only for this one answer.

    Args:
        jkt: thumbprint of the key that the sender has proved to have; the access token is bound to it.
        decision: is filled in on the way; its step is the one that refused.
    Raises: UnauthorizedClient, InvalidRequest, InvalidGrant, InvalidScope, InvalidTarget, AccessDenied.
    Spec: RFC 6749 section 6; RFC 9700 section 4.14.
    """
    if not client.may_refresh:
        raise UnauthorizedClient("the client is not registered for the grant type `refresh_token`")
    token = form.get("refresh_token")
    if token is None:
        raise InvalidRequest("`refresh_token` is missing")
    decision.step = Step.SUBJECT_TOKEN
    family = await _named(services, zone, client, token)
    if family is None:
        raise InvalidGrant(REFUSED, internal="unknown, or of another client")
    decision.user_id = family.user_id
    await _require_usable(services, zone, family, token, now)
    await _require_same_key(services, zone, family, jkt)
    family = replace(family, jkt=family.jkt or _bound(client, jkt))
    decision.step = Step.SESSION
    session, user = await require_active_family(services, zone, family, now)
    async with services.database.querying() as conn:
        withdrawn = await revocations.withdrawn_in_session(conn, zone.id, session.id)
    decision.step = Step.SCOPES
    whole = await _authority(zone, client, family, session, user)
    authority = replace(token_responses.narrowed(whole, form.get("scope")), jkt=jkt, withdrawn=withdrawn)
    target = await token_responses.choose_target(services, zone, authority, named, decision=decision)
    answer = await token_responses.answer(
        services, zone, authority, target, nonce=None, now=now, decision=decision
    )
    decision.step = Step.STORING
    successor = await _successor(services, zone, client, family, session, token, now)
    return {**answer, "refresh_token": successor}


async def _require_usable(
    services: Services, zone: CachedZone, family: RefreshFamily, token: str, now: datetime
) -> None:
    """Check that the token of a family may be used now.

    A token of the family that is neither the current one nor, for a moment, the one before has been used by
    two parties. Nobody can tell which of them is the thief, so both lose it.

    Raises InvalidGrant.
    """
    if not is_active(family, now):
        has_expired = family.status == ACTIVE
        raise _refused(
            family, "the refresh token has expired" if has_expired else "the refresh token was revoked"
        )
    if not is_usable(services, family, token, now):
        await session_revocation.end(services, zone, session_id=family.session_id, family_id=family.id)
        raise _refused(family, "refresh token reuse, which ends the session")


async def _require_same_key(
    services: Services, zone: CachedZone, family: RefreshFamily, jkt: str | None
) -> None:
    """Check that a bound family is used with its key; another key's owner has stolen the token.

    Raises InvalidGrant.
    """
    if family.jkt in (None, jkt):
        return
    if jkt is None:
        raise _refused(family, "bound to a key, and sent without a DPoP proof of it")
    await session_revocation.end(services, zone, session_id=family.session_id, family_id=family.id)
    raise _refused(family, "bound to a key, and sent with a DPoP proof of another, which ends the session")


def _refused(family: RefreshFamily, why: str) -> InvalidGrant:
    """The refusal of a token whose family is known; the record names the session."""
    return InvalidGrant(REFUSED, internal=f"{why} (session `{family.session_id}`)")


def _bound(client: Client, jkt: str | None) -> str | None:
    """What a refresh token is bound to: a public client has nothing else to prove that it is its own."""
    return jkt if client.is_public else None


async def find_family(
    services: Services, zone: CachedZone, client: Client, token: str
) -> RefreshFamily | None:
    """The client's family that the token is of, or was before its last use; None when there is none.

    Looking changes nothing, and whether the token is still good is another question: see `is_usable`.
    """
    family = await _named(services, zone, client, token)
    if family is None:
        return None
    hashed, previous = services.hasher.hash(token), family.previous_hash
    is_of_it = compare_digest(hashed, family.current_hash) or (
        previous is not None and compare_digest(hashed, previous)
    )
    return family if is_of_it else None


def is_usable(services: Services, family: RefreshFamily, token: str, now: datetime) -> bool:
    """Tell whether a token of the family may be used now, as far as the family goes."""
    if not is_active(family, now):
        return False
    return _is_current(services, family, token) or _is_repeated(services, family, token, now)


async def _named(services: Services, zone: CachedZone, client: Client, token: str) -> RefreshFamily | None:
    """The client's family that a token names, genuine or not."""
    family_id = token.partition(".")[0] if len(token) <= _MAX_TOKEN_CHARS else ""
    if not family_id:
        return None
    async with services.database.querying() as conn:
        family = await storage.find(conn, family_id, zone_id=zone.id)
    owner = (client.client_ref, client.client_id)
    return family if family and (family.client_ref, family.client_id) == owner else None


async def require_active_family(
    services: Services, zone: CachedZone, family: RefreshFamily, now: datetime
) -> tuple[SessionRecord, User]:
    """The session and the user behind a family, both still good. Raises InvalidGrant."""
    async with services.database.querying() as conn:
        found = await session_users.by_session(conn, family.session_id, zone_id=zone.id)
    if found is None or found[1].id != family.user_id:
        raise InvalidGrant(REFUSED, internal="the session or the user no longer exists")
    session, user = found
    try:
        active.require_active(session, user, now)
    except NotActive as failure:
        raise InvalidGrant(REFUSED, internal=str(failure)) from None
    return session, user


async def _authority(
    zone: CachedZone, client: Client, family: RefreshFamily, session: SessionRecord, user: User
) -> UserAuthorization:
    resources = []
    for resource_id, granted in family.resources.items():
        resource = await zone.resources.get(resource_id)
        if resource is not None:
            of_it = frozenset(granted)
            of_it &= frozenset(resource.scopes or ())
            resources.append(RequestedResource(id=resource.id, identifier=resource.identifier, scopes=of_it))
    return UserAuthorization(session, user, client, frozenset(family.scopes), tuple(resources))


async def _successor(
    services: Services,
    zone: CachedZone,
    client: Client,
    family: RefreshFamily,
    session: SessionRecord,
    token: str,
    now: datetime,
) -> str:
    """The token that follows: made once, and the same for everyone who repeats the request in time.

    Raises InvalidGrant when the family has ended or moved on meanwhile.
    """
    if _is_current(services, family, token):
        successor = _new_token(family.id)
        until = family.expires_at
        async with services.database.transaction(tenant=zone.organization_id) as conn:
            if session.session_type == "offline":
                until = now + timedelta(seconds=services.settings.refresh_lifetime_seconds)
                await sessions.extend(conn, session.id, zone_id=zone.id, until=until)
            rotated = await storage.rotate(
                conn,
                family,
                successor_hash=services.hasher.hash(successor),
                successor_sealed=zone.sealer.seal(successor.encode(), bound_to=_place(family)),
                now=now,
                expires_at=until,
            )
            if zone.former:
                await zone_addresses.tell_session(conn, zone.id, session.id, zone.issuer)
            latest = await storage.find(conn, family.id, zone_id=zone.id)
            await client_lookup.mark_used(conn, client, now=now)
        if rotated:
            return successor
        family = latest or family
    if not is_active(family, now) or not _is_repeated(services, family, token, now):
        raise InvalidGrant(REFUSED, internal="the refresh token was rotated by another request")
    if family.successor_sealed is None:
        raise InvalidGrant(REFUSED, internal="the family was revoked during the request")
    return zone.sealer.open(family.successor_sealed, bound_to=_place(family)).decode()


def _is_current(services: Services, family: RefreshFamily, token: str) -> bool:
    return compare_digest(services.hasher.hash(token), family.current_hash)


def _is_repeated(services: Services, family: RefreshFamily, token: str, now: datetime) -> bool:
    """Tell whether this is the token before the current one, used a moment ago."""
    if family.previous_hash is None or family.rotated_at is None:
        return False
    recent = now - family.rotated_at <= timedelta(seconds=GRACE_SECONDS)
    return recent and compare_digest(services.hasher.hash(token), family.previous_hash)


def _new_token(family_id: str) -> str:
    return f"{family_id}.{new_secret()}"


def _place(family: RefreshFamily) -> str:
    return f"refresh_families/{family.id}/successor_sealed"

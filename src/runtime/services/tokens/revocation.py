"""Token revocation by a client. Spec: RFC 7009.

A refresh token ends the session that its sign-in opened for the client, and with it the family, the access
tokens and every chain of exchanges that began there. An access token of that sign-in does the same: it is
the same authority. A token that came from an exchange, or is an application's own, ends alone: the session
behind it is another client's, who has not asked for anything.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from runtime.adapters.keys.signing import InvalidJwt as TokenRefused
from runtime.adapters.keys.signing import verify
from runtime.domain.errors import UnsupportedTokenType
from runtime.domain.oauth.assertions import LEEWAY_SECONDS
from runtime.domain.oauth.claims import ACCESS_TOKEN_TYPE
from runtime.domain.oauth.decision_events import DecisionOutcome
from runtime.services import epochs
from runtime.services.authority import session_revocation
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.decision_log import IGNORED, Decision
from runtime.services.grants import refresh_token_rotation
from runtime.services.zones import CachedZone
from runtime.storage.sql import sessions

# Tokens the zone signs that nobody can take back: they are read once, or expire within minutes.
_OTHER_TYPES = ("JWT", "logout+jwt")


@dataclass(frozen=True, slots=True)
class _RevocableToken:
    """What a verified access token says, as far as its revocation needs it.

    Attributes:
        session_id: `sid`; None for an application's own token.
        is_exchanged: it has an `act` claim, so it came from a token exchange.
    """

    token_id: str
    client_id: str
    session_id: str | None
    is_exchanged: bool
    expires_at: datetime


async def revoke(
    services: Services, zone: CachedZone, client: Client, token: str, now: datetime, decision: Decision
) -> None:
    """End what a token of the client stands for; nothing for one that is unknown, foreign or over.

    Args:
        decision: hears whether anything was ended.
    Raises: UnsupportedTokenType for a token of the zone that is neither of the two sorts; Unavailable.
    """
    if token.count(".") == 2:
        ended = await _access_token(services, zone, client, token, now, decision)
    else:
        ended = await _refresh_token(services, zone, client, token, decision)
    decision.outcome, decision.step = DecisionOutcome.REVOKED if ended else IGNORED, None


async def _refresh_token(
    services: Services, zone: CachedZone, client: Client, token: str, decision: Decision
) -> bool:
    family = await refresh_token_rotation.find_family(services, zone, client, token)
    if family is None:
        return False
    decision.user_id = family.user_id
    await session_revocation.end(services, zone, session_id=family.session_id, family_id=family.id)
    return True


async def _access_token(
    services: Services, zone: CachedZone, client: Client, token: str, now: datetime, decision: Decision
) -> bool:
    found = _read(zone, token, now)
    issued_to = await zone.clients.get(found.client_id) if found else None
    if found is None or issued_to is None or issued_to.client_id != client.client_id:
        return False
    if found.session_id is not None and not found.is_exchanged:
        async with services.database.querying() as conn:
            session = await sessions.find(conn, found.session_id, zone_id=zone.id)
        if session is not None and session.session_type in ("application", "offline"):
            decision.user_id = session.user_id
            await session_revocation.end(services, zone, session_id=session.id)
            return True
    # Kept until the token has ended on every clock.
    expires_at = found.expires_at + timedelta(seconds=LEEWAY_SECONDS)
    async with services.epochs.transaction(tenant=zone.organization_id) as (conn, bumped):
        bumped.update(
            await epochs.revoke_token(conn, zone.id, found.token_id, now=now, expires_at=expires_at)
        )
    return bool(bumped)


def _read(zone: CachedZone, token: str, now: datetime) -> _RevocableToken | None:
    """What an access token of the zone says; None for one that is not. Raises UnsupportedTokenType.

    A token that seems not to have begun yet, or to have ended just now, is one that others may take.
    """
    for typ in (ACCESS_TOKEN_TYPE, *_OTHER_TYPES):
        try:
            claims = verify(
                token,
                zone.keys,
                typ=typ,
                issuer=zone.issuers,
                audience=None,
                now=now,
                leeway_seconds=LEEWAY_SECONDS,
                allow_early=True,
            )
        except TokenRefused:
            continue
        if typ != ACCESS_TOKEN_TYPE:
            raise UnsupportedTokenType("only access tokens and refresh tokens can be revoked")
        return _RevocableToken(
            token_id=claims["jti"],
            client_id=claims["client_id"],
            session_id=claims.get("sid"),
            is_exchanged="act" in claims,
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )
    return None

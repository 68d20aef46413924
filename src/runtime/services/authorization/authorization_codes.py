"""Authorization codes: opaque handles, redeemed once within a minute, and the detection of their reuse.

What a code stands for is kept under its hash. Redeeming leaves a mark that outlives the code and names what
was issued for it, so that a second attempt revokes exactly that (RFC 6749 section 4.1.2). The grant that
redeems a code is `grants.authorization_code`.
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from runtime.adapters.keys.sealing import new_secret
from runtime.domain.errors import InvalidGrant, TooManyTries
from runtime.domain.identifiers import new_id
from runtime.domain.oauth.resources import RequestedResource
from runtime.services import rate_limits, state_values
from runtime.services.authority import session_revocation
from runtime.services.container import Services
from runtime.services.zones import CachedZone

CODE_SECONDS = 60
MARK_SECONDS = 600
REFUSED = "the code is not valid for this request"


class CodeGrant(BaseModel):
    """What a code stands for: everything it is bound to, and everything it allows.

    Attributes:
        party_id: of the application or user agent.
        session_id: the browser session of the user who agreed.
        jkt: thumbprint of the key that whoever redeems it must have.
    """

    model_config = ConfigDict(frozen=True)

    client_id: str
    party_id: str
    redirect_uri: str
    scopes: frozenset[str]
    resources: tuple[RequestedResource, ...]
    nonce: str | None
    challenge: str | None
    session_id: str
    user_id: str
    issued_at: datetime
    jkt: str | None = None


class IssuedIds(BaseModel):
    """The ids of what a code is redeemed for, settled before anything is made, so that it can be ended."""

    model_config = ConfigDict(frozen=True)

    session_id: str
    family_id: str


async def issue(services: Services, zone_id: str, grant: CodeGrant) -> str:
    """A new code for that grant. Raises TooManyTries: each is kept until it is redeemed or too old."""
    if wait := services.rate_limiter.hit_local(rate_limits.AUTHORIZATION_CODES, zone_id, grant.session_id):
        raise TooManyTries("too many sign-ins at once; try again in a minute", retry_after_seconds=wait)
    code = new_secret()
    key = _key(services, zone_id, code, "code")
    await services.state.put_once(key, grant.model_dump_json().encode(), ttl_seconds=CODE_SECONDS)
    return code


async def redeem(services: Services, zone: CachedZone, code: str) -> tuple[CodeGrant, IssuedIds]:
    """What the code stands for, to the one caller who gets it; and the ids to use for what is made of it.

    The code is gone afterwards, whatever the caller decides. Raises InvalidGrant: unknown, expired or used; a
    used one also ends what its first use produced.
    """
    key, mark = _key(services, zone.id, code, "code"), _key(services, zone.id, code, "code-used")
    produced = IssuedIds(session_id=new_id(), family_id=new_id())
    value = produced.model_dump_json().encode()
    stored, earlier = await services.state.claim(key, mark=mark, value=value, ttl_seconds=MARK_SECONDS)
    if stored is not None:
        grant = state_values.read(CodeGrant, stored)
        if grant is None:
            raise InvalidGrant(REFUSED, internal="the code was stored by another release")
        return grant, produced
    if earlier is None:
        raise InvalidGrant(REFUSED, internal="unknown or expired code")
    # The mark goes first: a winner who has not written yet finds it afterwards. One who has is ended even
    # where no mark can be kept.
    try:
        await services.state.put(_key(services, zone.id, code, "code-reused"), b"1", ttl_seconds=MARK_SECONDS)
    finally:
        if (redeemed := state_values.read(IssuedIds, earlier)) is not None:
            await _end(services, zone, redeemed)
    raise InvalidGrant(REFUSED, internal="the code was used before")


async def end_if_reused(services: Services, zone: CachedZone, code: str, produced: IssuedIds) -> None:
    """End what was just made of a code, if somebody else presented it meanwhile. Comes after the commit."""
    (reused,) = await services.state.fetch([_key(services, zone.id, code, "code-reused")])
    if reused is not None:
        await _end(services, zone, produced)


async def _end(services: Services, zone: CachedZone, produced: IssuedIds) -> None:
    await session_revocation.end(services, zone, session_id=produced.session_id, family_id=produced.family_id)


def _key(services: Services, zone_id: str, code: str, kind: str) -> str:
    return f"{kind}:{zone_id}:{services.hasher.hash(code).hex()}"

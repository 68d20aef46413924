"""DPoP: verifying proofs of possession of the key that a token is bound to; each works once.

Spec: RFC 9449 sections 4.3, 5 and 11.1.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from hmac import compare_digest

from runtime.adapters.keys import jose
from runtime.adapters.keys.dpop_signature import verify_dpop_proof
from runtime.domain.errors import (
    InvalidDpopProof,
    InvalidToken,
    NonceRequired,
    ProofRefused,
    TooManyRequests,
    UseDpopNonce,
)
from runtime.domain.oauth import dpop_claims
from runtime.domain.oauth.assertions import InvalidAssertion
from runtime.services import rate_limits
from runtime.services.clients.jwt_replay import is_first_use
from runtime.services.container import Services
from runtime.services.zones import CachedZone

_TOKEN_REFUSED = "the access token is not valid here"
_REFUSED = "the DPoP proof is not valid for this request"
NONCE_SECONDS = 300  # how often a zone that wants nonces has a new one
_NONCE_BYTES = 18
_NONCE_WANTED = "the DPoP proof must carry the `nonce` of the `DPoP-Nonce` header"
# As long as the clocks of the two may differ, in both directions.
REMEMBERED_SECONDS = 2 * dpop_claims.WINDOW_SECONDS + 1


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """A token as a request at an API presents it.

    Attributes:
        is_bound: whether the scheme says that it comes with a proof: `DPoP`, not `Bearer`.
        proof: what came in the `DPoP` header.
        uri: the address that was asked for, from the settings and never from the request.
        proved: thumbprint of the key that the proof has shown already, when the same request is looked at
            again: a proof works once.
    """

    token: str
    is_bound: bool
    proof: str | None
    method: str
    uri: str
    proved: str | None = None


def nonce(services: Services, zone: CachedZone, now: datetime, *, windows_ago: int = 0) -> str:
    """What proofs to the zone repeat for now, where it wants that.

    Nothing is kept, because every process makes the same one. It counts until the next window has ended.
    Spec: RFC 9449 sections 8 and 9.
    """
    window = int(now.timestamp()) // NONCE_SECONDS - windows_ago
    made = services.hasher.hash(f"proof nonce\0{zone.id}\0{window}")
    return urlsafe_b64encode(made[:_NONCE_BYTES]).decode("ascii")


async def require_proof(
    services: Services, zone: CachedZone, presented: PresentedToken, jkt: str | None
) -> None:
    """Check that a bound token comes with a proof of its key, and one that is not as a bearer token.

    Args:
        zone: the zone that issued the token.
        jkt: thumbprint of the key that the token is bound to, as its verified claims say.
    Raises: InvalidToken; ProofRefused; NonceRequired; Unavailable when it cannot be told whether the proof
        was used before.
    Spec: RFC 9449 section 7.
    """
    if presented.is_bound != (jkt is not None):
        raise InvalidToken(
            _TOKEN_REFUSED, internal="the scheme (Bearer or DPoP) does not match `cnf` of the token"
        )
    if jkt is None:
        return
    try:
        proved = presented.proved or await verify_proof(
            services,
            zone,
            presented.proof or "",
            method=presented.method,
            uri=presented.uri,
            now=services.clock(),
            sender=jkt,
            bound_to=jkt,
            access_token=presented.token,
        )
    except UseDpopNonce as failure:
        raise NonceRequired(failure.detail, nonce=failure.nonce) from None
    except InvalidDpopProof as failure:
        raise ProofRefused(failure.detail, internal=failure.internal) from None
    if proved != jkt:
        raise InvalidToken(_TOKEN_REFUSED, internal="bound to another key")


async def verify_proof(
    services: Services,
    zone: CachedZone,
    proof: str,
    *,
    method: str,
    uri: str,
    now: datetime,
    sender: str | None,
    bound_to: str | None = None,
    access_token: str | None = None,
) -> str:
    """The thumbprint of the key that the request's sender has.

    Args:
        zone: the zone within which a proof works once, and whose nonce it carries if the zone wants that.
        uri: the address that was asked for, from the settings and never from the request.
        sender: whose proofs are counted, for each is remembered a while; None for an application that has
            proved itself.
        bound_to: thumbprint of the only key that is of use; a proof of another is not remembered.
        access_token: what the proof accompanies at an API; None at the token endpoint.
    Raises: InvalidDpopProof; UseDpopNonce; TooManyRequests; Unavailable when it cannot be told whether the
        proof was used before.
    """
    try:
        opened = verify_dpop_proof(proof)
        token_id = dpop_claims.check_proof(
            opened.claims, method=method, uri=uri, now=now, access_token=access_token
        )
    except (jose.InvalidJwt, InvalidAssertion) as failure:
        raise InvalidDpopProof(_REFUSED, internal=str(failure)) from None
    if zone.settings.require_dpop_nonce and not _is_current(services, zone, opened.claims.get("nonce"), now):
        raise UseDpopNonce(_NONCE_WANTED, nonce=nonce(services, zone, now))
    if bound_to not in (None, opened.thumbprint):
        return opened.thumbprint
    if sender is not None and (
        wait := services.rate_limiter.hit_local(rate_limits.DPOP_PROOFS, zone.id, sender)
    ):
        raise TooManyRequests("too many DPoP proofs; try again in a minute", retry_after_seconds=wait)
    if not await is_first_use(
        services,
        f"proof:{zone.id}",
        opened.thumbprint,
        token_id,
        made_at=opened.claims["iat"],
        ttl_seconds=REMEMBERED_SECONDS,
    ):
        raise InvalidDpopProof(_REFUSED, internal="the proof was used before")
    return opened.thumbprint


def _is_current(services: Services, zone: CachedZone, given: object, now: datetime) -> bool:
    """Tell whether that is the zone's nonce of this window or the last; or of the next, by a clock ahead."""
    if not isinstance(given, str):
        return False
    told = given.encode("utf-8", "surrogatepass")
    return any(
        compare_digest(told, nonce(services, zone, now, windows_ago=ago).encode("ascii"))
        for ago in (0, 1, -1)
    )

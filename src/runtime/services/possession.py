"""That whoever asks has the key a token is bound to, shown with a proof that works once.

Spec: RFC 9449 sections 4.3, 5 and 11.1.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.adapters.keys import jose
from runtime.adapters.keys.proofs import open_proof
from runtime.domain.errors import InvalidDpopProof, InvalidToken, ProofRefused
from runtime.domain.oauth import dpop
from runtime.domain.oauth.assertions import NotAcceptable

if TYPE_CHECKING:
    from runtime.services.parts import Parts

_TOKEN_REFUSED = "the access token is not valid here"
_REFUSED = "the DPoP proof is not valid for this request"
# As long as the clocks of the two may differ, in both directions.
_REMEMBERED_SECONDS = 2 * dpop.WINDOW_SECONDS + 1


@dataclass(frozen=True, slots=True)
class Presented:
    """A token as a request at an API presents it.

    Attributes:
        is_bound: whether the scheme says that it comes with a proof: `DPoP`, not `Bearer`.
        proof: what came in the `DPoP` header.
        uri: the address that was asked for, from the settings and never from the request.
    """

    token: str
    is_bound: bool
    proof: str | None
    method: str
    uri: str


async def require(parts: "Parts", realm: str, presented: Presented, jkt: str | None) -> None:
    """Check that a bound token comes with a proof of its key, and one that is not as a bearer token.

    Args:
        jkt: thumbprint of the key that the token is bound to, as its verified claims say.
    Raises: InvalidToken; ProofRefused; Unavailable when it cannot be told whether the proof was used before.
    Spec: RFC 9449 section 7.
    """
    if presented.is_bound != (jkt is not None):
        raise InvalidToken(_TOKEN_REFUSED, internal="bound to a key and presented without, or the reverse")
    if jkt is None:
        return
    try:
        proved = await prove(
            parts,
            realm,
            presented.proof or "",
            method=presented.method,
            uri=presented.uri,
            now=parts.clock(),
            access_token=presented.token,
        )
    except InvalidDpopProof as failure:
        raise ProofRefused(failure.detail, internal=failure.internal) from None
    if proved != jkt:
        raise InvalidToken(_TOKEN_REFUSED, internal="bound to another key")


async def prove(
    parts: "Parts",
    realm: str,
    proof: str,
    *,
    method: str,
    uri: str,
    now: datetime,
    access_token: str | None = None,
) -> str:
    """The thumbprint of the key that the request's sender has.

    Args:
        realm: within which a proof works once: the zone's id, or a name for what belongs to none.
        uri: the address that was asked for, from the settings and never from the request.
        access_token: what the proof accompanies at an API; None at the token endpoint.
    Raises: InvalidDpopProof; Unavailable when it cannot be told whether the proof was used before.
    """
    try:
        opened = open_proof(proof)
        token_id = dpop.check_proof(opened.claims, method=method, uri=uri, now=now, access_token=access_token)
    except (jose.InvalidToken, NotAcceptable) as failure:
        raise InvalidDpopProof(_REFUSED, internal=str(failure)) from None
    used = sha256(f"{opened.thumbprint}\0{token_id}".encode("utf-8", "surrogatepass")).hexdigest()
    if not await parts.state.add(f"proof:{realm}:{used}", b"1", ttl_seconds=_REMEMBERED_SECONDS):
        raise InvalidDpopProof(_REFUSED, internal="the proof was used before")
    return opened.thumbprint

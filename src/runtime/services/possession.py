"""That whoever asks has the key a token is bound to, shown with a proof that works once.

Spec: RFC 9449 sections 4.3, 5 and 11.1.
"""

from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from runtime.adapters.keys.jose import InvalidToken
from runtime.adapters.keys.proofs import open_proof
from runtime.domain.errors import InvalidDpopProof
from runtime.domain.oauth import dpop
from runtime.domain.oauth.assertions import NotAcceptable

if TYPE_CHECKING:
    from runtime.services.parts import Parts

_REFUSED = "the DPoP proof is not valid for this request"
# As long as the clocks of the two may differ, in both directions.
_REMEMBERED_SECONDS = 2 * dpop.WINDOW_SECONDS + 1


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
    except (InvalidToken, NotAcceptable) as failure:
        raise InvalidDpopProof(_REFUSED, internal=str(failure)) from None
    used = sha256(f"{opened.thumbprint}\0{token_id}".encode("utf-8", "surrogatepass")).hexdigest()
    if not await parts.state.add(f"proof:{realm}:{used}", b"1", ttl_seconds=_REMEMBERED_SECONDS):
        raise InvalidDpopProof(_REFUSED, internal="the proof was used before")
    return opened.thumbprint

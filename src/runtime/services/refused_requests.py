"""The rate limit of refused requests: beyond so many from one address at one zone, the answer is 429.

Only refusals are counted, and only in place of a refusal does anybody hear that: a request that is in order
is answered whoever else is behind the same address.
"""

from runtime.domain.errors import OAuthError, TooManyRequests, Unavailable, UseDpopNonce
from runtime.services.rate_limiter import RateLimiter
from runtime.services.rate_limits import REFUSED_REQUESTS


async def count_refusal(limiter: RateLimiter, zone_id: str, refusal: OAuthError, *, whose: str) -> OAuthError:
    """Count a refusal and return what its sender gets: TooManyRequests when it was one too many.

    What is no fault of the sender's counts as none: trouble here, a nonce that the next proof has to carry,
    and what is a wait already. Who cannot be counted hears the refusal.

    Args:
        whose: what is counted apart: the place of an address, or a user.
    """
    if refusal.status >= 429 or isinstance(refusal, UseDpopNonce):
        return refusal
    try:
        wait = await limiter.hit(REFUSED_REQUESTS, zone_id, whose)
    except Unavailable:
        return refusal
    if not wait:
        return refusal
    return TooManyRequests(
        "too many refused requests; wait a minute and try again",
        retry_after_seconds=wait,
        internal=f"over the quota `{REFUSED_REQUESTS.name}`, {refusal.code}",
        application_id=refusal.application_id,
    )

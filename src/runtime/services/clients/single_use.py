"""JWTs that work once: what names one is kept, as a digest, for as long as it could be shown again."""

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.services.parts import Parts


async def is_first_use(
    parts: "Parts",
    place: str,
    maker: str,
    token_id: str,
    *,
    made_at: float,
    ttl_seconds: int,
) -> bool:
    """Take note of a JWT while it lasts; tell whether it was never used there.

    Args:
        place: what sort of JWT it is, and the zone that it is shown to.
        maker: who chose the `jti`, within whose JWTs it is unique.
        made_at: seconds since 1970, before which it cannot have been used.
    Raises: Unavailable when it cannot be told.
    """
    digest = sha256(f"{maker}\0{token_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return await parts.state.use_once(f"{place}:{digest}", made_at=made_at, ttl_seconds=ttl_seconds)

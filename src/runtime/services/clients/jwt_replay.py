"""Replay protection for JWTs: the digest of a `jti` is kept for as long as the JWT could be shown again."""

from contextvars import ContextVar
from hashlib import sha256

from runtime.services.container import Services

_used: ContextVar[set[str] | None] = ContextVar("used", default=None)


class one_request:  # noqa: N801 - a context manager, which every token request enters
    """Count what is used in the block as used once, however often the request is worked on."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _used.set(set())

    def __exit__(self, *_failure: object) -> None:
        _used.reset(self._before)


async def is_first_use(
    services: Services,
    place: str,
    maker: str,
    token_id: str,
    *,
    made_at: float,
    ttl_seconds: int,
) -> bool:
    """Take note of a JWT while it lasts; tell whether it was never used there, but in the same request.

    Args:
        place: what sort of JWT it is, and the zone that it is shown to.
        maker: who chose the `jti`, within whose JWTs it is unique.
        made_at: seconds since 1970, before which it cannot have been used.
    Raises: Unavailable when it cannot be told.
    """
    digest = sha256(f"{maker}\0{token_id}".encode("utf-8", "surrogatepass")).hexdigest()
    name, used = f"{place}:{digest}", _used.get()
    if used is not None and name in used:
        return True
    is_first = await services.state.use_once(name, made_at=made_at, ttl_seconds=ttl_seconds)
    if is_first and used is not None:
        used.add(name)
    return is_first

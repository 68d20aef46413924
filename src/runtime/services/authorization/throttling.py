"""Rate limits of authorization and pushed requests: by client and address, by address, by zone.

Who is signed in and gets a code begins none, and is not counted. One application has half of what its users'
address has, so that one that turns in circles leaves the others their share.
"""

from runtime.domain.errors import TooManyRequests, TooManyTries
from runtime.services import rate_limits
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.rate_limiter import network_of
from runtime.services.rate_limits import RateLimit
from runtime.services.zones import CachedZone


async def check_authorization_request_rate(
    services: Services, zone: CachedZone, client_id: str, address: str
) -> None:
    """Count a sign-in that begins, or an authorize request that comes to nothing.

    Args:
        client_id: the application; empty when none is known.
    Raises: TooManyTries; Unavailable, because who cannot be counted is not let in.
    """
    limits = rate_limits.AUTHORIZATION_REQUEST_LIMITS
    if wait := await _count(services, zone, limits, client_id, address):
        raise TooManyTries("too many sign-in requests; try again in a minute", retry_after_seconds=wait)


async def check_stored_request_rate(
    services: Services, zone: CachedZone, client: Client, address: str
) -> None:
    """Count a request that is kept until the browser that sent it comes back.

    It is counted by who sent it, whatever client that names: nobody has proved to be the client, and takes
    nothing of what it may push. Raises: TooManyTries; Unavailable.
    """
    if wait := await _count_pushed(services, zone, client, address):
        raise TooManyTries("too many sign-in requests; try again in a minute", retry_after_seconds=wait)


async def check_pushed_request_rate(
    services: Services, zone: CachedZone, client: Client, address: str
) -> None:
    """Count a request that a client pushes ahead. Raises: TooManyRequests; Unavailable."""
    if client.is_public:
        wait = await _count_pushed(services, zone, client, address)
    else:
        wait = await services.rate_limiter.hit(
            rate_limits.PUSHED_REQUESTS_OF_CONFIDENTIAL_CLIENT, zone.id, client.client_id
        )
    if wait:
        raise TooManyRequests("too many requests; try again in a minute", retry_after_seconds=wait)


async def _count_pushed(services: Services, zone: CachedZone, client: Client, address: str) -> int:
    limits = rate_limits.PUSHED_REQUEST_LIMITS
    return await _count(services, zone, limits, client.client_id, address)


async def _count(
    services: Services,
    zone: CachedZone,
    limits: tuple[RateLimit, ...],
    client_id: str,
    address: str,
) -> int:
    """Count for the application at the address, the address, then the zone; the seconds to wait, or 0.

    What one of them refuses takes nothing of the next.
    """
    of_client, of_address, of_zone = limits
    place, wait = network_of(address), 0
    if client_id:
        wait = await services.rate_limiter.hit(of_client, zone.id, place, client_id)
    wait = wait or await services.rate_limiter.hit(of_address, zone.id, place)
    return wait or services.rate_limiter.hit_local(of_zone, zone.id)

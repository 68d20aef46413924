"""How many sign-ins somebody may begin: each leaves something behind until a person has finished it.

Who is signed in and gets a code begins none, and is not counted. One application has half of what its users'
address has, so that one that turns in circles leaves the others their share.
"""

from fractions import Fraction

from runtime.domain.errors import TooManyRequests, TooManyTries
from runtime.services.client_types import Client
from runtime.services.container import Services
from runtime.services.limits import Limit, Meter, count, place_of
from runtime.services.zones import CachedZone

_BEGUN = "sign-ins begun, and authorize requests that come to nothing"
_PUSHED = "authorize requests kept for a browser that comes next"
_AT_ADDRESS, _OF_CLIENT, _OF_ZONE = "an address at a zone", "an application at an address", "a zone"
_SETTING = "sign_ins_a_minute"
_HALF, _TENFOLD = Fraction(1, 2), Fraction(10)

BEGUN = Limit("authorize", _BEGUN, _AT_ADDRESS, _SETTING)
BEGUN_BY_CLIENT = Limit("authorize-client", _BEGUN, _OF_CLIENT, _SETTING, _HALF)
BEGUN_IN_ZONE = Meter(Limit("authorize-zone", _BEGUN, _OF_ZONE, _SETTING, _TENFOLD))
PUSHED = Limit("push", _PUSHED, _AT_ADDRESS, _SETTING)
PUSHED_BY_CLIENT = Limit("push-client", _PUSHED, _OF_CLIENT, _SETTING, _HALF)
# A client with a secret pushes for all of its users, from one address.
PUSHED_BY_BACK_END = Limit("push-back-end", _PUSHED, "an application with a secret", _SETTING, _TENFOLD)
PUSHED_IN_ZONE = Meter(Limit("push-zone", f"{_PUSHED}, by whom nobody knows", _OF_ZONE, _SETTING, _TENFOLD))


async def admit(services: Services, zone: CachedZone, client_id: str, address: str) -> None:
    """Count a sign-in that begins, or an authorize request that comes to nothing.

    Args:
        client_id: the application; empty when none is known.
    Raises: TooManyTries; Unavailable, because who cannot be counted is not let in.
    """
    limits = (BEGUN_BY_CLIENT, BEGUN, BEGUN_IN_ZONE)
    if wait := await _count(services, zone, limits, client_id, address):
        raise TooManyTries("too many sign-ins were begun; try again in a minute", retry_after_seconds=wait)


async def admit_kept(services: Services, zone: CachedZone, client: Client, address: str) -> None:
    """Count a request that is kept until the browser that sent it comes back.

    It is counted by who sent it, whatever client that names: nobody has proved to be the client, and takes
    nothing of what it may push. Raises: TooManyTries; Unavailable.
    """
    if wait := await _count_pushed(services, zone, client, address):
        raise TooManyTries("too many sign-ins were begun; try again in a minute", retry_after_seconds=wait)


async def admit_pushed(services: Services, zone: CachedZone, client: Client, address: str) -> None:
    """Count a request that a client pushes ahead. Raises: TooManyRequests; Unavailable."""
    if client.is_public:
        wait = await _count_pushed(services, zone, client, address)
    else:
        wait = await count(services, PUSHED_BY_BACK_END, zone.id, client.client_id)
    if wait:
        raise TooManyRequests("too many requests; try again in a minute", retry_after_seconds=wait)


async def _count_pushed(services: Services, zone: CachedZone, client: Client, address: str) -> int:
    limits = (PUSHED_BY_CLIENT, PUSHED, PUSHED_IN_ZONE)
    return await _count(services, zone, limits, client.client_id, address)


async def _count(
    services: Services, zone: CachedZone, limits: tuple[Limit, Limit, Meter], client_id: str, address: str
) -> int:
    """Count for the application at the address, the address, then the zone; the seconds to wait, or 0.

    What one of them refuses takes nothing of the next.
    """
    of_client, of_address, of_zone = limits
    place, wait = place_of(address), 0
    if client_id:
        wait = await count(services, of_client, zone.id, place, client_id)
    wait = wait or await count(services, of_address, zone.id, place)
    return wait or of_zone.count(services, zone.id)

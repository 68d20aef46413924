"""How many sign-ins somebody may begin: each leaves something behind until a person has finished it.

Who is signed in and gets a code begins none, and is not counted. One application has half of what its users'
address has, so that one that turns in circles leaves the others their share.
"""

from runtime.domain.errors import TooManyRequests, TooManyTries
from runtime.services.limits import Limit, count, place_of
from runtime.services.parties import Client
from runtime.services.parts import Parts
from runtime.services.zones import ZoneView

_OF_BACK_ENDS = 10  # a client with a secret pushes for all of its users, from one address


async def admit(parts: Parts, view: ZoneView, client_id: str, address: str) -> None:
    """Count a sign-in that begins, or an authorize request that comes to nothing.

    Args:
        client_id: the application; empty when none is known.
    Raises: TooManyTries; Unavailable, because who cannot be counted is not let in.
    """
    if wait := await _count(parts, view, "authorize", client_id, address):
        raise TooManyTries("too many sign-ins were begun; try again in a minute", retry_after_seconds=wait)


async def admit_kept(parts: Parts, view: ZoneView, client: Client, address: str) -> None:
    """Count a request that is kept until the browser that sent it comes back.

    It is counted by who sent it, whatever client that names: nobody has proved to be the client, and takes
    nothing of what it may push. Raises: TooManyTries; Unavailable.
    """
    if wait := await _count(parts, view, "push", client.client_id, address):
        raise TooManyTries("too many sign-ins were begun; try again in a minute", retry_after_seconds=wait)


async def admit_pushed(parts: Parts, view: ZoneView, client: Client, address: str) -> None:
    """Count a request that a client pushes ahead. Raises: TooManyRequests; Unavailable."""
    if client.is_public:
        wait = await _count(parts, view, "push", client.client_id, address)
    elif most := parts.settings.sign_ins_a_minute * _OF_BACK_ENDS:
        wait = await count(parts, Limit("push", most), view.id, client.client_id)
    else:
        wait = 0
    if wait:
        raise TooManyRequests("too many requests; try again in a minute", retry_after_seconds=wait)


async def _count(parts: Parts, view: ZoneView, name: str, client_id: str, address: str) -> int:
    """Count for the application at the address, then for the address; the seconds to wait, or 0."""
    most, place = parts.settings.sign_ins_a_minute, place_of(address)
    if not most:
        return 0
    wait = 0
    if client_id:
        wait = await count(parts, Limit(name, (most + 1) // 2), view.id, place, client_id)
    return wait or await count(parts, Limit(name, most), view.id, place)

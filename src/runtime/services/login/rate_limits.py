"""Guessing made slow: after a few tries for an account from an address, each further one has to wait longer.

The pair of both is what is counted, so an attacker elsewhere cannot lock the owner out. The address has its
own measure besides: so many tries a minute as sign-ins, whatever accounts they are for.
"""

from fractions import Fraction
from hashlib import sha256

from runtime.domain.errors import TooManyTries
from runtime.services.container import Services
from runtime.services.limits import Limit, Meter, count, place_of

FREE_TRIES = 5
MAX_DELAY_SECONDS = 300
_TRIED, _SETTING = "passwords tried, and users who register", "sign_ins_a_minute"
PASSWORDS = Limit("passwords", _TRIED, "an address at a zone", _SETTING)
PASSWORDS_IN_ZONE = Meter(Limit("passwords-zone", _TRIED, "a zone", _SETTING, Fraction(10)))
# Beyond it each further one has to wait twice as long as the last.
TRIES = Limit("tries", "tries for an account", "an account and an address together", FREE_TRIES, seconds=3600)
SIGN_UPS = Limit("sign-ups", "users who register by themselves", "a zone", 10_000, seconds=24 * 3600)


async def admit(services: Services, zone_id: str, account: str, address: str) -> None:
    """Count a try. Raises TooManyTries when it comes before its time, without a look at the password."""
    wait = await count(services, PASSWORDS, zone_id, place_of(address))
    if wait := wait or PASSWORDS_IN_ZONE.count(services, zone_id):
        raise TooManyTries("too many tries; wait a minute and try again", retry_after_seconds=wait)
    tries = await services.state.count(_key("tries", zone_id, account, address), ttl_seconds=TRIES.seconds)
    if tries <= FREE_TRIES:
        return
    delay = min(2 ** (tries - FREE_TRIES), MAX_DELAY_SECONDS)
    gate = _key("tries-gate", zone_id, account, address)
    if not await services.state.add(gate, b"1", ttl_seconds=delay):
        raise TooManyTries(
            "too many tries for this account; wait a few minutes and try again", retry_after_seconds=delay
        )


async def admit_new_user(services: Services, zone_id: str) -> None:
    """Count a user who registers without an invitation. Raises TooManyTries: what they leave stays."""
    if wait := await count(services, SIGN_UPS, zone_id):
        raise TooManyTries("too many people have registered; try again later", retry_after_seconds=wait)


async def forgive(services: Services, zone_id: str, account: str, address: str) -> None:
    """Forget the tries: the right password came."""
    await services.state.delete(
        _key("tries", zone_id, account, address), _key("tries-gate", zone_id, account, address)
    )


def _key(kind: str, zone_id: str, account: str, address: str) -> str:
    told = f"{account.lower()} {place_of(address)}".encode("utf-8", "surrogatepass")
    return f"{kind}:{zone_id}:{sha256(told).hexdigest()}"

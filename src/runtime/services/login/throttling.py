"""Rate limits of password sign-in: after a few tries for an account from an address, each further one waits.

The pair of both is counted, so an attacker elsewhere cannot lock the owner out. The address has a limit of
its own besides: so many tries a minute, whatever accounts they are for.
"""

from runtime.domain.errors import TooManyTries
from runtime.services import rate_limits
from runtime.services.container import Services
from runtime.services.rate_limiter import network_of

MAX_DELAY_SECONDS = 300


async def check_password_rate(services: Services, zone_id: str, account: str, address: str) -> None:
    """Count a try. Raises TooManyTries when it comes before its time, without a look at the password."""
    wait = await services.rate_limiter.hit(rate_limits.PASSWORDS, zone_id, network_of(address))
    if wait := wait or services.rate_limiter.hit_local(rate_limits.PASSWORDS_IN_ZONE, zone_id):
        raise TooManyTries("too many tries; wait a minute and try again", retry_after_seconds=wait)
    now = services.clock().timestamp()
    pair = _pair(account, address)
    tries = await services.rate_limiter.count(rate_limits.PASSWORD_TRIES, zone_id, pair, now=now)
    if tries <= rate_limits.FREE_PASSWORD_TRIES:
        return
    delay = min(2 ** (tries - rate_limits.FREE_PASSWORD_TRIES), MAX_DELAY_SECONDS)
    if not await services.state.add(_gate(zone_id, pair, now), b"1", ttl_seconds=delay):
        raise TooManyTries(
            "too many tries for this account; wait a few minutes and try again", retry_after_seconds=delay
        )


async def check_registration_rate(services: Services, zone_id: str) -> None:
    """Count a user who registers without an invitation. Raises TooManyTries: what they leave stays."""
    if wait := await services.rate_limiter.hit(rate_limits.SIGN_UPS, zone_id):
        raise TooManyTries("too many registrations today; try again later", retry_after_seconds=wait)


async def reset_password_rate(services: Services, zone_id: str, account: str, address: str) -> None:
    """Reset the count of tries after the right password."""
    now, pair = services.clock().timestamp(), _pair(account, address)
    tries = rate_limits.PASSWORD_TRIES.key(zone_id, pair, now=now)
    await services.state.delete(tries, _gate(zone_id, pair, now))


def _pair(account: str, address: str) -> str:
    """An account and an address as they are counted together."""
    return f"{account.lower()} {network_of(address)}"


def _gate(zone_id: str, pair: str, now: float) -> str:
    """The key that exists while the pair has to wait for its next try."""
    return f"tries-gate:{rate_limits.PASSWORD_TRIES.key(zone_id, pair, now=now).partition(':')[2]}"

"""Throttling of password sign-in: what is counted together, how long the waits are, and what ends them."""

from dataclasses import replace

import pytest
from tests.support.oauth_site import PASSWORD, Browser, Page, Site

from runtime.domain.errors import TooManyTries, ValidationFailed
from runtime.domain.kinds.zone import Zone
from runtime.services.login import password, throttling
from runtime.services.rate_limiter import RateLimiter
from runtime.services.rate_limits import FREE_PASSWORD_TRIES, PASSWORDS_IN_ZONE
from runtime.storage.state.memory import InProcessState

pytestmark = pytest.mark.usefixtures("one_window")

STORAGE = ("embedded", "servers")
ADA, HERE = "ada@acme.example", "192.0.2.1"


async def waits(site: Site, zone: Zone, *accounts: str, address: str = HERE) -> list[int]:
    """The seconds to wait that each try is answered with, in their order; 0 for one that is let through."""
    seconds = []
    for account in accounts:
        try:
            await throttling.check_password_rate(site.services, zone.id, account, address)
            seconds.append(0)
        except TooManyTries as refusal:
            seconds.append(refusal.retry_after_seconds)
    return seconds


def test_one_try_more_than_the_free_ones_passes_and_closes_the_gate(site: Site) -> None:
    """The first try beyond the free ones is let through and begins the first wait."""
    tried = site.run(waits(site, site.zone(), *[ADA] * (FREE_PASSWORD_TRIES + 2)))

    assert [bool(each) for each in tried] == [False] * (FREE_PASSWORD_TRIES + 1) + [True]


def test_each_try_during_a_wait_doubles_it_up_to_five_minutes(site: Site) -> None:
    """The wait that is told doubles with each try, and stays at 300 seconds."""
    tried = site.run(waits(site, site.zone(), *[ADA] * (FREE_PASSWORD_TRIES + 10)))

    assert tried[FREE_PASSWORD_TRIES + 1 :] == [4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_an_account_is_one_however_it_is_spelt(site: Site) -> None:
    """Upper and lower case of an address are tries for the same account."""
    spelt = [ADA, ADA.upper()] * FREE_PASSWORD_TRIES

    assert site.run(waits(site, site.zone(), *spelt))[FREE_PASSWORD_TRIES + 1] > 0


@pytest.mark.parametrize(("account", "address"), [("grace@acme.example", HERE), (ADA, "192.0.2.2")])
def test_another_account_or_address_does_not_wait(site: Site, account: str, address: str) -> None:
    """Account and address are counted as a pair: nobody locks an owner out from elsewhere."""
    zone = site.zone()
    assert site.run(waits(site, zone, *[ADA] * (FREE_PASSWORD_TRIES + 2)))[-1] > 0

    assert site.run(waits(site, zone, account, address=address)) == [0]


def test_another_zone_does_not_wait(site: Site) -> None:
    """Tries in one zone cost nobody a wait in another."""
    assert site.run(waits(site, site.zone(), *[ADA] * (FREE_PASSWORD_TRIES + 2)))[-1] > 0

    assert site.run(waits(site, site.zone("Another"), ADA)) == [0]


def test_tries_in_a_zone_are_limited_wherever_they_come_from(site: Site) -> None:
    """Beyond the zone's own limit, a try from any address, for any account, waits for the next minute."""
    instant = site.services.clock()
    limiter = RateLimiter(InProcessState(), lambda: instant, site.services.settings)
    here = replace(site, server=replace(site.server, services=replace(site.services, rate_limiter=limiter)))
    zone, allowed = site.zone(), PASSWORDS_IN_ZONE.amount_under(site.services.settings)
    limiter.hit_local(PASSWORDS_IN_ZONE, zone.id, cost=allowed - 1)

    tried = [
        site.run(waits(here, zone, f"{last}@acme.example", address=f"192.0.2.{last}"))[0] for last in (1, 2)
    ]

    assert tried == [0, PASSWORDS_IN_ZONE.seconds_left(instant.timestamp())]


def test_the_right_password_begins_the_count_anew(site: Site) -> None:
    """After a reset there are as many free tries as at first, and no wait is left over."""
    zone = site.zone()
    site.run(waits(site, zone, *[ADA] * (FREE_PASSWORD_TRIES + 2)))

    site.run(throttling.reset_password_rate(site.services, zone.id, ADA, HERE))

    tried = site.run(waits(site, zone, *[ADA] * (FREE_PASSWORD_TRIES + 2)))
    assert [bool(each) for each in tried] == [False] * (FREE_PASSWORD_TRIES + 1) + [True]


def test_registrations_from_one_address_wait_as_tries_do(site: Site) -> None:
    """Whoever sends registrations one after the other waits, whatever addresses they name."""
    zone = site.zone(requires_invitation=False)

    async def all_of_them() -> None:
        cached = await site.services.zones.get(zone.id)
        for number in range(FREE_PASSWORD_TRIES + 1):
            with pytest.raises(ValidationFailed):
                await password.register(
                    site.services, cached, f"{number}@acme.example", "short", address=HERE
                )
        with pytest.raises(TooManyTries):
            await password.register(site.services, cached, "last@acme.example", "short", address=HERE)

    site.run(all_of_them())


@pytest.mark.parametrize("email", [ADA, "nobody@acme.example"])
def test_a_hash_is_computed_whether_or_not_the_user_exists(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch, email: str
) -> None:
    """An unknown address costs one password hash, as a wrong password does: the time tells nothing."""
    zone = site.zone()
    site.user(zone)
    verify, verified = site.services.passwords.verify, list[str]()

    async def counted(stored: str | None, given: str, *, tenant: str) -> bool:
        verified.append(given)
        return await verify(stored, given, tenant=tenant)

    monkeypatch.setattr(site.services.passwords, "verify", counted)
    page = browser.open(site.app(zone).url())
    assert isinstance(page, Page)

    assert browser.post(page, email=email, password=f"not {PASSWORD}").status_code == 400

    assert verified == [f"not {PASSWORD}"]

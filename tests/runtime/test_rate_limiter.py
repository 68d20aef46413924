"""The rate limiter: fixed windows, counted in the shared state or in one process."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.state_doubles import Away

from runtime.domain.errors import Unavailable
from runtime.services.rate_limiter import RateLimiter, network_of
from runtime.services.rate_limits import RateLimit
from runtime.settings import Settings
from runtime.storage.state.memory import InProcessState

ZONE = "zone"
SHARED = RateLimit("shared", "requests", "an address", 2)
LOCAL = RateLimit("local", "requests", "an address", 2, per_process=True)
UNALIGNED = RateLimit("unaligned", "tries", "an account", 2, is_aligned=False)
BY_SETTING = RateLimit("by-setting", "sign-ins", "a zone", "sign_ins_a_minute")


class Clock:
    """Half a minute before a window ends, until a test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(None, data_dir=tmp_path)


@pytest.fixture
def limiter(clock: Clock, settings: Settings) -> RateLimiter:
    return RateLimiter(InProcessState(), clock, settings)


@pytest.mark.parametrize("limit", [SHARED, LOCAL], ids=lambda limit: limit.name)
async def test_the_request_beyond_the_amount_waits_until_the_window_ends(
    limiter: RateLimiter, limit: RateLimit
) -> None:
    """Two are allowed; the third waits for the next full minute, rounded up."""
    assert [await limiter.hit(limit, ZONE, "a") for _ in range(3)] == [0, 0, 31]


@pytest.mark.parametrize("limit", [SHARED, LOCAL], ids=lambda limit: limit.name)
async def test_the_next_window_begins_at_zero(limiter: RateLimiter, clock: Clock, limit: RateLimit) -> None:
    """What was counted in one window is no part of the next."""
    for _ in range(3):
        await limiter.hit(limit, ZONE, "a")

    clock.now += timedelta(seconds=30)

    assert await limiter.hit(limit, ZONE, "a") == 0


@pytest.mark.parametrize("other", [(ZONE, "b"), ("another", "a")], ids=["address", "zone"])
async def test_others_are_counted_separately(limiter: RateLimiter, other: tuple[str, str]) -> None:
    """Another address of the zone, and the same address at another zone, have counts of their own."""
    for _ in range(3):
        await limiter.hit(SHARED, ZONE, "a")

    assert await limiter.hit(SHARED, *other) == 0


async def test_a_limit_of_a_process_is_no_other_processes(clock: Clock, settings: Settings) -> None:
    """Two limiters on one state share the counts of a shared limit alone."""
    state = InProcessState()
    one, two = (RateLimiter(state, clock, settings) for _ in range(2))
    for _ in range(2):
        await one.hit(SHARED, ZONE, "a")
        await one.hit(LOCAL, ZONE, "a")

    assert await two.hit(SHARED, ZONE, "a") > 0
    assert await two.hit(LOCAL, ZONE, "a") == 0


async def test_a_setting_of_zero_lifts_the_limit(clock: Clock, tmp_path: Path) -> None:
    """Nothing is counted then, so that a state that is away refuses nobody."""
    unlimited = Settings.load(None, data_dir=tmp_path, sign_ins_a_minute=0)

    assert await RateLimiter(Away(), clock, unlimited).hit(BY_SETTING, ZONE) == 0


async def test_who_cannot_be_counted_together_is_refused(clock: Clock, settings: Settings) -> None:
    """A shared limit fails closed; whoever wants otherwise catches it."""
    with pytest.raises(Unavailable):
        await RateLimiter(Away(), clock, settings).hit(SHARED, ZONE, "a")


async def test_a_limit_of_a_process_goes_on_without_the_state(clock: Clock, settings: Settings) -> None:
    """It needs no round trip, so a state that is away changes nothing."""
    limiter = RateLimiter(Away(), clock, settings)

    assert [await limiter.hit(LOCAL, ZONE, "a") for _ in range(3)] == [0, 0, 31]


def test_asking_costs_nothing(limiter: RateLimiter) -> None:
    """A cost of 0 tells the wait and counts no request."""
    assert limiter.hit_local(LOCAL, ZONE, "a", cost=3) == 31
    assert [limiter.hit_local(LOCAL, ZONE, "a", cost=0) for _ in range(2)] == [31, 31]
    assert limiter.hit_local(LOCAL, ZONE, "b", cost=0) == 0


def test_a_key_has_nothing_in_clear_text() -> None:
    """An address or an account is in it as a digest alone, beside the limit and the zone."""
    name, zone, digest, window = SHARED.key(ZONE, "ada@acme.example", now=120.0).split(":")

    assert (name, zone, window) == ("shared", ZONE, "2")
    assert len(digest) == 64


def test_a_window_that_is_not_aligned_is_in_no_key() -> None:
    """Such a count lives for its time from the first request on."""
    assert UNALIGNED.key(ZONE, "a", now=0.0) == UNALIGNED.key(ZONE, "a", now=1_000_000.0)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unix", "unix"),
    ],
)
def test_an_address_is_counted_by_its_place(address: str, place: str) -> None:
    """All addresses of an IPv6 /64 network are one place; an IPv4 address is its own, in either spelling."""
    assert network_of(address) == place

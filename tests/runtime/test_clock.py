"""The clock of a node: its machine's own, unless that differs from the database's."""

from datetime import UTC, datetime, timedelta

import pytest

from runtime.services.clock import TOLERATED, Clock

NOON = datetime(2027, 5, 1, 12, 0, tzinfo=UTC)


class Machine:
    """A clock that is moved by hand, and is off."""

    def __init__(self, off: timedelta) -> None:
        self.off = off
        self.true = NOON

    def __call__(self) -> datetime:
        return self.true + self.off


def compare(clock: Clock, machine: Machine, *, trip: timedelta = timedelta(0)) -> None:
    """Ask a database that has the right time, half way through a trip."""
    asked_at = machine()
    machine.true += trip / 2
    told = machine.true.timestamp()
    machine.true += trip / 2
    clock.compare(told, asked_at=asked_at, answered_at=machine())


@pytest.mark.parametrize("seconds", [0, 0.9, -0.9])
def test_a_little_is_put_up_with(seconds):
    """Nothing is corrected, so that instants keep the order in which they were taken."""
    machine = Machine(timedelta(seconds=seconds))
    clock = Clock(machine)
    compare(clock, machine)

    assert clock() == machine()


@pytest.mark.parametrize("seconds", [1.5, -1.5, 20, -20, 600, -600, 1e7])
@pytest.mark.parametrize("trip", [0, 0.002, 0.5])
def test_what_is_off_goes_by_the_database(seconds, trip):
    """As exactly as the trip lets it, and no more often than needed; back to its own once that is right."""
    machine, trip = Machine(timedelta(seconds=seconds)), timedelta(seconds=trip)
    clock = Clock(machine)
    assert clock() == machine()
    compare(clock, machine, trip=trip)

    assert abs(clock() - machine.true) <= TOLERATED + trip
    before = clock() - machine()
    for _ in range(3):
        compare(clock, machine, trip=trip * 2)
        assert clock() - machine() == before
    machine.off = timedelta(0)
    compare(clock, machine)
    assert clock() == machine.true


def test_a_long_trip_tells_little():
    """Within what it leaves open nothing is changed: an answer that comes late corrects no right clock."""
    machine = Machine(timedelta(0))
    clock = Clock(machine)
    clock.compare(NOON.timestamp(), asked_at=NOON, answered_at=NOON + timedelta(seconds=30))

    assert clock() == NOON

"""Circuit breakers: when requests pass, and that nothing makes the table grow without end."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from runtime.adapters.upstream_oauth.circuit_breaker import (
    CLOSED,
    FAILURES_TO_OPEN,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    MOST_CIRCUITS_OF_A_ZONE,
    PROBE_SECONDS,
    CircuitBreakers,
    CircuitState,
    Permit,
    abandoned,
    admit,
    failed,
    succeeded,
)

PLAIN, PROBE = Permit(is_probe=False), Permit(is_probe=True)


def opened(now=0.0, retry_after=None):
    circuit = CLOSED
    for _ in range(FAILURES_TO_OPEN):
        circuit = failed(circuit, PLAIN, now, retry_after)
    return circuit


def test_it_opens_after_failures_in_a_row():
    """One fewer leaves it closed."""
    circuit = CLOSED
    for _ in range(FAILURES_TO_OPEN - 1):
        circuit = failed(circuit, PLAIN, 0.0)
    assert circuit.state is CircuitState.CLOSED
    assert failed(circuit, PLAIN, 0.0).state is CircuitState.OPEN


def test_a_success_ends_the_row():
    """Failures count only one after the other."""
    circuit = CLOSED
    for _ in range(3 * FAILURES_TO_OPEN):
        circuit = succeeded(failed(circuit, PLAIN, 0.0))
    assert circuit == CLOSED


def test_while_open_no_request_passes():
    """The answer says how long that will be."""
    assert admit(opened(), 4.0)[1] == FIRST_PAUSE_SECONDS - 4.0


def test_after_the_pause_one_probe_passes():
    """The next request waits for what it comes to, but no longer than a probe lasts."""
    circuit, permit = admit(opened(), FIRST_PAUSE_SECONDS)
    assert permit == PROBE
    assert admit(circuit, FIRST_PAUSE_SECONDS + 1.0)[1] == PROBE_SECONDS - 1.0
    assert admit(circuit, FIRST_PAUSE_SECONDS + PROBE_SECONDS)[1] == PROBE


def test_a_probe_that_succeeds_closes_it():
    """Everything passes again."""
    circuit, _ = admit(opened(), FIRST_PAUSE_SECONDS)
    assert admit(succeeded(circuit), FIRST_PAUSE_SECONDS)[1] == PLAIN


def test_a_probe_that_fails_doubles_the_pause():
    """Up to a limit."""
    circuit, now, pauses = opened(), 0.0, []
    for _ in range(8):
        pauses.append(circuit.retry_at - now)
        now = circuit.retry_at
        circuit = failed(admit(circuit, now)[0], PROBE, now)
    assert pauses == [
        10,
        20,
        40,
        80,
        160,
        LONGEST_PAUSE_SECONDS,
        LONGEST_PAUSE_SECONDS,
        LONGEST_PAUSE_SECONDS,
    ]


@pytest.mark.parametrize(("asked", "pause"), [(1.0, 10.0), (60.0, 60.0), (1e9, LONGEST_PAUSE_SECONDS)])
def test_the_pause_a_provider_asks_for_counts_within_bounds(asked, pause):
    """`Retry-After` lengthens it, and shortens it never."""
    assert opened(retry_after=asked).retry_at == pause


def test_a_probe_that_is_cancelled_makes_room_for_another():
    """Nothing was learned, so nobody waits."""
    circuit, _ = admit(opened(), FIRST_PAUSE_SECONDS)
    assert admit(abandoned(circuit, PROBE, 11.0), 11.0)[1] == PROBE


def test_a_late_failure_says_nothing_about_an_open_circuit():
    """It began before the circuit opened."""
    assert failed(opened(), PLAIN, 5.0) == opened()


def test_a_zone_has_only_so_many_circuits():
    """Those of another zone stay."""
    breakers = CircuitBreakers(clock=lambda: 0.0)
    breakers.failed("other", "p", PLAIN, None)
    for number in range(2 * MOST_CIRCUITS_OF_A_ZONE):
        breakers.failed("zone", f"p{number}", PLAIN, None)
    assert len(breakers) == MOST_CIRCUITS_OF_A_ZONE + 1


def test_a_provider_that_works_takes_no_room():
    """A closed circuit without failures is not kept."""
    breakers = CircuitBreakers(clock=lambda: 0.0)
    breakers.failed("zone", "p", PLAIN, None)
    breakers.succeeded("zone", "p")
    assert breakers.admit("zone", "p") == PLAIN
    assert len(breakers) == 0


class Breaking(RuleBasedStateMachine):
    """Any order of requests, outcomes and time, against what a circuit breaker promises."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.circuit = CLOSED
        self.permits = []
        self.row = 0
        self.probe_until = 0.0

    @rule(seconds=st.floats(0, 2 * LONGEST_PAUSE_SECONDS))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def ask(self):
        was = self.circuit
        self.circuit, permit = admit(self.circuit, self.now)
        if isinstance(permit, Permit):
            assert permit.is_probe == (was.state is not CircuitState.CLOSED)
            if permit.is_probe:
                assert self.now >= self.probe_until
                self.probe_until = self.now + PROBE_SECONDS
            self.permits.append(permit)
        else:
            assert 0 < permit <= LONGEST_PAUSE_SECONDS

    @rule(data=st.data(), retry_after=st.none() | st.floats(0, 1e6))
    def fail(self, data, retry_after):
        if permit := self.taken(data):
            self.circuit = failed(self.circuit, permit, self.now, retry_after)
            self.row += 1

    @rule(data=st.data())
    def succeed(self, data):
        if self.taken(data):
            self.circuit, self.row, self.probe_until = succeeded(self.circuit), 0, 0.0

    @rule(data=st.data())
    def abandon(self, data):
        if permit := self.taken(data):
            self.circuit = abandoned(self.circuit, permit, self.now)
            if permit.is_probe:
                self.probe_until = 0.0

    def taken(self, data):
        if not self.permits:
            return None
        permit = self.permits.pop(data.draw(st.integers(0, len(self.permits) - 1)))
        if permit.is_probe:
            self.probe_until = min(self.probe_until, self.now)
        return permit

    @invariant()
    def it_is_open_only_after_failures(self):
        assert self.circuit.state is CircuitState.CLOSED or self.row >= FAILURES_TO_OPEN

    @invariant()
    def it_always_opens_again(self):
        if self.circuit.state is not CircuitState.CLOSED:
            assert self.circuit.retry_at <= self.now + LONGEST_PAUSE_SECONDS


TestBreaking = Breaking.TestCase

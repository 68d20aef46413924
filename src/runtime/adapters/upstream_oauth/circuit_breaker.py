"""Circuit breaker: a provider that keeps failing is left alone for a while, then tried with one request.

The state machine is pure: a frozen `Circuit`, and functions that give the next one. Time arrives as `now`, in
seconds of a clock that never goes back.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from time import monotonic

from cachetools import LRUCache

FAILURES_TO_OPEN = 5  # one after the other, without a success between
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0
MOST_ZONES = 1_000  # with a provider that fails
MOST_CIRCUITS_OF_A_ZONE = 200
PROBE_SECONDS = 30.0  # after which a probe without an outcome counts no longer


class CircuitState(StrEnum):
    """Closed lets requests pass, open none; half-open has let one pass and waits for what it comes to."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Circuit:
    """The state of one provider's circuit breaker.

    Attributes:
        failures: one after the other, while closed.
        pause_seconds: how long it was opened for last; doubled by a probe that fails.
        retry_at: while open, when a probe may pass; while half-open, when the next one may.
    """

    state: CircuitState = CircuitState.CLOSED
    failures: int = 0
    pause_seconds: float = 0.0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Permit:
    """A request that may be made; `is_probe` when it decides whether the circuit closes again."""

    is_probe: bool


CLOSED = Circuit()
UNCONDITIONAL = Permit(is_probe=False)  # of a request that somebody asks for by hand, whatever the state is


def admit(circuit: Circuit, now: float) -> tuple[Circuit, Permit | float]:
    """A permit for one request; or else the seconds until it is worth asking again."""
    if circuit.state is CircuitState.CLOSED:
        return circuit, Permit(is_probe=False)
    if now < circuit.retry_at:
        return circuit, min(circuit.retry_at - now, LONGEST_PAUSE_SECONDS)  # sums of floats may be a bit more
    probing = replace(circuit, state=CircuitState.HALF_OPEN, retry_at=now + PROBE_SECONDS)
    return probing, Permit(is_probe=True)


def succeeded(circuit: Circuit) -> Circuit:
    """The provider answered, if only to refuse: it works."""
    return CLOSED


def failed(circuit: Circuit, permit: Permit, now: float, retry_after: float | None = None) -> Circuit:
    """The provider did not answer, or said that it cannot now.

    A request from before the circuit opened says nothing new about a circuit that is open.

    Args:
        retry_after: seconds the provider asked for; lengthens the pause within its bounds.
    """
    if circuit.state is CircuitState.CLOSED:
        if circuit.failures + 1 < FAILURES_TO_OPEN:
            return replace(circuit, failures=circuit.failures + 1)
        return _opened(FIRST_PAUSE_SECONDS, now, retry_after)
    if not permit.is_probe:
        return circuit
    return _opened(2 * circuit.pause_seconds, now, retry_after)


def abandoned(circuit: Circuit, permit: Permit, now: float) -> Circuit:
    """The request ended without an outcome (cancelled, or never sent): the next one may be the probe."""
    if circuit.state is CircuitState.HALF_OPEN and permit.is_probe:
        return replace(circuit, state=CircuitState.OPEN, retry_at=now)
    return circuit


def _opened(pause_seconds: float, now: float, retry_after: float | None) -> Circuit:
    pause = min(max(pause_seconds, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
    wait = min(max(pause, retry_after or 0.0), LONGEST_PAUSE_SECONDS)
    return Circuit(CircuitState.OPEN, FAILURES_TO_OPEN, pause, now + wait)


class CircuitBreakers:
    """The circuit breakers of all providers this process talks to; the closed are not kept."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._zones: LRUCache[str, LRUCache[str, Circuit]] = LRUCache(MOST_ZONES)

    def __len__(self) -> int:
        """How many circuits are kept: those that a failure has been noted in."""
        return sum(map(len, self._zones.values()))

    @property
    def not_closed(self) -> int:
        """How many providers are not asked at present, or are asked on trial."""
        kept = (circuit for zone in self._zones.values() for circuit in zone.values())
        return sum(circuit.state is not CircuitState.CLOSED for circuit in kept)

    def admit(self, zone_id: str, provider_id: str) -> Permit | float:
        """A permit for one request, which is answered for once; or seconds until it is worth asking again."""
        circuit, permit = admit(self._of(zone_id, provider_id), self._clock())
        self._put(zone_id, provider_id, circuit)
        return permit

    def succeeded(self, zone_id: str, provider_id: str) -> None:
        """Record that the provider answered."""
        self._put(zone_id, provider_id, succeeded(self._of(zone_id, provider_id)))

    def failed(self, zone_id: str, provider_id: str, permit: Permit, retry_after: float | None) -> None:
        """Record that the provider did not answer, or cannot now; `retry_after`: seconds it asked for."""
        circuit = failed(self._of(zone_id, provider_id), permit, self._clock(), retry_after)
        self._put(zone_id, provider_id, circuit)

    def abandoned(self, zone_id: str, provider_id: str, permit: Permit) -> None:
        """Record that a request ended without an outcome."""
        circuit = abandoned(self._of(zone_id, provider_id), permit, self._clock())
        self._put(zone_id, provider_id, circuit)

    def _of(self, zone_id: str, provider_id: str) -> Circuit:
        circuits = self._zones.get(zone_id)
        return CLOSED if circuits is None else circuits.get(provider_id, CLOSED)

    def _put(self, zone_id: str, provider_id: str, circuit: Circuit) -> None:
        circuits = self._zones.get(zone_id)
        if circuit != CLOSED:
            if circuits is None:
                circuits = self._zones[zone_id] = LRUCache(MOST_CIRCUITS_OF_A_ZONE)
            circuits[provider_id] = circuit
        elif circuits is not None:
            circuits.pop(provider_id, None)
            if not circuits:
                del self._zones[zone_id]

"""Whoever guesses a secret is slowed, locks nobody else out, and learns nothing from the time it takes."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from statistics import median

from acme import TOKEN_EXCHANGE
from benchmarks.exchange import ACCESS_TOKEN, TOOLS, Stage
from tests.soak.judging import Statement, alike, counted, noise_of_difference
from tests.soak.wire import Answer, Wire

from runtime.services.rate_limits import CLIENT_SECRET_GUESSES, MAX_SECRET_GUESSES

GUESSES = 10_000
SAMPLES = 2_000
_GUESSER = "127.0.0.66"
_PAIRS_AN_ADDRESS = MAX_SECRET_GUESSES // 2  # so that nobody who is timed is slowed


def measure(stage: Stage, *, workers: int) -> Iterator[Statement]:
    """Row 25 of the threats at its full size."""
    yield from _slowed(stage, workers)
    yield from _timed(stage)


def _slowed(stage: Stage, workers: int) -> Iterator[Statement]:
    """Guess for a minute or so, with the right secret from elsewhere before, after, and from there later."""
    with Wire(stage.agent.issuer, _GUESSER) as guesser, Wire(stage.agent.issuer) as elsewhere:
        first = _exchange(guesser, stage)
        yield Statement(
            "first, the right secret is let in from the guesser's address",
            str(first.status),
            first.status == 200,
        )
        began, statuses = time.time(), Counter[int]()
        for number in range(GUESSES):
            answer = _exchange(guesser, stage, secret=f"wrong-{number}")
            statuses[answer.status] += 1
        windows = (
            int(time.time()) // CLIENT_SECRET_GUESSES.seconds
            - int(began) // CLIENT_SECRET_GUESSES.seconds
            + 1
        )
        # Each worker has to see one failure beyond the limit before it knows.
        most = windows * (MAX_SECRET_GUESSES + workers - 1)
        yield Statement(
            f"of {GUESSES:,} guesses, at most {MAX_SECRET_GUESSES} a minute are looked at; the others wait",
            counted(statuses),
            set(statuses) == {401, 429} and statuses[401] <= most,
        )
        told = _exchange(guesser, stage, secret="wrong-again")
        while told.status == 401:  # a new window has just begun
            told = _exchange(guesser, stage, secret="wrong-again")
        wait = int(told.headers.get("Retry-After", 0))
        there = _exchange(guesser, stage)
        yield Statement(
            "429 there with Retry-After, the right secret included",
            f"{told.status}, {there.status}, {wait} s",
            told.status == there.status == 429 and 1 <= wait <= CLIENT_SECRET_GUESSES.seconds + 1,
        )
        answer = _exchange(elsewhere, stage)
        yield Statement(
            "the right secret is let in from another address", str(answer.status), answer.status == 200
        )
        time.sleep(wait)
        answer = _exchange(guesser, stage)
        yield Statement(
            "and from the guesser's, when it has waited as told", str(answer.status), answer.status == 200
        )


def _timed(stage: Stage) -> Iterator[Statement]:
    """Refusals of a client that exists and of one that does not, in turns and in random order."""
    known = stage.agent.client_id
    unknown = known[:-1] + "?"  # as long
    taken: dict[str, list[float]] = {known: [], unknown: []}
    refused = Counter[int]()
    chance = random.Random(25)
    for start in range(0, SAMPLES, _PAIRS_AN_ADDRESS):
        number = start // _PAIRS_AN_ADDRESS
        with Wire(stage.agent.issuer, f"127.25.{number // 250}.{number % 250 + 1}") as wire:
            _exchange(wire, stage)  # opens the connection, and holds that this address is let in
            for _ in range(min(_PAIRS_AN_ADDRESS, SAMPLES - start)):
                for client_id in chance.sample(sorted(taken), 2):
                    answer = _exchange(wire, stage, client_id=client_id, secret="wrong")
                    refused[answer.status] += 1
                    taken[client_id].append(answer.seconds)
    there, nowhere = taken[known], taken[unknown]
    yield Statement(
        f"{SAMPLES:,} refusals of a known client, and of an unknown one: 401",
        counted(refused),
        set(refused) == {401},
    )
    yield Statement(
        "the time does not tell which of them exists: medians differ by less than the noise",
        f"{1e6 * (median(there) - median(nowhere)):+.1f} µs of {1e6 * median(nowhere):.0f} µs, "
        f"noise {1e6 * noise_of_difference(there, nowhere):.1f} µs",
        alike(there, nowhere),
    )


def _exchange(wire: Wire, stage: Stage, *, client_id: str | None = None, secret: str | None = None) -> Answer:
    """A token exchange that succeeds when client and secret are the agent's own."""
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": stage.subject,
        "subject_token_type": ACCESS_TOKEN,
        "resource": TOOLS,
        "client_id": client_id or stage.agent.client_id,
        "client_secret": secret or stage.agent.secret or "",
    }
    return wire.post(f"{stage.agent.issuer}/oauth/token", form)

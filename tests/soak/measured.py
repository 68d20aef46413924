"""Measured load beside the people: how much is answered of everything together, and a share of that for long.

Closed loops of all kinds find the peak of their mix; then each kind is an open loop at a share of what it
reached. The open loops come in stretches, each with processes and an `Outcome` of its own, so that nobody
keeps the latencies of millions of requests, and so that there is a series to judge.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from urllib.parse import urlencode

from acme import Server
from benchmarks import listing, tokens
from benchmarks.exchange import SCOPES, Stage, exchange_form, run_load
from benchmarks.load import Load, Outcome
from tests.soak.judging import Statement, counted, levels_off, quarter
from tests.soak.people import CALM, CONTESTED, Account, Desk, attempt
from tests.soak.record import Record
from tests.soak.vitals import Vitals

# Connections of each kind. In closed loops together, each has about as many turns at the server as any other:
# so they are the mix. What waits for a database besides has fewer.
_CONNECTIONS = {
    "exchange, warm": 8,
    "exchange, cold": 8,
    "introspection": 8,
    "metadata": 2,
    "keys": 2,
    "sign-in, our legs": 4,
    "list of 100": 2,
}
# Of each kind in open loops: with few, the queue for a free one would grow for as long as answers take longer
# than their turns.
_OPEN_CONNECTIONS = 32
_LISTED = 100
# Sessions that sign-ins are made with, in turn. Each may have 300 codes a minute, so that is 160 a second.
BROWSERS = 32
_PEAK_SECONDS = 10.0
_STRETCH_SECONDS = 60.0  # tokens live twice as long
_LEAST_SECONDS = 5.0
_STRETCHES = 8  # at least: a quarter of them is two, then
_LEAST_RATE = 1.0  # of what hardly had a turn when all was busy
_PAUSE_SECONDS = 1.0
_AROUND_SECONDS = 3.0  # a stretch is so much longer: processes that start, and their first second
KEPT = 0.99
_LAST_SECONDS = 1.0  # after a stretch, for answers to what was sent last; one that is slow makes no rate low
# Twice as long, or a few turns on a core that others had, is what neighbours on a shared machine do to a p99.
# What grows with all that was done before grows on, and is beyond that in half an hour.
_P99_SHARE, _P99_MS = 1.0, 50.0


@dataclass(frozen=True)
class Series:
    """One kind of request.

    Attributes:
        peak: of its closed loop, beside those of the other kinds.
        offered: how many are due each second in a stretch.
    """

    peak: Outcome
    offered: float
    stretches: list[Outcome] = field(default_factory=list)

    @property
    def kept(self) -> float:
        """The answered part of what was offered, in the stretch in which it was the least."""
        rate = min(each.answered / (each.seconds - _LAST_SECONDS) for each in self.stretches)
        return min(rate / self.offered, 1.0)


class Measured(threading.Thread):
    """Puts the load on the server until told to stop.

    Attributes:
        peak_cores: how many the server kept busy when its peak was measured. Where that is less than it has
            workers, something else had the machine.
        turn: held while requests are under way, from when their token was got. Who holds it besides may have
            tokens refused: no answer to the load has to be explained by that.
    """

    def __init__(
        self,
        server: Server,
        stage: Stage,
        account: Account,
        record: Record,
        over: threading.Event,
        *,
        share: float,
        ends_at: float,
    ) -> None:
        super().__init__(daemon=True)
        self.turn = threading.Lock()
        self.series: dict[str, Series] = {}
        self.peak_cores = 0.0
        self._server, self._stage, self._record, self._over = server, stage, record, over
        self._share, self._ends_at = share, ends_at
        self._list = listing.many(server, _LISTED)
        self._desk = Desk(stage, account, record)

    def run(self) -> None:
        with self.turn:
            attempt(self._record, self._desk.sign_in)
            attempt(self._record, self._find_peak)
        a_part = self._left() / _STRETCHES - _AROUND_SECONDS
        longest = max(min(_STRETCH_SECONDS, a_part), _LEAST_SECONDS)
        while not self._over.wait(_PAUSE_SECONDS):  # whoever waits for the turn has it then
            with self.turn:
                seconds = min(longest, self._left() - _AROUND_SECONDS)
                if seconds >= _LEAST_SECONDS:
                    attempt(self._record, partial(self._go_on, seconds))
        self._desk.close()

    def _left(self) -> float:
        return self._ends_at - time.monotonic()

    def _find_peak(self) -> None:
        loads = self._loads()
        vitals, began = Vitals(self._server), time.monotonic()
        busy = vitals.cpu_seconds()
        peaks = _together({what: replace(load, seconds=_PEAK_SECONDS) for what, load in loads.items()})
        self.peak_cores = (vitals.cpu_seconds() - busy) / (time.monotonic() - began)
        for what, peak in peaks.items():
            self.series[what] = Series(peak, max(self._share * peak.rate, _LEAST_RATE))

    def _go_on(self, seconds: float) -> None:
        """A stretch, with a token that is new."""
        self._desk.refresh()
        loads = self._loads()
        outcomes = _together(
            {
                what: replace(
                    loads[what], rate=series.offered, seconds=seconds, connections=_OPEN_CONNECTIONS
                )
                for what, series in self.series.items()
            }
        )
        for what, outcome in outcomes.items():
            self.series[what].stretches.append(outcome)
        print(_line(self.series), file=sys.stderr)

    def _loads(self) -> dict[str, Load]:
        """What is asked; nothing of it is what the operator forbids now and then."""
        stage = replace(self._stage, subject=self._desk.access)
        address, form = f"{stage.agent.issuer}/oauth/token", exchange_form(stage)
        loads = tokens.loads(stage) | {
            "exchange, warm": Load(address, urlencode(form | {"scope": CALM})),
            "exchange, cold": Load(
                address, urlencode(form), scopes=[scope for scope in SCOPES if scope != CONTESTED]
            ),
            "list of 100": Load(f"{self._server.url}{self._list}", bearer=self._server.api_key),
        }
        return {what: replace(loads[what], connections=number) for what, number in _CONNECTIONS.items()}


def _together(loads: Mapping[str, Load]) -> dict[str, Outcome]:
    """The outcome of each, from processes that run at the same time."""
    with ThreadPoolExecutor(len(loads)) as pool:
        return dict(zip(loads, pool.map(run_load, loads.values()), strict=True))


def _line(series: Mapping[str, Series]) -> str:
    """What the latest stretch was like."""
    latest = {what: each.stretches[-1] for what, each in series.items()}
    rate, offered = sum(each.rate for each in latest.values()), sum(each.offered for each in series.values())
    slow = ", ".join(f"{what} {each.p99_ms:.0f}" for what, each in latest.items())
    number = max(len(each.stretches) for each in series.values())
    return f"stretch {number}: {rate:,.0f} of {offered:,.0f} a second; p99 in ms: {slow}"


def statements(series: Mapping[str, Series], peak_cores: float) -> Iterator[Statement]:
    """What is said of the load: its rates, its errors, and whether callers wait as long as before."""
    yield _errors(series)
    count = min((len(each.stretches) for each in series.values()), default=0)
    if count < 4:
        yield Statement("the load is measured in four stretches at least", str(count), False)
        return
    peak, offered = (
        sum(rates) for rates in zip(*((s.peak.rate, s.offered) for s in series.values()), strict=True)
    )
    yield Statement(
        f"the load altogether, in {count} stretches",
        f"peak {peak:,.0f}/s with {peak_cores:.1f} cores of the server busy, offered {offered:,.0f}/s",
        True,
    )
    for what, each in series.items():
        yield _rate(what, each)
    yield _waiting(series)


def _rate(what: str, series: Series) -> Statement:
    p50, p99 = (median(getattr(each, name) for each in series.stretches) for name in ("p50_ms", "p99_ms"))
    return Statement(
        f"{what}: {KEPT:.0%} of what is offered is answered in each stretch",
        f"peak {series.peak.rate:,.0f}/s, offered {series.offered:,.0f}/s, {series.kept:.1%} at least; "
        f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
        series.kept >= KEPT,
    )


def _errors(series: Mapping[str, Series]) -> Statement:
    """Of the peak, too."""
    told, answered = [], 0
    for what, each in series.items():
        outcomes = [each.peak, *each.stretches]
        answered += sum(outcome.answered for outcome in outcomes)
        errors = sum((Counter(outcome.errors) for outcome in outcomes), Counter[str]())
        if errors:
            sample = next(outcome.sample for outcome in outcomes if outcome.sample)
            told.append(f"{what}: {counted(errors)}, one of them {sample[:200]}")
    return Statement(
        "no request of the load comes to nothing",
        "; ".join(told) or f"{answered:,} answered",
        answered > 0 and not told,
    )


def _waiting(series: Mapping[str, Series]) -> Statement:
    """The p99 of each kind, as medians of quarters."""
    waits = {what: [outcome.p99_ms for outcome in each.stretches] for what, each in series.items()}
    return Statement(
        f"p99 of the load: in the last quarter at most {1 + _P99_SHARE:.0f} times that of the second, "
        f"and {_P99_MS:.0f} ms",
        "; ".join(
            f"{what} {quarter(p99, 2):.0f}, then {quarter(p99, 4):.0f} ms" for what, p99 in waits.items()
        ),
        all(levels_off(p99, share=_P99_SHARE, by=_P99_MS) for p99 in waits.values()),
    )

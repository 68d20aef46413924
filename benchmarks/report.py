"""The page of figures, from a stored run: `python -m benchmarks.report` writes docs/figures.md again."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import results as stored
from benchmarks.plots import Bar, bars, lines
from benchmarks.results import PEAK, SHARES, Results, Scenario, Step, bottleneck, verdicts

DOCS = Path(__file__).resolve().parent.parent / "docs"
STORED = DOCS / "figures" / "results.json"
_SHOWN = ("50", "90", "99", "99.9", "100")
_PLOTTED_SHARE = 0.7
_THROUGHPUT, _LATENCY = "throughput.svg", "latency.svg"
_HEAD = """\
For whoever sizes machines or compares servers. This page and its plots are written by `python -m
benchmarks.report` from [one stored run](figures/results.json); `make bench PEERS=1 RECORD=1` measures
and stores another."""
_FLOORS = """\
Requests a second are of two cores, one of them for the load generator; machines differ threefold, so
the ratio to what was measured beside it is what counts. Objects a second are of the seconds that a command of
`zonectl` may take for 10,000 of them."""
_LATENCY_TEXT = """\
Milliseconds from the instant at which a request was due, at shares of the peak rate. *Peak* is a closed
loop of 32 connections: its latencies are those of a full queue, and no promise. Where more than one
request in a hundred failed, latencies are left out: they are of whatever was not refused."""
_COSTS = """\
At the peak. Statements and round trips include the service's own work in the background; waits are for
each request, of all that waited."""
_IN_TURNS = """\
- What has a floor as a share of an empty route takes turns with it, seven times, and the median of these
  shares counts: a machine may be half as fast a minute later."""
_METHOD = """\
- One worker of the service, with a core to itself; the load generator, PostgreSQL and Redis have the
  others.
- The peak is what a closed loop gets: each connection sends its next request when the last is answered.
  Then requests are sent by schedule at {shares} of it, however slow the answers are, and the clock of
  each starts when it was due: what waits behind a slow answer counts as slow, too.
- An empty route reads a form and answers. Sanic alone serves it: with the service's own connections the
  yardstick would grow whenever these became faster.
- *Warm* is an exchange whose token was issued before; *cold* asks for other scopes each time, so that
  each is decided and signed. node-oidc-provider grants client credentials from memory and checks no
  subject token, consent or policy.
- The bottleneck is the server's core from 85 % on, else the generator's, else a wait that is half of
  the median latency. Where something else had the machine, what is below a floor has no verdict;
  where more than one request in a hundred failed, nothing has."""


def pages(results: Results, folder: str = "figures/") -> dict[str, str]:
    """The name of each file -> its text; the page comes first.

    Args:
        folder: where the page finds its plots.
    """
    return {
        "figures.md": "\n".join(_page(results, folder)),
        f"figures/{_THROUGHPUT}": _throughput(results),
        f"figures/{_LATENCY}": _latency(results),
    }


def write(results: Results, to: Path) -> None:
    """Write the page, its plots and the run itself into a folder."""
    (to / "figures").mkdir(parents=True, exist_ok=True)
    (to / "figures" / STORED.name).write_bytes(results.dump())
    for name, text in pages(stored.load(results.dump())).items():
        (to / name).write_text(text, "utf-8")


def _page(results: Results, folder: str) -> Iterator[str]:
    yield "# Figures: throughput, latency and what limits them"
    yield ""
    yield _HEAD
    yield ""
    yield from _machine(results)
    yield from _verdicts(results)
    yield from _plots(folder)
    yield from _latencies(results)
    yield from _costs(results)
    yield from _facts(results)
    yield from _rows(results)
    yield from _method(results)


def _machine(results: Results) -> Iterator[str]:
    yield "## The run"
    yield ""
    told = {"measured": results.measured_at, **results.machine, "seconds in all": f"{results.seconds:.0f}"}
    yield from _table(("what", "value"), list(told.items()))
    yield f"Parts that ran: {', '.join(results.parts) or 'none'}."
    yield ""
    if results.failed:
        yield from _table(("part that failed", "with"), sorted(results.failed.items()))


def _verdicts(results: Results) -> Iterator[str]:
    found = verdicts(results)
    if not found:
        return
    yield "## Against the floors"
    yield ""
    yield _FLOORS
    yield ""
    rows = [
        (
            each.floor.scenario,
            f"of {each.floor.beside}" if each.floor.beside else f"{each.floor.of} a second",
            _number(each.value),
            _number(each.floor.floor),
            _number(each.floor.aim),
            each.text,
        )
        for each in found
    ]
    yield from _table(("scenario", "", "measured", "floor", "aim", "verdict"), rows)


def _plots(folder: str) -> Iterator[str]:
    yield f"![Requests a second at most, for each scenario, with its floor]({folder}{_THROUGHPUT})"
    yield ""
    yield (
        f"![Latency by percentile at {_PLOTTED_SHARE:.0%} of the peak, for each scenario]({folder}{_LATENCY})"
    )
    yield ""


def _latencies(results: Results) -> Iterator[str]:
    yield "## Latency"
    yield ""
    yield _LATENCY_TEXT
    yield ""
    rows = [
        (
            each.name,
            "peak" if step.share == PEAK else f"{step.share:.0%}",
            f"{step.offered:,.0f}",
            f"{step.rate:,.0f}",
            *("" if step.is_refused else _number(step.percentiles.get(name, 0.0)) for name in _SHOWN),
            _errors(step),
        )
        for each in results.scenarios
        for step in each.steps
    ]
    names = ("scenario", "load", "offered", "answered", "p50", "p90", "p99", "p99.9", "max", "errors")
    yield from _table(names, rows)


def _errors(step: Step) -> str:
    told = ", ".join(f"{count:,} × {kind}" for kind, count in step.errors.items()) or "none"
    return f"{told}: no verdict" if step.is_refused else told


def _costs(results: Results) -> Iterator[str]:
    yield "## What a request costs, and what limits it"
    yield ""
    yield _COSTS
    yield ""
    rows = [
        (
            each.name,
            each.storage or "none",
            _microseconds(each.peak.server_us),
            *(_known(value) for value in (each.peak.statements, each.peak.trips)),
            *(_known(value) for value in (each.peak.pool_ms, each.peak.redis_ms, each.peak.loop_lag_ms)),
            bottleneck(each.peak),
        )
        for each in results.scenarios
    ]
    names = (
        "scenario",
        "storage",
        "core, µs",
        "SQL statements",
        "Redis trips",
        "wait for a connection, ms",
        "wait for Redis, ms",
        "late, ms",
        "bottleneck",
    )
    yield from _table(names, rows)


def _facts(results: Results) -> Iterator[str]:
    for part, facts in results.facts.items():
        yield f"## {part.capitalize()}"
        yield ""
        yield from _table(("what", "value"), list(facts.items()))


def _rows(results: Results) -> Iterator[str]:
    if not results.rows:
        return
    yield "## The other parts"
    yield ""
    rows = [(each.what, f"{each.rate:,.0f}", f"{each.ratio:.3f}", each.note) for each in results.rows]
    yield from _table(("what", "a second", "of an empty route", ""), rows)


def _method(results: Results) -> Iterator[str]:
    yield "## How it is measured"
    yield ""
    yield _METHOD.format(shares=", ".join(f"{share:.0%}" for share in SHARES))
    if any(each.in_turns for each in results.scenarios):
        yield _IN_TURNS
    yield ""


def _throughput(results: Results) -> str:
    marks = {
        each.floor.scenario: {"floor": each.floor.floor}
        for each in reversed(verdicts(results))
        if not each.floor.beside
    }
    given = [Bar(each.name, each.peak.rate, marks.get(each.name, {})) for each in results.scenarios]
    return bars("Requests a second at most; the tick is the floor", "a second", given)


def _latency(results: Results) -> str:
    given: dict[str, Sequence[float]] = {}
    for each in results.scenarios:
        if (step := each.at(_PLOTTED_SHARE)) is not None and not step.is_refused:
            given[each.name] = list(step.percentiles.values())
    steps: list[Step] = [step for each in results.scenarios for step in each.steps]
    names = [f"p{name}" for name in (steps[0].percentiles if steps else {})]
    return lines(f"Latency at {_PLOTTED_SHARE:.0%} of the peak", "ms", names, given)


def summary(scenarios: Iterable[Scenario]) -> Mapping[str, tuple[str, ...]]:
    """For the terminal: scenario -> peak, latencies at 70 % of it, and the bottleneck."""
    told = {}
    for each in scenarios:
        step = each.at(_PLOTTED_SHARE) or each.peak
        latencies = " / ".join(_number(step.percentiles.get(name, 0.0)) for name in _SHOWN)
        if step.is_refused:
            latencies = f"no verdict: {_errors(step).removesuffix(': no verdict')}"
        told[each.name] = (f"{each.peak.rate:,.0f}", latencies, bottleneck(each.peak))
    return told


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(each.replace('|', '/') for each in row)} |"
    yield ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _known(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _microseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def main() -> int:
    """Write the page of the stored run."""
    write(stored.load(STORED.read_bytes()), DOCS)
    return 0


if __name__ == "__main__":
    sys.exit(main())

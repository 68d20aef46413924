"""Run the measurements and print their tables; `--only listing,plan` chooses among them.

A part that fails is told of, and does not keep the others from running.
"""

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from benchmarks import (
    exchange,
    figures,
    growth,
    impact,
    listing,
    manifests,
    peers,
    report,
    results,
    revocation,
    scale,
    tokens,
    vault,
    writes,
)
from benchmarks.results import Facts, Measured, Results, Scenario
from benchmarks.table import Row, show, show_scenarios

_MANIFESTS = ("validate", "plan", "apply")
_Found = Row | Scenario | Facts
PARTS: dict[str, Callable[[Path], Iterator[_Found]]] = {
    "exchange": exchange.measure,
    "writes": writes.measure,
    "tokens": tokens.measure,
    "vault": vault.measure,
    "revocation": revocation.measure,
    "listing": listing.measure,
    "growth": growth.measure,
    "impact": impact.measure,
}
NAMES = ("figures", *PARTS, *_MANIFESTS)
# What takes more room and time than the others together is measured only where it is named.
_LARGE: dict[str, Callable[[Path], Iterator[_Found]]] = {"scale": scale.measure}


def main() -> int:
    """Measure what was asked for. 1 when a part fails, 2 when there is no such part."""
    arguments = argparse.ArgumentParser(prog="make bench", description=__doc__)
    arguments.add_argument("--only", default=",".join(NAMES), help="comma-separated parts to measure")
    arguments.add_argument("--peers", action="store_true", help="compare with node-oidc-provider, too")
    arguments.add_argument("--report", type=Path, help="a folder for the run as JSON, a page and its plots")
    arguments.add_argument("--record", action="store_true", help="the same into docs/, for docs/figures.md")
    options = arguments.parse_args()
    only = set(options.only.split(","))
    if options.peers:
        only.add("peers")
    known = (*NAMES, *_LARGE, "peers")
    if unknown := only - {*known}:
        print(f"there is no part `{min(unknown)}`; the parts are {', '.join(known)}", file=sys.stderr)
        return 2
    if "peers" in only:
        try:
            peers.install()
        except peers.PeerUnavailable as missing:
            print(missing, file=sys.stderr)
            return 2
    print(f"with Python {platform.python_version()}, {sys.base_prefix}", file=sys.stderr)
    run, started = results.begun(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zonewright-bench-") as directory:
        for name, part in _chosen(Path(directory), only).items():
            measure_part(run, name, part, started)
    run.seconds = time.monotonic() - started
    show_scenarios(run.scenarios)
    show([Row(each.what, each.rate, each.rate / each.ratio, each.note) for each in run.rows])
    for name, failure in run.failed.items():
        print(f"{name} failed: {failure}", file=sys.stderr)
    for folder in (options.report, report.DOCS if options.record else None):
        if folder is not None:
            report.write(run, folder)
    return 1 if run.failed else 0


def _chosen(directory: Path, only: set[str]) -> dict[str, Callable[[], Iterator[_Found]]]:
    """The parts that were asked for, in the order in which they run."""
    with_peers = "peers" in only
    if only == {"figures", "peers"}:  # which have them in every measurement
        only = {"figures"}
    parts: dict[str, Callable[[], Iterator[_Found]]] = {
        "figures": lambda: figures.measure(directory, with_peers=with_peers),
        "peers": lambda: peers.measure(directory),
        **{name: _of(part, directory) for name, part in (PARTS | _LARGE).items()},
    }
    chosen = {name: part for name, part in parts.items() if name in only}
    if asked := only & {*_MANIFESTS}:
        chosen[", ".join(each for each in _MANIFESTS if each in asked)] = lambda: manifests.measure(
            directory, only
        )
    return chosen


def _of(part: Callable[[Path], Iterator[_Found]], directory: Path) -> Callable[[], Iterator[_Found]]:
    return lambda: part(directory)


def measure_part(run: Results, name: str, part: Callable[[], Iterator[_Found]], started: float) -> None:
    """Add to a run what a part measures, or what it fails with."""
    try:
        for found in part():
            if isinstance(found, Scenario):
                run.scenarios.append(found)
                shares = "".join(f", {share:.3f} of {name}" for name, share in found.in_turns.items())
                told = f"{found.name}: {found.peak.rate:,.0f}/s at most{shares}"
            elif isinstance(found, Facts):
                run.facts[found.part] = found.told
                told = "; ".join(f"{name}: {value}" for name, value in found.told.items())
            else:
                row = (found.what, found.rate, found.ratio, found.note, found.share, found.was_crowded)
                run.rows.append(Measured(*row))
                told = f"{found.what}: {found.rate:,.0f}/s"
            print(f"{time.monotonic() - started:4.0f} s  {told}", file=sys.stderr)
    except Exception as failure:  # noqa: BLE001 - the parts behind it are measured all the same
        run.failed[name] = f"{type(failure).__name__}: {failure}"
    else:
        run.parts.append(name)


if __name__ == "__main__":
    sys.exit(main())

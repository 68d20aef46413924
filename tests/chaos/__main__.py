"""`make chaos`: two nodes under constant load while things break; each scenario is a row of what it cost."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from rich import box
from rich.console import Console
from rich.table import Table
from tests.chaos import ledger, scenarios
from tests.chaos.ledger import Ledger, Result
from tests.chaos.load import EXCHANGE, Site, begin, look_for_created
from tests.chaos.platform import running, running_on_small_disk, wait_until_ready
from tests.support.waiting import let_pass

_COLUMNS = (
    *("scenario", "requests", "errors", "longest gap", "p50", "p99"),
    *("wrongly", "lost", "twice", "500", "holds"),
)
WARM_SECONDS, TROUBLE_SECONDS, AFTER_SECONDS = 3.0, 10.0, 4.0


def main() -> int:
    """Run scenarios. 1 when something happened that never may, or took too long."""
    arguments = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    known = [*scenarios.ALL, scenarios.DISK_FULL]
    arguments.add_argument("--only", default=",".join(known), help="names, with commas")
    arguments.add_argument(
        "--seconds", type=float, default=TROUBLE_SECONDS, help="how long each trouble lasts"
    )
    asked = arguments.parse_args()
    names = asked.only.split(",")
    if unknown := set(names) - set(known):
        arguments.error(f"there is no scenario `{min(unknown)}`; they are {', '.join(known)}")
    results = list(_told(_run(names, asked.seconds)))
    _show(results)
    return 0 if all(result.holds for result in results) else 1


def _run(names: list[str], seconds: float) -> Iterator[Result]:
    on_platform = [name for name in names if name in scenarios.ALL]
    if on_platform:
        with running() as platform:
            for name in on_platform:
                trouble, restore = scenarios.ALL[name](platform), platform.restore
                yield run(name, platform.site, trouble, restore, seconds=seconds)
    if scenarios.DISK_FULL in names:
        yield from _on_a_full_disk(seconds)


def _on_a_full_disk(seconds: float) -> Iterator[Result]:
    if os.geteuid() != 0:
        print("disk-full: left out, a disk of its own needs root", file=sys.stderr)
        return
    with running_on_small_disk() as (site, node, disk):
        trouble = scenarios.full_disk(disk)
        yield run(scenarios.DISK_FULL, site, trouble, lambda: wait_until_ready(node), seconds=seconds)


def run(
    name: str,
    site: Site,
    trouble: AbstractContextManager[None],
    restore: Callable[[], None],
    *,
    seconds: float,
) -> Result:
    """One scenario under load.

    Args:
        restore: returns when all is well again.
    """
    written = Ledger()
    stop = begin(site, written)
    try:
        let_pass(WARM_SECONDS)
        struck_at = time.monotonic()
        with trouble:
            let_pass(seconds)
        mended_at = time.monotonic()
        restore()
        let_pass(AFTER_SECONDS)
    finally:
        stop()
    ended_at = time.monotonic()
    look_for_created(site, written)
    times = {"struck_at": struck_at, "mended_at": mended_at, "ended_at": ended_at}
    return ledger.judged(name, written, measured=EXCHANGE, bound=scenarios.BOUNDS.get(name), **times)


def _told(results: Iterator[Result]) -> Iterator[Result]:
    for result in results:
        told = "".join(f"\n  {each}" for each in result.samples)
        print(
            f"{result.scenario}: {result.errors} errors of {result.requests} requests{told}", file=sys.stderr
        )
        yield result


def _show(results: list[Result]) -> None:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name == "scenario" else "right")
    for each in results:
        table.add_row(
            each.scenario,
            f"{each.requests:,}",
            f"{each.errors:,}",
            _beside(f"{each.longest_gap:.1f}", each.bound and f"{each.bound.longest_gap:.1f}", "s"),
            f"{each.p50_ms:.0f} ms",
            _beside(f"{each.p99_ms:.0f}", each.bound and f"{each.bound.p99_ms:.0f}", "ms"),
            str(each.wrongly_allowed),
            str(each.lost),
            str(each.used_twice),
            str(each.broken),
            "yes" if each.holds else "NO",
        )
    Console(width=120, highlight=False).print(table)


def _beside(measured: str, most: str | None, unit: str) -> str:
    """What was measured, beside what it may be."""
    return f"{measured} {unit}" if most is None else f"{measured} of {most} {unit}"


if __name__ == "__main__":
    sys.exit(main())

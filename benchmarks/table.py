"""What was measured, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.report import summary
from benchmarks.results import Scenario


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        rate: of what is done, how many a second.
        empty: requests a second of the empty route, measured beside it in the same run.
        note: latencies, or the time it took altogether.
        share: of the rate of what took turns with it; None for a row that is compared with nothing.
        was_crowded: something else had the machine in the meantime.
    """

    what: str
    rate: float
    empty: float
    note: str
    share: float | None = None
    was_crowded: bool = False

    @property
    def ratio(self) -> float:
        """The rate as a share of the empty route's."""
        return self.rate / self.empty


def show_scenarios(scenarios: Sequence[Scenario]) -> None:
    """Print what servers answer at most, how long callers wait at 70 % of that, and what limits them."""
    if not scenarios:
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("a second, peak", justify="right", no_wrap=True)
    table.add_column("p50 / p90 / p99 / p99.9 / max, ms, at 70 %", no_wrap=True)
    table.add_column("bottleneck")
    for name, told in summary(scenarios).items():
        table.add_row(name, *told)
    Console(width=150, highlight=False).print(table)


def show(rows: Sequence[Row]) -> None:
    """Print the rows. Machines differ and are noisy: the ratio is what compares between runs."""
    if not rows:
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("what", no_wrap=True)
    for name in ("per second", "of an empty route"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        table.add_row(row.what, f"{row.rate:,.0f}", f"{row.ratio:.3f}", row.note)
    Console(width=130, highlight=False).print(table)

"""What was measured, as a table."""

from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        rate: of what is done, how many a second.
        empty: requests a second of the empty route, measured beside it in the same run.
        note: latencies, or the time it took altogether.
    """

    what: str
    rate: float
    empty: float
    note: str

    @property
    def ratio(self) -> float:
        """The rate as a share of the empty route's."""
        return self.rate / self.empty


def show(rows: list[Row]) -> None:
    """Print the rows. Machines differ and are noisy: the ratio is what compares between runs."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("what", no_wrap=True)
    for name in ("per second", "of an empty route"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(row.what, f"{row.rate:,.0f}", f"{row.ratio:.3f}", row.note)
    Console(width=130, highlight=False).print(table)

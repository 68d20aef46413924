"""`make soak`: a server of its own for some minutes, guessed at, sent what exhausts, and lived with."""

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from acme import Server
from benchmarks import servers
from benchmarks.exchange import prepare
from rich import box
from rich.console import Console
from rich.table import Table
from tests.soak import exhaustion, guessing, life
from tests.soak.judging import Statement
from tests.soak.measured import BROWSERS

PARTS = ("secrets", "exhaustion", "life")
# Embedded storage serves one process; with PostgreSQL and Redis there are two.
_WORKERS = {"embedded": 1, "servers": 2}
# How soon a server knows what a `zoned` command did, on either.
_NOTICES_SECONDS = 1.0


def main() -> int:
    """Soak a server. 1 when a statement about it is not true, 2 when that was not asked for rightly."""
    arguments = argparse.ArgumentParser(prog="make soak", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10, help="how long on each storage, about")
    arguments.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, with commas")
    arguments.add_argument(
        "--on",
        choices=(*_WORKERS, "both"),
        default="embedded",
        help="PostgreSQL and Redis, or neither; or first one and then the other",
    )
    arguments.add_argument(
        "--share", type=float, default=0.7, help="of the measured peak, what life is lived beside"
    )
    asked = arguments.parse_args()
    only = asked.only.split(",")
    if unknown := set(only) - set(PARTS):
        arguments.error(f"there is no part `{min(unknown)}`; the parts are {', '.join(PARTS)}")
    if not 0 < asked.share <= 1:
        arguments.error("a share of the peak is more than 0, and 1 at most")
    hold = True
    for storage in _WORKERS if asked.on == "both" else [asked.on]:
        ends_at = time.monotonic() + 60 * asked.minutes
        with tempfile.TemporaryDirectory(prefix="zonewright-soak-") as directory:
            statements = list(_told(_soaked(storage, Path(directory), only, ends_at, asked.share)))
        _show(storage, statements)
        hold = hold and all(statement.holds for statement in statements)
    return 0 if hold else 1


def _soaked(
    storage: str, directory: Path, only: list[str], ends_at: float, share: float
) -> Iterator[Statement]:
    """What is seen of a server over that storage, part by part."""
    workers = _WORKERS[storage]
    with served(storage, directory) as server:
        stage = prepare(server, directory / "config", browsers=BROWSERS)
        if "secrets" in only:
            yield from guessing.measure(stage, workers=workers)
        if "exhaustion" in only:
            yield from exhaustion.measure(server, stage)
        if "life" in only:
            yield from life.measure(
                server, stage, ends_at=ends_at, notices_seconds=_NOTICES_SECONDS, share=share
            )


@contextlib.contextmanager
def served(storage: str, directory: Path) -> Iterator[Server]:
    """A running server: one process on its embedded default, or two workers on PostgreSQL and Redis."""
    with contextlib.ExitStack() as stack:
        settings = {}
        if storage == "servers":
            settings["ZONED_DATABASE_URL"] = stack.enter_context(servers.postgresql(directory / "pg"))
            settings["ZONED_REDIS_URL"] = stack.enter_context(servers.redis(directory / "redis"))
            settings["ZONED_WORKERS"] = str(_WORKERS[storage])
        server = Server(directory / "data", settings)
        server.init()
        stack.callback(server.stop)
        server.start()
        yield server


def _told(statements: Iterator[Statement]) -> Iterator[Statement]:
    """The statements, each told as soon as it is there."""
    began = time.monotonic()
    for statement in statements:
        mark = "" if statement.holds else "NOT TRUE: "
        print(f"{time.monotonic() - began:4.0f} s  {mark}{statement.what}: {statement.seen}", file=sys.stderr)
        yield statement


def _show(storage: str, statements: list[Statement]) -> None:
    table = Table(title=storage, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name in ("statement", "seen", "true"):
        table.add_column(name)
    for statement in statements:
        table.add_row(statement.what, statement.seen, "yes" if statement.holds else "NO")
    Console(width=150, highlight=False).print(table)


if __name__ == "__main__":
    sys.exit(main())

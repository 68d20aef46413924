"""An ordinary day in a few minutes: people, their agent, and an operator who changes things under them.

Beside them is a measured load, so that the server is as busy as it may be.
"""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from acme import Server
from benchmarks.exchange import Stage
from tests.soak import measured
from tests.soak.judging import Statement, levels_off, quarter
from tests.soak.operating import Keys, Policies
from tests.soak.people import Account, Desk, Person, attempt
from tests.soak.record import Record
from tests.soak.vitals import Vitals, Watch

ACCOUNTS, DESKS = 3, 6
GROWTH = 0.10
_SPARE_FILES = 4  # connections that happen to be open at one moment and not at another
_PAUSE_SECONDS = 2.0


def measure(
    server: Server, stage: Stage, *, ends_at: float, notices_seconds: float, share: float
) -> Iterator[Statement]:
    """A mixed load until then, and in any case until each kind of rotation was done.

    Args:
        ends_at: on the monotonic clock.
        notices_seconds: how soon the server knows what a `zoned` command has changed.
        share: of its peak, how much the measured load is.
    """
    _begin_anew(server)
    record, over, watch = Record(), threading.Event(), Watch(Vitals(server))
    accounts = [_account(server, number) for number in range(ACCOUNTS + 1)]
    desks = [Desk(stage, accounts[number % ACCOUNTS], record) for number in range(DESKS)]
    people = [Person(desk, over, seed=number) for number, desk in enumerate(desks)]
    load = measured.Measured(server, stage, accounts[-1], record, over, share=share, ends_at=ends_at)
    with (
        closing(Policies(server, Desk(stage, accounts[0], record))) as policies,
        closing(Keys(server, Desk(stage, accounts[0], record), notices_seconds=notices_seconds)) as keys,
    ):
        changing = threading.Thread(target=_change, args=(policies, record, over), daemon=True)
        threads: list[threading.Thread] = [watch, changing, *people, load]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        time.sleep(max(began + (ends_at - began) / 4 - time.monotonic(), 0))
        attempt(record, keys.rotate)
        time.sleep(max(began + (ends_at - began) / 2 - time.monotonic(), 0))
        with load.turn:  # its tokens are refused by then, and rightly so
            attempt(record, keys.withdraw)
        time.sleep(max(ends_at - time.monotonic(), 0))
        over.set()
        watch.stop()
        for thread in threads:
            thread.join()
    yield from record.statements()
    yield from measured.statements(load.series, load.peak_cores)
    failures = server.log.read_text().count("Traceback (most recent call last)")
    yield Statement("no traceback in the server's log", f"{failures:,}", not failures)
    yield _level("memory", watch.memory, 2**20, "MB", levels_off(watch.memory, share=GROWTH))
    yield _of_each_process(watch)
    yield _level("open files", watch.files, 1, "", levels_off(watch.files, by=_SPARE_FILES))


def _begin_anew(server: Server) -> None:
    """Restart the server with tokens that live for two minutes.

    What it keeps of tokens, it keeps until they end: so entries come and go within the time of a run, and
    memory that still grows is none of theirs.
    """
    server.stop()
    server.settings = {**server.settings, "ZONED_TOKEN_LIFETIME_SECONDS": "120"}
    server.start()


def _change(policies: Policies, record: Record, over: threading.Event) -> None:
    while not over.wait(_PAUSE_SECONDS):
        attempt(record, policies.change)


def _account(server: Server, number: int) -> Account:
    account = Account(f"soak-{number}@acme.example", secrets.token_urlsafe(12))
    add = ("user", "add", "--zone", "acme-workforce", "--email", account.email, "--password-stdin")
    server.run(*add, stdin=account.password)
    return account


def _of_each_process(watch: Watch) -> Statement:
    """A process that comes or goes in between is no level memory, whatever the sum is."""
    series = [*watch.memory_by_process.values()]
    there = [each for each in series if len(each) == len(watch.memory)]
    seen = ", ".join(
        f"{quarter(each, 2) / 2**20:,.0f}, then {quarter(each, 4) / 2**20:,.0f} MB" for each in there
    )
    missed = len(series) - len(there)
    return Statement(
        "memory of each process: the same, of processes that are there all the time",
        f"{seen}{f'; {missed} others came or went' if missed else ''}",
        not missed and all(levels_off(each, share=GROWTH) for each in there),
    )


def _level(what: str, samples: list[float], unit: float, name: str, holds: bool) -> Statement:
    before, after = quarter(samples, 2) / unit, quarter(samples, 4) / unit
    seen = f"{before:,.0f}{name and ' ' + name} in the second quarter, {after:,.0f} in the last"
    return Statement(f"{what}: the last quarter is level with the second", seen, holds)

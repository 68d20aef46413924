"""Servers that are asked in turns, so that all of them meet the same machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from acme import Server

from benchmarks import cores
from benchmarks.exchange import put
from benchmarks.load import Load, Outcome


@dataclass(frozen=True)
class Turn:
    """What came of one load.

    Attributes:
        busy_us: for how many microseconds each request kept a core busy in the server; 0 for not known.
        was_crowded: something else had the machine.
    """

    outcome: Outcome
    busy_us: float
    was_crowded: bool


@dataclass(frozen=True)
class Asked:
    """What is sent to a server.

    Attributes:
        pid: of its process; None where it is not asked how busy that was.
    """

    load: Load
    pid: int | None = None

    @classmethod
    def of(cls, server: Server, load: Load) -> "Asked":
        """What is sent to one of ours, which runs."""
        return cls(load, server.process.pid if server.process else None)

    def put(self) -> Turn:
        """Send it. Raises RuntimeError when anything was refused."""
        before, machine_before = cores.busy_seconds(self.pid) if self.pid else None, cores.machine_seconds()
        outcome = put(self.load)
        after, machine_after = cores.busy_seconds(self.pid) if self.pid else None, cores.machine_seconds()
        if before is None or after is None:
            return Turn(outcome, 0.0, was_crowded=False)
        busy = after - before
        core, machine = (
            busy / (outcome.seconds + self.load.warm_up),
            cores.share(machine_before, machine_after),
        )
        return Turn(outcome, 1e6 * busy / outcome.sent, cores.are_crowded(core, machine))


def were_crowded(turns: Sequence[Turn]) -> bool:
    """Tell whether something else had the machine in half of the turns, so that their median says nothing."""
    return 2 * sum(each.was_crowded for each in turns) >= len(turns)

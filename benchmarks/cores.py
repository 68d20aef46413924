"""Cores: a server has one to itself, its load the others; and how long a server has kept them busy."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

SERVER = "server"
LOAD = "load"
SATURATED = 0.85  # of a core: what is busier has no room for bursts
_CROWDED = 0.95  # of all cores


def can_be_shared_out() -> bool:
    """Tell whether this system lets a process choose, and there are two cores to choose from."""
    return hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1


@contextlib.contextmanager
def started_on(part: str | None) -> Iterator[None]:
    """Let processes that are started in the block have the cores of that part, with all their threads.

    Args:
        part: `SERVER` or `LOAD`; None for any core.
    """
    if part is None:
        yield
        return
    before = os.sched_getaffinity(0)
    first, *others = sorted(before)
    os.sched_setaffinity(0, {first} if part == SERVER else others)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def busy_seconds(pid: int) -> float | None:
    """How long a process has kept cores busy, its threads and what the system did for it included.

    None where the system does not say so. Another process that takes its turn on the core is not counted.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:
        return None
    user, system = told.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> tuple[float, float] | None:
    """For how long all cores together were busy since the machine began, and could have been.

    None where the system does not say so. Time that a hypervisor gave to others counts as busy.
    """
    try:
        told = Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(each) for each in told]
    idle = ticks[3] + ticks[4]
    per_second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / per_second, sum(ticks) / per_second


def share(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float | None:
    """How much of what all cores could do they did between two readings of `machine_seconds`."""
    if before is None or after is None or after[1] == before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def are_crowded(server: float | None, machine: float | None) -> bool:
    """Tell whether a server under a closed loop did not get its core, since all of them were busy.

    Args:
        server: the share of a core that it had; None for not known, as
        machine: the share of all cores that was busy.
    """
    return server is not None and server < SATURATED and (machine or 0.0) >= _CROWDED

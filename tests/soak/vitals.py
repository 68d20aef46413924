"""Processor time, memory and open files of a server, from the operating system. Linux only."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from acme import Server

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Vitals:
    """Sums over every process of a server: it and its workers are a process group of their own."""

    def __init__(self, server: Server) -> None:
        assert server.process is not None
        self._group = server.process.pid

    def cpu_seconds(self) -> float:
        """Processor time used so far, in user mode and in the kernel; counted in hundredths of a second."""
        return sum(int(fields[11]) + int(fields[12]) for _, fields in self._members()) / _TICKS_A_SECOND

    def resident_bytes(self) -> int:
        """Memory that is in use and not swapped out."""
        return sum(self.resident_bytes_by_process().values())

    def resident_bytes_by_process(self) -> dict[int, int]:
        """The same of each process, by its id."""
        return {int(process.name): int(fields[21]) * _PAGE_BYTES for process, fields in self._members()}

    def open_files(self) -> int:
        """Open file descriptors: files, connections, pipes."""
        return sum(1 for process, _ in self._members() for _ in (process / "fd").iterdir())

    def _members(self) -> Iterator[tuple[Path, list[str]]]:
        """Each process, with the fields of its `stat` from the third on: its state comes first."""
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended while we looked
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == self._group:
                    yield process, fields


class Watch(threading.Thread):
    """Writes down memory and open files, again and again until it is stopped.

    Attributes:
        memory_by_process: by process id; shorter than `memory` for a process that was not there all the time.
    """

    def __init__(self, vitals: Vitals, *, every_seconds: float = 1.0) -> None:
        super().__init__(daemon=True)
        self.memory: list[float] = []
        self.memory_by_process: dict[int, list[float]] = {}
        self.files: list[float] = []
        self._vitals, self._every, self._over = vitals, every_seconds, threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._every):
            memory = self._vitals.resident_bytes_by_process()
            self.memory.append(sum(memory.values()))
            for process, resident in memory.items():
                self.memory_by_process.setdefault(process, []).append(resident)
            self.files.append(self._vitals.open_files())

    def stop(self) -> None:
        """End it, and return when it has ended."""
        self._over.set()
        self.join()


def settled(vitals: Vitals, *, seconds: float = 1.0) -> float:
    """Resident memory once the server has had a moment to rest: the median of a few looks."""
    looks = []
    for _ in range(5):
        time.sleep(seconds / 5)
        looks.append(vitals.resident_bytes())
    return sorted(looks)[2]

"""The values of metrics in a worker process, and the files by which all workers of a node know each other's.

prometheus_client keeps the values of several processes in files that each of them maps into its memory. An
observation of a histogram takes 2.5 µs then, and a full disk ends a process that writes to such a map. Here a
value is a number in memory, and every worker writes its own into a file of the same form from time to time:
an observation takes 0.7 µs, and a write that fails is tried again with the next.

A file is named after the number of its worker. The worker that takes a dead one's place goes on with its
counts, so that no sum over the workers ever falls.
"""

import struct
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from runtime import files

_LENGTH, _NUMBERS = struct.Struct("i"), struct.Struct("dd")
_HEADER_BYTES = 8
_GAUGE = "gauge"


class WorkerValues:
    """The values of one worker, by the type of their metrics.

    Args:
        directory: of all workers of the node, for their files alone.
        number: of this worker.
    """

    def __init__(self, directory: Path, number: int) -> None:
        self._directory, self._number = directory, number
        self._values: dict[str, list[WorkerValue]] = defaultdict(list)
        self._former: dict[str, dict[str, float]] = {}

    def add(self, value: "WorkerValue", kind: str, key: str) -> float:
        """Write this value, too, from now on; what a former worker of this number had counted."""
        self._values[kind].append(value)
        return 0.0 if kind.startswith(_GAUGE) else self._former_of(kind).get(key, 0.0)

    def _former_of(self, kind: str) -> dict[str, float]:
        if kind not in self._former:
            try:
                entries = MmapedDict.read_all_values_from_file(str(self._path(kind)))  # type: ignore[no-untyped-call]
                self._former[kind] = {key: number for key, number, _, _ in entries}
            except FileNotFoundError:
                self._former[kind] = {}
        return self._former[kind]

    def _path(self, kind: str) -> Path:
        return self._directory / f"{kind}_{self._number}.db"

    def write(self) -> None:
        """Let the other workers know the values as they are now. Raises OSError."""
        for kind, values in self._values.items():
            known = {value.key for value in values}
            entries = [value.prefix + _NUMBERS.pack(value.number, 0.0) for value in values]
            # What the former worker has counted and this one has not, yet.
            former = self._former.get(kind, {}).items()
            entries += [_prefix(key) + _NUMBERS.pack(count, 0.0) for key, count in former if key not in known]
            body = b"".join(entries)
            used = _LENGTH.pack(_HEADER_BYTES + len(body)).ljust(_HEADER_BYTES, b"\0")
            files.rewrite(self._path(kind), used + body)


def _prefix(key: str) -> bytes:
    """What stands before the numbers of an entry, as `prometheus_client.mmap_dict` reads it."""
    encoded = key.encode()
    padded = encoded + b" " * (8 - (len(encoded) + _LENGTH.size) % 8)
    return _LENGTH.pack(len(encoded)) + padded


class WorkerValue:
    """A number of a metric, as prometheus_client makes one for each of its samples.

    It is changed by one thread alone, that of the event loop.
    """

    _multiprocess = True  # prometheus_client asks: buckets are summed when they are read
    worker: WorkerValues

    def __init__(
        self,
        typ: str,
        metric_name: str,
        name: str,
        labelnames: Sequence[str],
        labelvalues: Sequence[str],
        help_text: str,
        multiprocess_mode: str = "",
        **_more: Any,
    ) -> None:
        kind = f"{typ}_{multiprocess_mode}" if typ == _GAUGE else typ
        self.key = mmap_key(metric_name, name, list(labelnames), list(labelvalues), help_text)
        self.prefix = _prefix(self.key)
        self.number = self.worker.add(self, kind, self.key)

    def inc(self, amount: float) -> None:
        """Add to it."""
        self.number += amount

    def set(self, value: float, timestamp: float | None = None) -> None:
        """Set it."""
        self.number = value

    def get(self) -> float:
        """The number."""
        return self.number

    def set_exemplar(self, _exemplar: object) -> None:
        """Do nothing: the files have no place for examples."""

    def get_exemplar(self) -> None:
        """None: there are none."""


def value_class(worker: WorkerValues) -> type[WorkerValue]:
    """What prometheus_client is to make the values of that worker with."""
    return type("ValueOfWorker", (WorkerValue,), {"worker": worker})

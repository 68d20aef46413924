"""The supervisor process of `zoned serve`: starts the workers, restarts those that exit, and stops them all.

Sanic's own manager starts workers again only on request: one that the kernel kills would stay away, and with
the last of them gone the socket would go on accepting connections that nobody answers.
"""

import multiprocessing
import os
import signal
import socket
from collections import deque
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from time import monotonic

from runtime import files
from runtime.cli.worker import LISTEN_EXIT_CODE, STOP_SECONDS, ListenError, work
from runtime.logs import log
from runtime.metrics import DIRECTORY, WORKER, SupervisorMetrics, pid_file
from runtime.settings import Settings

# Workers that end so often are not helped by another start: whoever watches this process takes over.
_ENDS, _WITHIN_SECONDS = 5, 30


class SupervisorError(Exception):
    """The workers do not stay, or did not stop as they should; the message says what happened."""


class Supervisor:
    """Keeps as many workers as the settings say, on one socket that is bound already."""

    def __init__(self, settings: Settings, bound: socket.socket) -> None:
        self._settings, self._bound = settings, bound
        self._workers: dict[int, SpawnProcess] = {}
        self._metrics = Path()  # where the workers keep what they count
        # A failure that takes each worker once, as lack of memory may, is still mended.
        self._ends: deque[float] = deque(maxlen=max(_ENDS, settings.workers + 1))

    def run(self) -> None:
        """Serve until a signal asks to stop. Raises SupervisorError, ListenError."""
        asked = _stop_signal()
        try:
            self._metrics = files.make_temporary_directory("zoned-metrics-")
        except OSError as failure:
            raise SupervisorError(f"no temporary directory for the metrics: {failure}; set TMPDIR") from None
        os.environ[DIRECTORY] = str(self._metrics)
        own = SupervisorMetrics(self._metrics)
        with suppress(OSError):  # what comes later brings it
            own.write()
        try:
            for number in range(1, self._settings.workers + 1):
                self._start(number)
            while asked not in wait([asked, *(worker.sentinel for worker in self._workers.values())]):
                self._replace_ended(own)
        finally:
            failed = self._stop()
            files.remove_directory(self._metrics)
        if failed:
            raise SupervisorError(f"workers did not stop as they should: {', '.join(failed)}")

    def _start(self, number: int) -> None:
        worker = multiprocessing.get_context("spawn").Process(
            target=work, args=(self._settings, self._bound), name=f"{WORKER}{number}", daemon=True
        )
        # A worker begins without a handler: a terminal's interrupt, sent to all, would look like a failure.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        worker.start()
        signal.signal(signal.SIGINT, handler)
        self._workers[number] = worker
        with suppress(OSError):  # a full disk keeps no worker from its work
            files.rewrite(pid_file(self._metrics, number), str(worker.pid).encode())

    def _replace_ended(self, own: SupervisorMetrics) -> None:
        for number, worker in self._workers.items():
            if worker.is_alive():
                continue
            if worker.exitcode == LISTEN_EXIT_CODE:
                raise ListenError
            log.error("a worker exited unexpectedly", worker=number, pid=worker.pid, how=_how_ended(worker))
            self._ends.append(monotonic())
            if len(self._ends) == self._ends.maxlen and self._ends[-1] - self._ends[0] < _WITHIN_SECONDS:
                raise SupervisorError(
                    f"workers ended {len(self._ends)} times within {_WITHIN_SECONDS} seconds, "
                    f"the last with {_how_ended(worker)}: see the log lines before this one"
                )
            self._start(number)
            with suppress(OSError):  # the next that is counted brings this one
                own.count_replaced()
            log.warning("a replacement worker was started", worker=number, pid=self._workers[number].pid)

    def _stop(self) -> list[str]:
        """End all workers, those that hang by force; tell which did not end as they should."""
        # The kernel completes connections for as long as anybody has the socket open.
        self._bound.close()
        running = {number: worker for number, worker in self._workers.items() if worker.is_alive()}
        for worker in running.values():
            worker.terminate()
        deadline = monotonic() + STOP_SECONDS + self._settings.drain_seconds
        for worker in running.values():
            worker.join(max(0.0, deadline - monotonic()))
            if worker.is_alive():
                worker.kill()
                worker.join()
        # One that was still starting has no handler of the signal yet, nor anything to finish.
        return [
            f"worker {number} with {_how_ended(worker)}"
            for number, worker in running.items()
            if worker.exitcode not in (0, -signal.SIGTERM)
        ]


def _stop_signal() -> int:
    """A descriptor that can be read once a signal has asked this process to stop."""
    asked, ask = os.pipe()
    os.set_blocking(ask, False)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: os.write(ask, b"."))
    return asked


def _how_ended(worker: SpawnProcess) -> str:
    code = worker.exitcode
    if code is None or code >= 0:
        return f"exit code {code}"
    return f"signal {signal.Signals(-code).name}"

"""Metrics of the service in Prometheus' text form, summed over the workers of a node.

Labels have values from short lists only: names of endpoints, outcomes, jobs and caches, never a zone, a
client or a user. So the number of time series is bounded, whatever callers send.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing import current_process
from pathlib import Path
from time import time

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    Summary,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from runtime.metrics.worker_values import WorkerValue, WorkerValues, value_class

WORKER = "worker-"  # what the processes of workers are called, before their number
DIRECTORY = "ZONEWRIGHT_METRICS_DIRECTORY"  # the environment variable by which workers find their files
_PID = ".pid"
_SUPERVISOR_NUMBER = 0  # in the name of its file, beside those of the workers

_name = current_process().name
WORKER_NUMBER = int(_name.removeprefix(WORKER)) if _name.startswith(WORKER) else 1  # of this process
_directory = Path(os.environ[DIRECTORY]) if _name.startswith(WORKER) and DIRECTORY in os.environ else None
_shared = WorkerValues(_directory, WORKER_NUMBER) if _directory else None

# prometheus_client decides where a number lives when its metric is declared: before what follows.
values.ValueClass = value_class(_shared) if _shared else values.MutexValue
disable_created_metrics()  # type: ignore[no-untyped-call]

# Seconds: a warm exchange takes a tenth of a millisecond, and a request that takes ten seconds is given up.
BUCKETS: tuple[float, ...] = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05)
BUCKETS += (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_WAITS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)

REQUEST_SECONDS = Histogram(
    "zoned_request_seconds",
    "Seconds from a request's last byte to the head of its answer, by endpoint and outcome",
    ["endpoint", "outcome"],
    buckets=BUCKETS,
)
FORMER_ADDRESSES = Counter(
    "zoned_former_address_requests_total", "Requests that were sent to an address that a zone was moved from"
)
TOKENS = Counter(
    "zoned_token_requests_total", "Token requests by grant type and outcome", ["grant", "outcome"]
)
REFUSALS = Counter(
    "zoned_refusals_total", "Refused decisions by event and the code of the refusal", ["event", "code"]
)
INTROSPECTIONS = Counter(
    "zoned_introspections_total", "Introspections by what the caller was told: active, inactive", ["result"]
)

DATABASE_CONNECTIONS = Gauge(
    "zoned_database_connections_in_use", "Connections of requests to the database", multiprocess_mode="sum"
)
DATABASE_CONNECTIONS_MOST = Gauge(
    "zoned_database_connections_max",
    "Connections of requests to the database that the pools allow",
    multiprocess_mode="sum",
)
DATABASE_WAITING = Gauge(
    "zoned_database_waiting", "Requests that wait for a database connection", multiprocess_mode="sum"
)
DATABASE_WAIT_SECONDS = Histogram(
    "zoned_database_wait_seconds", "Seconds that work waited for a database connection", buckets=_WAITS
)
REPLAY_SECONDS = Histogram(
    "zoned_replay_seconds",
    "Seconds of processor time in which a dry run replayed recorded decisions",
    buckets=(0.1, 0.5, 1.0, 2.0, 4.0, 8.0),
)
DATABASE_STATEMENTS = Counter("zoned_database_statements_total", "Statements that were sent to the database")
DATABASE_FAILURES = Counter(
    "zoned_database_unavailable_total", "Pieces of work that the database did not serve"
)

STATE_SECONDS = Histogram(
    "zoned_state_seconds",
    "Seconds of round trips to Redis, by outcome: answered, refused, unavailable",
    ["outcome"],
    buckets=BUCKETS,
)
STATE_SKIPPED = Counter("zoned_state_skipped_total", "Round trips to Redis that its breaker did not allow")
STATE_BREAKER = Gauge(
    "zoned_state_breaker_open",
    "Workers that do not ask Redis, since it gave no answer",
    multiprocess_mode="sum",
)

QUEUED = Gauge(
    "zoned_queue_length", "Entries that wait in memory to be written", ["queue"], multiprocess_mode="sum"
)
OUTBOX = Gauge(
    "zoned_outbox_messages",
    "Messages in the outbox: waiting, or dead after the last attempt",
    ["state"],
    multiprocess_mode="max",
)
OUTBOX_OLDEST = Gauge(
    "zoned_outbox_oldest_seconds",
    "Age of the oldest message that waits in the outbox",
    multiprocess_mode="max",
)

CACHE_LOOKUPS = Counter("zoned_cache_lookups_total", "Lookups by cache and result", ["cache", "result"])
CACHE_ENTRIES = Gauge("zoned_cache_entries", "Entries by cache", ["cache"], multiprocess_mode="sum")

OUTBOUND_SECONDS = Histogram(
    "zoned_outbound_request_seconds",
    "Seconds of requests to other servers, by what they are for and what they came to",
    ["client", "outcome"],
    buckets=(*BUCKETS, 20.0),
)
KEY_ENCRYPTION_SECONDS = Histogram(
    "zoned_key_encryption_seconds",
    "Seconds of requests to key-management services, by service, operation and what they came to",
    ["service", "operation", "outcome"],
    buckets=BUCKETS,
)
DATA_KEYS = Gauge(
    "zoned_data_keys",
    "Data keys that a key-management service has unwrapped: held; unreachable, where its check is overdue",
    ["state"],
    multiprocess_mode="sum",
)
UPSTREAM_CIRCUITS = Gauge(
    "zoned_upstream_circuits_open",
    "Providers of connected accounts that are not asked at present, or are asked on trial",
    multiprocess_mode="max",
)
UPSTREAM_REFRESHES = Counter(
    "zoned_upstream_refreshes_total", "Refreshes of upstream tokens by outcome", ["outcome"]
)
UPSTREAM_REVOCATIONS = Counter(
    "zoned_upstream_revocations_total", "Revocations of upstream tokens by outcome", ["outcome"]
)

JOB_RUNS = Counter("zoned_job_runs_total", "Job runs by outcome", ["job", "outcome"])
JOB_WORK = Counter("zoned_job_work_total", "Items processed by jobs", ["job"])
JOB_SECONDS = Summary("zoned_job_seconds", "Duration of job runs in seconds", ["job"])
JOB_SUCCEEDED = Gauge(
    "zoned_job_last_success_timestamp_seconds",
    "When a run of the job last succeeded, in seconds since 1970",
    ["job"],
    multiprocess_mode="max",
)

LOOP_LAG = Histogram(
    "zoned_event_loop_lag_seconds",
    "Seconds that a worker was late for a task that was due, measured every two seconds",
    buckets=_WAITS,
)
NODE_STARTED = Gauge(
    "zoned_node_start_time_seconds",
    "When `zoned serve` was started, in seconds since 1970; workers may be younger",
    multiprocess_mode="max",
)
WORKERS_REPLACED = Counter(
    "zoned_workers_replaced_total", "Workers that exited unexpectedly and were replaced by another"
)
BUILD = Gauge("zoned_build_info", "1, with the version of the service", ["version"], multiprocess_mode="max")


@lru_cache(maxsize=4_096)
def request_seconds(endpoint: str, outcome: str) -> Histogram:
    """The histogram of an endpoint's answers of that outcome, which both are from short lists."""
    return REQUEST_SECONDS.labels(endpoint, outcome)


def write_values() -> None:
    """Let the other workers of the node know this one's numbers. Raises OSError."""
    if _shared is not None:
        _shared.write()


def note_start() -> None:
    """Say that the node was started now, where this process is all of it."""
    if _shared is None:
        NODE_STARTED.set(time())


class SupervisorMetrics:
    """When a node was started, and how many workers were replaced since, which their supervisor knows.

    They are in files like those of the workers, so that they are taken together with their zeros.

    Args:
        directory: that of the workers' files.
    """

    def __init__(self, directory: Path) -> None:
        self._values = WorkerValues(directory, _SUPERVISOR_NUMBER)
        self._replaced = self._value(WORKERS_REPLACED, "_total")
        self._value(NODE_STARTED).set(time())

    def write(self) -> None:
        """Let the workers know. Raises OSError when they do not before the next time."""
        self._values.write()

    def count_replaced(self) -> None:
        """Count one more worker that was replaced. Raises OSError as `write`."""
        self._replaced.inc(1)
        self.write()

    def _value(self, metric: Counter | Gauge, suffix: str = "") -> WorkerValue:
        [told] = metric.describe()
        mode = "max" if isinstance(metric, Gauge) else ""
        return value_class(self._values)(
            told.type, told.name, f"{told.name}{suffix}", (), (), told.documentation, mode
        )


class _Processes:
    """Processor time, memory and open files of each worker, which is the label `worker`."""

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for number, process in _processes():
            for metric in ProcessCollector(pid=lambda process=process: process, registry=None).collect():  # type: ignore[misc]
                whole = found.setdefault(metric.name, metric)
                samples = [sample._replace(labels={"worker": number}) for sample in metric.samples]
                whole.samples = samples if whole is metric else whole.samples + samples
        yield from found.values()


def _processes() -> list[tuple[str, int | str]]:
    """Number -> process id of every worker of the node."""
    if _directory is None:
        return [("1", "self")]
    return sorted((each.stem, int(each.read_text())) for each in _directory.glob(f"*{_PID}"))


def pid_file(directory: Path, number: int) -> Path:
    """Where the process id of a worker is."""
    return directory / f"{number}{_PID}"


class _Own:
    """The metrics that are declared above, without what prometheus_client brings of its own."""

    def collect(self) -> Iterator[Metric]:
        return (metric for metric in REGISTRY.collect() if metric.name.startswith("zoned_"))


def exposition() -> tuple[bytes, str]:
    """Every metric, summed over the workers of the node, and the content type of that text."""
    registry = CollectorRegistry()
    if _directory is None:
        registry.register(_Own())
    else:
        MultiProcessCollector(registry, str(_directory))  # type: ignore[no-untyped-call]
    registry.register(_Processes())
    return generate_latest(registry), CONTENT_TYPE_LATEST

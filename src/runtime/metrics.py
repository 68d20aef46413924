"""Counters with bounded labels, in Prometheus' text form; each worker process has its own.

The workers answer at one address, each in its turn: without their numbers, their counters would be one that
goes up and down.
"""

from collections.abc import Iterator
from multiprocessing import current_process

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Metric,
    Summary,
    generate_latest,
)

WORKER = "worker-"  # what the processes of workers are called, before their number

TOKENS = Counter(
    "zoned_token_requests_total", "Token requests by grant type and outcome", ["grant", "outcome"]
)
JOB_RUNS = Counter("zoned_job_runs_total", "Job runs by outcome", ["job", "outcome"])
JOB_WORK = Counter("zoned_job_work_total", "Items processed by jobs", ["job"])
JOB_SECONDS = Summary("zoned_job_seconds", "Duration of job runs in seconds", ["job"])

UPSTREAM_REFRESHES = Counter(
    "zoned_upstream_refreshes_total", "Refreshes of upstream tokens by outcome", ["outcome"]
)

UPSTREAM_REVOCATIONS = Counter(
    "zoned_upstream_revocations_total", "Revocations of upstream tokens by outcome", ["outcome"]
)


class _OfWorker:
    """The metrics of this process, each with the number of the worker that it is."""

    def collect(self) -> Iterator[Metric]:
        name = current_process().name
        worker = name.removeprefix(WORKER) if name.startswith(WORKER) else "1"
        for metric in REGISTRY.collect():
            metric.samples = [
                sample._replace(labels={**sample.labels, "worker": worker}) for sample in metric.samples
            ]
            yield metric


_labelled = CollectorRegistry()
_labelled.register(_OfWorker())


def exposition() -> tuple[bytes, str]:
    """Every metric of this process, and the content type of that text."""
    return generate_latest(_labelled), CONTENT_TYPE_LATEST

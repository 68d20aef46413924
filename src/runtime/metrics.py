"""Counters with bounded labels, in Prometheus' text form; each worker process has its own."""

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, Summary, generate_latest

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


def exposition() -> tuple[bytes, str]:
    """Every metric of this process, and the content type of that text."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST

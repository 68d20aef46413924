"""Counters with bounded labels, in Prometheus' text form; each worker process has its own."""

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Counter, generate_latest

TOKENS = Counter(
    "zoned_token_requests_total", "Token requests by grant type and outcome", ["grant", "outcome"]
)


def exposition() -> tuple[bytes, str]:
    """Every metric of this process, and the content type of that text."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST

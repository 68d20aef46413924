"""Which client ids of one address are throttled together: there are few counters for each address."""

from runtime.services.clients import authentication_throttling


def share_a_counter(one: str, other: str) -> bool:
    """Tell whether failures of one client id also count for the other, at the same address."""
    counters = {authentication_throttling._pair(each, "203.0.113.9") for each in (one, other)}
    return len(counters) == 1

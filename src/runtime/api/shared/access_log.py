"""The access log: a JSON object on standard output for each answered request, if a setting asks for it.

It has no query, no header and no body, and of a path only what the router knows: whatever else a request
brings may be a secret.
"""

import sys
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import orjson
from sanic.request import Request

from runtime.api.shared.client_address import address_of
from runtime.api.shared.paths import path_of
from runtime.api.shared.request_metrics import endpoint_of_request, outcome_of


def write(request: Request, response: Any, began_at: float) -> None:
    """Write the line of an answer.

    Args:
        began_at: when the request had arrived, on the clock of `time.perf_counter`.
    """
    line = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request_id": str(request.id),
        "method": request.method,
        "endpoint": endpoint_of_request(request),
        "path": path_of(request) if request.route is not None else None,
        "status": response.status,
        "outcome": outcome_of(response),
        "seconds": round(perf_counter() - began_at, 6),
        "address": address_of(request),
    }
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
    sys.stdout.flush()

"""An OpenTelemetry collector on loopback: takes traces over HTTP, and keeps their spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What was sent to it.

    Attributes:
        url: for `ZONED_TRACES_ENDPOINT`.
    """

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """Every span so far."""
        return [
            span
            for body in list(self.bodies)
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def trace_of(self, request_id: str) -> list[Span]:
        """The spans of the trace that a request is in; none while it has not been sent."""
        spans = self.spans
        traces = {span.trace_id for span in spans if attributes(span).get("zoned.request_id") == request_id}
        return [span for span in spans if span.trace_id in traces]


def attributes(span: Span) -> dict[str, str | int]:
    """Name -> value; numbers as numbers."""
    return {
        each.key: each.value.int_value if each.value.HasField("int_value") else each.value.string_value
        for each in span.attributes
    }


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that runs until the block ends."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()

"""JSON documents on a real socket: JWK sets, client documents, provider metadata."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Publisher:
    """What is published: `documents` maps a path to JSON; `asked` holds the paths that were fetched,
    `sent` their headers."""

    url: str
    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    sent: list[dict[str, str]] = field(default_factory=list)

    def publish(self, path: str, document: Any) -> str:
        """Publish a document; its address."""
        self.documents[path] = document
        return f"{self.url}{path}"


@contextmanager
def publishing() -> Iterator[Publisher]:
    """Run a publisher on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            made.sent.append({name.lower(): value for name, value in self.headers.items()})
            found = made.documents.get(self.path)
            body = json.dumps(found if found is not None else {}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Publisher(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(5)

"""A site that serves documents over HTTPS: what clients publish about themselves."""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.certificates import self_signed, serving
from tests.support.waiting import let_pass


@dataclass
class Documents:
    """What the site says: path -> status, headers and body; and what it was asked."""

    origin: str
    answers: dict[str, tuple[int, Mapping[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    delay: float = 0
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(
        self, path: str, document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> str:
        """Serve a document at a path from now on; its address."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[path] = (status, {"Content-Type": "application/json", **(headers or {})}, body)
        return f"{self.origin}{path}"

    def client(self, path: str = "/client.json", **members: Any) -> str:
        """Serve the document of a client; its client id."""
        document = {
            "client_id": f"{self.origin}{path}",
            "client_name": "Notebook agent",
            "redirect_uris": ["http://127.0.0.1:8600/callback"],
            "token_endpoint_auth_method": "none",
        } | members
        return self.publish(path, {name: value for name, value in document.items() if value is not None})


@contextmanager
def publishing(folder: Path) -> Iterator[Documents]:
    """Serve documents at https://localhost. While this lasts, new processes and contexts trust the site."""
    certificate = self_signed(folder / "localhost.pem", "localhost")
    site = Documents("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with site.lock:
                site.asked.append(self.path)
                site.at_once += 1
                site.most_at_once = max(site.most_at_once, site.at_once)
            let_pass(site.delay)
            status, headers, body = site.answers.get(self.path, (404, {}, b""))
            with site.lock:
                site.at_once -= 1
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = serving(certificate).wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    site.origin = f"https://localhost:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(certificate)
    try:
        yield site
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before
        server.shutdown()
        server.server_close()
        thread.join(10)

"""An outside OAuth provider over real HTTP: it answers what a test's script says, and records requests."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit


@dataclass(frozen=True)
class Received:
    """A request as it came; header names are in lower case.

    Attributes:
        port: of the connection, at the client.
        certificate: that the client showed, as DER; empty when it showed none.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    port: int = 0
    certificate: bytes = b""

    @property
    def members(self) -> dict[str, str]:
        """The members of the body, by its media type."""
        if self.headers["content-type"] == "application/json":
            return dict(json.loads(self.body))
        return dict(parse_qsl(self.body.decode("ascii"), keep_blank_values=True))

    @property
    def basic(self) -> tuple[str, str] | None:
        """Client id and secret of HTTP Basic authentication, form-decoded; None for any other."""
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        if scheme != "Basic":
            return None
        name, _, secret = base64.b64decode(value).decode("ascii").partition(":")
        return unquote_plus(name), unquote_plus(secret)


@dataclass(frozen=True)
class Scripted:
    """An answer: a body that is no bytes is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> bytes:
        """The body as it goes out."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Script = Callable[[Received], Scripted]


@dataclass
class ScriptedProvider:
    """A running provider.

    Attributes:
        script: what each request is answered with.
        received: every request, in order.
    """

    url: str
    script: Script
    received: list[Received] = field(default_factory=list)

    def answers(self, body: Any = b"", status: int = 200, **headers: str) -> None:
        """Answer every request like this from now on; `retry_after` is the header `Retry-After`."""
        answer = Scripted(body, status, {name.replace("_", "-"): value for name, value in headers.items()})
        self.script = lambda _received: answer

    def at(self, path: str) -> list[Received]:
        """The requests to one path."""
        return [each for each in self.received if each.path == path]


@contextmanager
def scripted_provider(
    script: Script | None = None, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Iterator[ScriptedProvider]:
    """Run a provider on a free port; without a script everything is answered 404.

    Args:
        tls: serves https.
        host: in its URL.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers["Content-Length"])))

        def _serve(self, body: bytes) -> None:
            where = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(where.query, keep_blank_values=True))
            port = self.client_address[1]
            shown = self.connection.getpeercert(True) if isinstance(self.connection, ssl.SSLSocket) else None
            received = Received(self.command, where.path, query, headers, body, port, shown or b"")
            made.received.append(received)
            answer = made.script(received)
            self.send_response(answer.status)
            media_type = {"content-type": "application/json;charset=UTF-8"}
            for name, value in {**media_type, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.sent)))
            self.end_headers()
            self.wfile.write(answer.sent)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        url = f"http{'' if tls is None else 's'}://{host}:{server.server_port}"
        made = ScriptedProvider(url, script or (lambda _received: Scripted(status=404)))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join(5)

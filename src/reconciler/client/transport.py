"""HTTP transports with retries; the read-only one refuses every request that changes something."""

import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import certifi
import httpx

TOKEN_PATH = "/service-account-token"
_CHANGESETS = re.compile(r"/organizations/[^/]+/changesets")
_EXPLAIN = re.compile(r"/zones/[^/]+/explain")
_SECRETS = re.compile(r"/zones/[^/]+/secrets")
_SECRET = re.compile(r"/zones/[^/]+/secrets/[^/]+")
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
MAX_RETRY_AFTER_SECONDS = 60.0


class WriteRefused(RuntimeError):
    """A request was about to be sent that this transport refuses. Always a bug."""


class ReadOnlyTransport(httpx.BaseTransport):
    """Admits only requests that change nothing: GET, dry runs, explanations, and the token request.

    Not the GET of one secret, which answers its value: no command needs it.
    """

    def __init__(self, inner: httpx.BaseTransport, base_path: str = "") -> None:
        self._inner, self._base_path = inner, base_path

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises WriteRefused."""
        if not self.allows(request):
            raise WriteRefused(f"refused to send {request.method} {request.url.path}")
        return self._inner.handle_request(request)

    def allows(self, request: httpx.Request) -> bool:
        """Tell whether the request may be sent."""
        path = request.url.path.removeprefix(self._base_path)
        if request.method == "GET":
            return not _SECRET.fullmatch(path)
        if request.method != "POST":
            return False
        if path == TOKEN_PATH or _EXPLAIN.fullmatch(path):
            return True
        return bool(_CHANGESETS.fullmatch(path)) and request.url.query == b"dry_run=true"

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


class WritingTransport(ReadOnlyTransport):
    """Also admits the one request that changes something: a changeset."""

    def allows(self, request: httpx.Request) -> bool:
        """Tell whether the request may be sent."""
        path = request.url.path.removeprefix(self._base_path)
        is_changeset = request.method == "POST" and _CHANGESETS.fullmatch(path) and not request.url.query
        return bool(is_changeset) or super().allows(request)


class SecretsTransport(ReadOnlyTransport):
    """Also admits requests that create, replace and delete secrets in a vault."""

    def allows(self, request: httpx.Request) -> bool:
        """Tell whether the request may be sent."""
        path = request.url.path.removeprefix(self._base_path)
        creates = request.method == "POST" and _SECRETS.fullmatch(path)
        changes = request.method in ("PATCH", "DELETE") and _SECRET.fullmatch(path)
        return bool(creates or changes) or super().allows(request)


class RetriedAnswer(Exception):
    """An answer after which the request is repeated. `wait_seconds` is None without `Retry-After`."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(f"the server answered {response.status_code}")
        self.response = response
        self.wait_seconds = retry_after(response.headers.get("Retry-After"))


def wants_retry(response: httpx.Response) -> bool:
    """Tell whether the same request may succeed later."""
    return response.status_code in RETRIED_STATUSES and response.headers.get("x-should-retry") != "false"


def retry_after(value: str | None) -> float | None:
    """Seconds to wait. Spec: RFC 9110 section 10.2.3, seconds or a date."""
    if not value:
        return None
    if value.isdecimal():
        seconds = float(value)
    else:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def backoff(error: Exception) -> bool | float:
    """Whether to repeat the request, and when. For `stamina`."""
    if isinstance(error, RetriedAnswer):
        return True if error.wait_seconds is None else error.wait_seconds
    return isinstance(error, httpx.TransportError)


def trust() -> ssl.SSLContext:
    """The authorities that the machine trusts, as git and curl do, and those of certifi where it has few.

    `SSL_CERT_FILE` or `SSL_CERT_DIR` names those that count instead.
    """
    context = ssl.create_default_context()
    if not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        context.load_verify_locations(certifi.where())
    return context


@contextmanager
def http_client(
    base_url: str, *, transport: type[ReadOnlyTransport], inner: httpx.BaseTransport | None = None
) -> Iterator[httpx.Client]:
    """A client for one command. *transport*: what it may send; *inner* replaces the network."""
    url = httpx.URL(base_url)
    # To read the authorities takes a twentieth of a second. Where no TLS is spoken, nobody is trusted.
    verify = trust() if url.scheme != "http" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    below = inner or httpx.HTTPTransport(verify=verify, http2=False, limits=httpx.Limits(max_connections=2))
    timeout = httpx.Timeout(30.0, read=300.0)
    admitted = transport(below, url.path.rstrip("/"))
    with httpx.Client(
        base_url=base_url, transport=admitted, timeout=timeout, follow_redirects=False
    ) as client:
        yield client

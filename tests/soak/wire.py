"""HTTP/1.1 by hand: requests are sent byte by byte as given, from an address that the sender chooses."""

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """What came back, and how many seconds after the request was on its way."""

    status: int
    headers: Message
    body: bytes
    seconds: float

    @property
    def json(self) -> dict[str, Any]:
        """The object in the body; empty when there is none."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}

    def __str__(self) -> str:
        return f"{self.status} {self.body[:200].decode(errors='replace')}"


class Wire:
    """One connection that is kept, and opened again when the server has closed it.

    Attributes:
        source: the address of this machine that requests come from: all of 127.0.0.0/8 are its own.
    """

    def __init__(self, url: str, source: str = "127.0.0.1") -> None:
        parts = urlsplit(url)
        self.host, self.port, self.source = parts.hostname or "", parts.port or 80, source
        self._socket: socket.socket | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def post(self, url: str, form: Mapping[str, str]) -> Answer:
        """Send a form."""
        return self.send(request("POST", url, urlencode(form).encode(), FORM))

    def get(self, url: str) -> Answer:
        """Fetch an address."""
        return self.send(request("GET", url))

    def send(self, text: bytes) -> Answer:
        """The answer to bytes that are one request. Raises OSError or HTTPException when none comes."""
        fresh = self._socket is None
        try:
            return self._exchange(text)
        except (OSError, HTTPException):
            self.close()
            if fresh:
                raise
        return self._exchange(text)  # the server had closed what was kept

    def _exchange(self, text: bytes) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(
                (self.host, self.port), timeout=60, source_address=(self.source, 0)
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        self._socket.sendall(text)
        response = HTTPResponse(self._socket)
        response.begin()
        body = response.read()
        answer = Answer(response.status, response.headers, body, time.perf_counter() - began)
        if response.will_close:
            self.close()
        return answer


def request(
    method: str, url: str, body: bytes = b"", content_type: str = "", headers: Mapping[str, str] | None = None
) -> bytes:
    """A request as it is sent; its length is told unless *headers* say how long it is."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    told = {"Host": parts.netloc}
    if content_type:
        told["Content-Type"] = content_type
    if body:
        told["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (told | dict(headers or {})).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

"""HTTP/1.1 connections: heads by the letter of RFC 9112, deadlines, and whole answers in one piece.

Sanic reads heads leniently: a space in front of a colon, a bare line feed or a digit of another script lets
two readers disagree about where a request ends. Here a head has to match one regular expression. And nearly
all requests and answers are there as a whole, so they are read and sent as such, which takes a fraction of
the time. So do the lines between chunks. All else of a connection is Sanic's: bodies that arrive in parts,
streams, failures.
"""

import re
from asyncio import Future, Task
from dataclasses import dataclass
from functools import cached_property, lru_cache
from http import HTTPStatus
from time import monotonic
from typing import Any, ClassVar, NamedTuple

from sanic.compat import Header
from sanic.exceptions import BadRequest, ExpectationFailed, PayloadTooLarge, RequestCancelled
from sanic.headers import format_http1_response
from sanic.http import Http, Stage
from sanic.http.http1 import HTTP_CONTINUE
from sanic.server.protocols.http_protocol import HttpProtocol

# How long a server that stops waits for a next request, and for more of one that has begun to come.
_IDLE_SECONDS, _SILENCE_SECONDS = 0.5, 2.0

# Spec: RFC 9112 sections 3 and 5, RFC 9110 section 5. Possessive, so that each byte is looked at once.
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_HEAD = re.compile(
    rb"(%b) ([\x21-\x7e]++) HTTP/1\.([01])((?:\r\n%b:[\t\x20-\x7e\x80-\xff]*+)*+)" % (_TOKEN, _TOKEN)
)
_TARGET_BEGINS = re.compile(rb"(?:[A-Za-z][A-Za-z0-9+.-]*+://([^/?#]*+))?/|\*\Z")
_END = b"\r\n\r\n"
# The end of the chunk before, or of the head, and the line that a chunk begins with. Spec: section 7.1.
_CHUNK = re.compile(rb"\r\n[0-9A-Fa-f]{1,16}+(?:[\t ]*+;[\t\x20-\x7e\x80-\xff]*+)?\r\n")
_MOST_CHUNK_LINE = 64
# Fields of answers that have one of a few values, as they are spelt here and by Sanic: made once each.
_ALIKE = frozenset(
    {
        "Access-Control-Allow-Origin",
        "Access-Control-Expose-Headers",
        "Cache-Control",
        "connection",
        "content-type",
    }
)
MOST_ABANDONED = 1_000  # requests that are answered though their senders have hung up
_LENGTH_DIGITS = 19  # no body is longer, and more than 4,300 digits Python does not convert
_WITHOUT_BODY = frozenset({204, 304})
_NOT_IN_FIELDS = str.maketrans("", "", "\r\n\x00")


class Framing(NamedTuple):
    """Where the body of a request ends.

    Attributes:
        length: of the body in bytes; None without one, and for one that comes in chunks.
        is_awaited: the sender waits to be told to go on, before it sends the body.
    """

    length: int | None = None
    is_chunked: bool = False
    is_awaited: bool = False


@dataclass
class Head:
    """The head of a request: what it says is the same wherever it stands, and is read once.

    Attributes:
        names: of all fields, as often as they are there.
    """

    text: bytes
    method: str
    target: bytes
    is_newest: bool
    names: list[str]
    fields: Header

    @cached_property
    def is_persistent(self) -> bool:
        """Whether another request may follow. Spec: RFC 9112 section 9.3."""
        wishes = self.fields.getall("connection", None)
        return self.is_newest if wishes is None else all(each.lower() == "keep-alive" for each in wishes)

    @cached_property
    def framing(self) -> Framing:
        """Where the body ends. Spec: RFC 9112 sections 3.2 and 6.

        Raises: BadRequest where two readers could take it for two things, ExpectationFailed.
        """
        names, fields = self.names, self.fields
        lengths, encodings = names.count("content-length"), names.count("transfer-encoding")
        if lengths + encodings > 1 or names.count("host") > 1:
            raise BadRequest("Bad Request")
        if lengths + encodings == 0:
            return Framing()
        expected = fields.getone("expect", None)
        if expected is not None and expected.lower() != "100-continue":
            raise ExpectationFailed(f"Unknown Expect: {expected}")
        if encodings:
            if fields["transfer-encoding"] != "chunked" or not self.is_newest:
                raise BadRequest("Bad transfer-encoding")
            return Framing(is_chunked=True, is_awaited=expected is not None)
        length = fields["content-length"]
        if not (length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS):
            raise BadRequest("Bad content-length")
        return Framing(int(length), is_awaited=expected is not None)


class Http1(Http):
    """The requests of a connection, one after the other."""

    __slots__ = ("_latest",)

    request_body: Any  # Sanic's note of what has not been read: None, "chunked", or True for a length
    response_func: Any
    request_bytes_left: Any
    protocol: Any

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)  # type: ignore[no-untyped-call]
        self._latest: Head | None = None

    async def http1_request_header(self) -> None:
        """Read the head of a request. Raises BadRequest, PayloadTooLarge, ExpectationFailed."""
        buffer = self.recv_buffer
        end = await self._end_of_head()
        text, head = bytes(buffer[:end]), self._latest
        if head is None or head.text != text:  # clients send the same one over and over again
            head = self._latest = _read_head(text)
        self.keep_alive = head.is_persistent and self.protocol.app.config["KEEP_ALIVE"]
        self.head_only = head.method.upper() == "HEAD"
        request = self.protocol.request_class(
            url_bytes=head.target,
            headers=head.fields,  # it takes a copy
            head=text,
            version="1.1" if head.is_newest else "1.0",
            method=head.method,
            transport=self.protocol.transport,
            app=self.protocol.app,
        )
        self.url = request.raw_url.decode("ascii")  # not before it is known to be one
        self.request_bytes_left = self.request_bytes = 0
        length, is_chunked, self.expecting_continue = head.framing
        if is_chunked:
            self.request_body = "chunked"
        elif length is not None:
            self.request_body = True
            self.request_bytes_left = self.request_bytes = length
        # One CRLF stays in front of chunks: each begins with it.
        del buffer[: end + (2 if is_chunked else 4)]
        self.request, request.stream = request, self

    async def _end_of_head(self) -> int:
        """How long the head is, once all of it has come. Raises PayloadTooLarge."""
        buffer, looked_at = self.recv_buffer, 0
        while True:
            end = buffer.find(_END, looked_at)
            looked_at = end if end >= 0 else max(0, len(buffer) - 3)
            if looked_at >= self.HEADER_MAX_SIZE:
                raise PayloadTooLarge("Request header exceeds the size limit")
            if end >= 0:
                return int(end)
            await self._receive_more()

    def is_being_answered(self) -> bool:
        """Whether a request is being answered that has come as a whole, and is no stream."""
        if self.stage is not Stage.HANDLER or self.request_body:
            return False
        route = self.request.route
        return route is not None and not hasattr(route.handler, "is_stream")

    def take_body(self) -> bytes | None:
        """All of the body, if that has come already; else None, and it has to be read part by part."""
        size, buffer = self.request_bytes_left, self.recv_buffer
        if self.request_body is not True or self.expecting_continue:
            return None
        if size > len(buffer) or size > self.request_max_size:
            return None
        body = bytes(buffer[:size])
        del buffer[:size]
        self.request_bytes_left, self.request_body = 0, None
        return body

    async def read(self) -> bytes | None:
        """More of the body. Raises BadRequest for chunks that can be read in two ways, PayloadTooLarge."""
        if self.expecting_continue:
            self.expecting_continue = False
            await self._send(HTTP_CONTINUE)
        if self.request_body == "chunked" and self.request_bytes_left == 0:
            await self._check_chunk_line()
        return await super().read()

    async def _check_chunk_line(self) -> None:
        buffer = self.recv_buffer
        while (end := buffer.find(b"\r\n", 2)) < 0 and len(buffer) <= _MOST_CHUNK_LINE:
            await self._receive_more()
        if end < 0 or _CHUNK.match(buffer, 0, end + 2) is None:
            self.keep_alive, self.request_body = False, None  # where the body ends is not known
            raise BadRequest("Bad chunked encoding")

    async def http1_response_header(self, data: bytes, end_stream: bool) -> None:
        """Send the head of an answer; with the body, when all of it is there, as it nearly always is."""
        response: Any = self.response
        is_whole = end_stream and not data and response.body is not None
        if not is_whole or response.status in _WITHOUT_BODY:
            await super().http1_response_header(data, end_stream)
            return
        body, headers = response.body, response.headers
        if response.content_type is not None:
            headers.setdefault("content-type", response.content_type)
        if not (self.head_only and "content-length" in headers):
            headers["content-length"] = len(body)
        headers["connection"] = "keep-alive" if self.keep_alive else "close"
        lines = [field_line(name, value) for name, value in headers.items()]
        may_send = self.expecting_continue and response.status != HTTPStatus.EXPECTATION_FAILED
        begun = HTTP_CONTINUE if may_send else b""
        self.expecting_continue, self.response_func, self.response_size = False, None, len(body)
        sent = b"" if self.head_only else body
        await self._send(b"".join((begun, _status_line(response.status), *lines, b"\r\n", sent)))
        self.stage = Stage.IDLE


def _read_head(text: bytes) -> Head:
    """Raises BadRequest."""
    found = _HEAD.fullmatch(text)
    if found is None:
        raise BadRequest("Bad Request")
    method, target, minor, lines = found.groups()
    fields = [_field(line) for line in lines.decode(errors="surrogateescape").split("\r\n")[1:]]
    headers, is_newest = Header(fields), minor == b"1"
    _check_target(target, headers, is_newest=is_newest)
    return Head(text, method.decode("ascii"), target, is_newest, [name for name, _ in fields], headers)


def _check_target(target: bytes, headers: Header, *, is_newest: bool) -> None:
    """Check that a target has a path, and one host: zones go by `Host`, and caches in front by the target's.

    Raises: BadRequest. Spec: RFC 9112 sections 3.2 and 3.2.2.
    """
    found, host = _TARGET_BEGINS.match(target), headers.getone("host", None)
    if found is None or (host is None and is_newest):
        raise BadRequest("Bad Request")
    if found[1] is not None and found[1].decode("ascii").lower() != (host or "").lower():
        raise BadRequest("Bad Request")


def _field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip(" \t")


@lru_cache(maxsize=128)
def _status_line(status: int) -> bytes:
    return format_http1_response(status, ()).removesuffix(b"\r\n")


def field_line(name: str, value: Any) -> bytes:
    """A header field of an answer on the wire, without what would begin another one."""
    return _shared_line(name, value) if name in _ALIKE else _line(name, value)


def _line(name: str, value: Any) -> bytes:
    text = f"{name}: {value}"
    if not text.isprintable():
        text = text.translate(_NOT_IN_FIELDS)
    return text.encode(errors="surrogateescape") + b"\r\n"


_shared_line = lru_cache(maxsize=256)(_line)


class PromptProtocol(HttpProtocol):
    """HTTP connections on which the head of a request has to arrive in time from its first byte.

    Attributes:
        abandoned: the requests of this process that are being answered though their connections have gone.
    """

    HTTP_CLASS = Http1

    abandoned: ClassVar[set[Task[None]]] = set()

    transport: Any
    _task: Task[None] | None

    __slots__ = ("_arrival", "_most_buffered")

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._arrival: Future[None] | None = None
        self._most_buffered: int = self.app.config.REQUEST_BUFFER_SIZE

    def data_received(self, data: bytes) -> None:
        """Take what has come; in the midst of a head it changes nothing about when that has begun."""
        http = self.http
        if http is None or http.stage is not Stage.REQUEST:
            self._time = monotonic()
        buffer = self.recv_buffer
        buffer += data
        if len(buffer) >= self._most_buffered:
            self.transport.pause_reading()
        arrival = self._arrival
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    async def receive_more(self) -> None:
        """Wait until more has come."""
        self.transport.resume_reading()
        self._arrival = self.loop.create_future()
        await self._arrival

    async def send(self, data: bytes) -> None:
        """Send, once what was sent before has nearly gone. Raises RequestCancelled when nobody is there."""
        if not self._can_write.is_set():
            await self._can_write.wait()
        if self.transport is None or self.transport.is_closing():
            raise RequestCancelled
        self.transport.write(data)
        self._time = monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop what the connection was for; but a request that has come as a whole is answered to its end.

        Else its sender chooses what of it happens: that a provider has issued tokens and nobody keeps them,
        or that something is changed and not recorded. And each statement that is broken off takes along a
        connection to the database. Only streams, which may take minutes, end with their connections; and
        what is beyond a number that nobody reaches who waits for answers.
        """
        task, http = self._task, self.http
        is_kept = http is not None and http.is_being_answered() and len(self.abandoned) < MOST_ABANDONED
        if task is not None and is_kept:
            self.abandoned.add(task)
            task.add_done_callback(self.abandoned.discard)
            limit = self.loop.call_later(self.response_timeout, task.cancel)
            task.add_done_callback(lambda _: limit.cancel())
            self._task = None
        super().connection_lost(exc)  # type: ignore[no-untyped-call]

    def finish(self) -> None:
        """Close with the answer that is under way, or once nothing comes that could be answered.

        To be called again and again until the connection is gone.
        """
        http = self.http
        if http is None or self.transport is None:
            return  # it is about to begin, or has ended
        silence = monotonic() - self._time
        if http.stage is Stage.IDLE:
            # A request may be on its way, which would be lost: its sender has not been told to go.
            is_over = silence > _IDLE_SECONDS and not self.recv_buffer
        else:
            http.keep_alive = False
            is_arriving = http.stage is Stage.REQUEST or (http.stage is Stage.HANDLER and http.request_body)
            is_over = is_arriving and silence > _SILENCE_SECONDS
        if is_over:
            self.close()

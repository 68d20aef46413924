"""What a connection takes for a request, and where that ends: nothing that could be read in two ways."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from sanic.response import HTTPResponse
from tests.support.server import Server, serve

from runtime.api.shared.connections import field_line

_TARGET = "/z/nowhere/oauth/token"
_LINES = ("Host: x", "Content-Type: application/x-www-form-urlencoded")
_FORM = "grant_type=x"
_LENGTH = f"Content-Length: {len(_FORM)}"
_LAST = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
_METHODS = {_TARGET: "POST", "/healthz": "GET"}
_CHUNKED = "3\r\na=b\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("heads")
    with serve(folder) as started:
        yield started


def heard(server: Server, *parts: str) -> bytes:
    """All that comes back for *parts*, each sent once the one before it was answered, until the end."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    told = b""
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        for part in parts:
            connection.sendall(part.encode("utf-8", "surrogateescape"))
            if part is not parts[-1]:
                told += connection.recv(65_536)
        while received := connection.recv(65_536):
            told += received
    return told


def statuses(told: bytes) -> list[int]:
    """The status of each answer."""
    return [int(each[:3]) for each in told.split(b"HTTP/1.1 ")[1:]]


def head(*lines: str, first: str = f"POST {_TARGET} HTTP/1.1") -> str:
    return "\r\n".join((first, *lines)) + "\r\n\r\n"


def test_requests_that_come_together_are_answered_one_by_one(server: Server) -> None:
    """In their order, a form and chunks among them; with all of it in a packet, or each byte of it alone."""
    posted = head(*_LINES, _LENGTH) + _FORM
    chunked = head(*_LINES, "Transfer-Encoding: chunked") + _CHUNKED
    whole = posted + chunked + posted + _LAST

    assert statuses(heard(server, whole)) == [404, 404, 404, 200]

    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in whole.encode():
            connection.sendall(bytes([byte]))
        told = b""
        while received := connection.recv(65_536):
            told += received
    assert statuses(told) == [404, 404, 404, 200]


@pytest.mark.threat("31n")
@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: " + "9" * 20,),
        ("Content-Length: " + "0" * 5_000,),  # more digits than Python converts
        ("Content-Length : 12",),
        ("Content-Length\t: 12",),
        ("X: a\nContent-Length: 12",),
        ("X: a\rContent-Length: 12",),
        ("X: a\x00b", _LENGTH),
        ("X: a\x7fb", _LENGTH),
        ("X: a", " folded", _LENGTH),
        ("X: a", "\tContent-Length: 12"),
        (": nothing", _LENGTH),
        ("no colon", _LENGTH),
        ("X Y: a", _LENGTH),
        ("Content-L\u00e4ngth: 12", _LENGTH),
        ("Content-Length: \u0661\u0662",),
        ("Content-Length: \uff11\uff12",),
        ("Content-Length: 1_2",),
        ("Content-Length: 0x0c",),
        ("Content-Length: 12.0",),
        ("Content-Length:",),
        (_LENGTH, _LENGTH),
        (_LENGTH, "content-length: 0"),
        (_LENGTH, "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: identity", _LENGTH),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding: Chunked",),
        ("Transfer-Encoding: chunked;q=1",),
        ("Transfer-Encoding: \x0bchunked",),
        ("Host: y", _LENGTH),
    ],
)
def test_fields_are_read_in_one_way(server: Server, lines: tuple[str, ...]) -> None:
    """400 for what some readers skip, join or convert; what follows it is not taken for a request."""
    fine = head(*_LINES, "X: a \u00e4\tb", _LENGTH) + _FORM
    assert statuses(heard(server, fine + _LAST)) == [404, 200]

    assert statuses(heard(server, head(*_LINES, *lines) + _FORM + _LAST)) == [400]


@pytest.mark.threat("31n")
@pytest.mark.parametrize(
    "first",
    [
        f"POST  {_TARGET} HTTP/1.1",
        f"POST\t{_TARGET} HTTP/1.1",
        f" POST {_TARGET} HTTP/1.1",
        f"POST {_TARGET} HTTP/1.1 ",
        f"POST {_TARGET}  HTTP/1.1",
        f"POST {_TARGET} x HTTP/1.1",
        f"POST {_TARGET}\u00e4 HTTP/1.1",
        f"POST {_TARGET}\x00 HTTP/1.1",
        f"P(ST {_TARGET} HTTP/1.1",
        f"POST {_TARGET} HTTP/1.2",
        f"POST {_TARGET} HTTP/2.0",
        f"POST {_TARGET} HTTP/1.10",
        f"POST {_TARGET} http/1.1",
        f"POST {_TARGET}",
        f"POST {_TARGET} HTTP/1.1\nX: a",
        "POST [ HTTP/1.1",
        "",
    ],
)
def test_a_request_line_is_read_in_one_way(server: Server, first: str) -> None:
    """400 for what is none, and the connection ends."""
    assert statuses(heard(server, head(*_LINES, _LENGTH) + _FORM + _LAST)) == [404, 200]

    assert statuses(heard(server, head(*_LINES, _LENGTH, first=first) + _FORM + _LAST)) == [400]


@pytest.mark.threat("31n")
@pytest.mark.parametrize(
    ("first", "lines"),
    [
        ("GET /healthz HTTP/1.1", ()),
        ("GET /healthz HTTP/1.1", ("Hosts: x",)),
        ("GET http://x/healthz HTTP/1.1", ()),
        ("GET http://x/healthz HTTP/1.1", ("Host: y",)),
        ("GET http://x:80/healthz HTTP/1.1", ("Host: x",)),
        ("GET http://u@x/healthz HTTP/1.1", ("Host: x",)),
        ("GET HTTPS://y?/healthz HTTP/1.1", ("Host: x",)),
        ("GET http://x HTTP/1.1", ("Host: x",)),
        ("GET http://x?a=b HTTP/1.1", ("Host: x",)),
        ("GET healthz HTTP/1.1", ("Host: x",)),
        ("GET *healthz HTTP/1.1", ("Host: x",)),
        ("CONNECT x:443 HTTP/1.1", ("Host: x:443",)),
        ("GET http://x/healthz HTTP/1.0", ()),
    ],
)
def test_a_request_is_for_one_host(server: Server, first: str, lines: tuple[str, ...]) -> None:
    """400 for one that names none, or two; and for one without a path."""
    fine = ("GET /healthz HTTP/1.1", "GET http://X/healthz HTTP/1.1")
    both = "".join(head("Host: x", first=each) for each in fine)
    assert statuses(heard(server, both + _LAST)) == [200, 200, 200]
    assert statuses(heard(server, head(first="GET /healthz HTTP/1.0"))) == [200]

    assert statuses(heard(server, head(*lines, first=first) + _LAST)) == [400]


@pytest.mark.threat("31n")
def test_chunks_need_the_version_that_has_them(server: Server) -> None:
    """An intermediary that speaks HTTP/1.0 does not know where they end. Spec: RFC 9112 section 6.1."""
    old, chunks = f"POST {_TARGET} HTTP/1.0", "Transfer-Encoding: chunked"
    assert statuses(heard(server, head(*_LINES, _LENGTH, first=old) + _FORM)) == [404]
    assert statuses(heard(server, head(*_LINES, chunks) + _CHUNKED + _LAST)) == [404, 200]

    assert statuses(heard(server, head(*_LINES, chunks, first=old) + _CHUNKED)) == [400]


@pytest.mark.threat("31n")
@pytest.mark.parametrize(
    "chunks",
    [
        "3\r\na=bXX0\r\n\r\n",
        "3\r\na=b\n\n0\r\n\r\n",
        "0x3\r\na=b\r\n0\r\n\r\n",
        " 3\r\na=b\r\n0\r\n\r\n",
        "3 \r\na=b\r\n0\r\n\r\n",
        "+3\r\na=b\r\n0\r\n\r\n",
        "\u0663\r\na=b\r\n0\r\n\r\n",
        "\x0b3\r\na=b\r\n0\r\n\r\n",
        "\r\na=b\r\n0\r\n\r\n",
        "3;x\ny\r\na=b\r\n0\r\n\r\n",
        "3;x\ry\r\na=b\r\n0\r\n\r\n",
        "3;x\x00y\r\na=b\r\n0\r\n\r\n",
        "3\na=b\r\n0\r\n\r\n",
        "3\r\na=b\r\n0\r\nX: y\r\n\r\n",
        "3\r\na=b\r\n-0\r\n\r\n",
        f"{'0' * 16}3\r\na=b\r\n0\r\n\r\n",
        f"3;{'x' * 100}",
    ],
)
@pytest.mark.parametrize("target", [_TARGET, "/healthz"])
def test_chunks_are_read_in_one_way(server: Server, target: str, chunks: str) -> None:
    """What follows a chunk that some readers end elsewhere is not taken for a request, whoever reads it."""
    begun = head(*_LINES, "Transfer-Encoding: chunked", first=f"{_METHODS[target]} {target} HTTP/1.1")
    fine = '2;x="y"\r\na=\r\n01 ;z\r\nb\r\n000\r\n\r\n'
    status = {_TARGET: 404, "/healthz": 200}[target]
    assert statuses(heard(server, begun + fine + _LAST)) == [status, 200]

    assert statuses(heard(server, begun + chunks + _LAST)) == [400 if target == _TARGET else status]


def test_who_asks_first_is_told_to_send_the_body(server: Server) -> None:
    """With `Expect: 100-continue`; another expectation is refused, and its body never read."""
    waiting = head(*_LINES, _LENGTH, "Expect: 100-Continue")

    assert statuses(heard(server, waiting, _FORM + _LAST)) == [100, 404, 200]
    assert statuses(heard(server, waiting + _FORM + _LAST)) == [100, 404, 200]
    assert statuses(heard(server, head(*_LINES, _LENGTH, "Expect: more") + _FORM + _LAST)) == [417]


def test_a_head_is_asked_for_alone(server: Server) -> None:
    """HEAD has the length of the body that GET has, and no body: what follows is the next answer."""
    target = "/.well-known/oauth-protected-resource"
    asked = [head("Host: x", first=f"{method} {target} HTTP/1.1") + _LAST for method in ("GET", "HEAD")]

    with_body, without = (heard(server, each) for each in asked)

    lengths = [each.lower().split(b"content-length: ")[1].split(b"\r\n")[0] for each in (with_body, without)]
    assert statuses(with_body) == statuses(without) == [200, 200]
    assert lengths[0] == lengths[1] != b"0"
    assert len(with_body) == len(without) + int(lengths[0])


def test_a_connection_stays_what_it_is(server: Server) -> None:
    """Nothing here is a WebSocket: who asks for one is answered in HTTP, within the limits of time."""
    upgrade = ("Host: x", "Connection: keep-alive", "Upgrade: websocket", "Sec-WebSocket-Version: 13")

    assert statuses(heard(server, head(*upgrade, first="GET /healthz HTTP/1.1") + _LAST)) == [200, 200]


@pytest.mark.parametrize(
    ("first", "wished", "stays"),
    [
        ("GET /healthz HTTP/1.1", (), True),
        ("GET /healthz HTTP/1.1", ("Connection: Close",), False),
        ("GET /healthz HTTP/1.0", (), False),
        ("GET /healthz HTTP/1.0", ("Connection: Keep-Alive",), True),
    ],
)
def test_a_connection_ends_when_its_sender_says_so(
    server: Server, first: str, wished: tuple[str, ...], stays: bool
) -> None:
    """Or when its version has one request on each; the answer tells. Spec: RFC 9112 section 9.3."""
    told = heard(server, head("Host: x", *wished, first=first) + _LAST)

    assert statuses(told) == [200, 200] if stays else [200]
    assert (b"connection: keep-alive" in told) is stays


def test_a_head_that_is_too_long_is_refused(server: Server) -> None:
    """413 from the limit on, whether its end has come or not; just below it is read."""
    fine = head("Host: x", f"X: {'a' * 16_000}", first="GET /healthz HTTP/1.1")
    assert statuses(heard(server, fine + _LAST)) == [200, 200]
    begun = f"GET /healthz HTTP/1.1\r\nHost: x\r\nX: {'a' * 16_400}"

    assert statuses(heard(server, begun)) == [413]
    assert statuses(heard(server, begun + "\r\n\r\n" + _LAST)) == [413]


def test_field_lines_are_those_that_sanic_writes() -> None:
    """Of each field, the first time and then."""
    fields = {"Cache-Control": "no-store", "X-Request-ID": "abc", "Age": 5, "X": "\u00e4\t\udce4"}
    expected = [b"%b: %b\r\n" % line for line in HTTPResponse(headers=fields).processed_headers]

    assert [[field_line(*each) for each in fields.items()] for _ in range(2)] == [expected[:4]] * 2


@pytest.mark.parametrize("name", ["Cache-Control", "X-Request-ID"])
@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b=c", "a\nSet-Cookie: b=c", "a\x00", "a\r"])
def test_a_value_begins_no_line_of_its_own(name: str, value: str) -> None:
    """Neither of a field that is made once nor of another."""
    assert field_line(name, "a: b") == f"{name}: a: b\r\n".encode()

    line = field_line(name, value)

    assert line.endswith(b"\r\n")
    assert not set(line[:-2]) & set(b"\r\n\x00")

"""Header lines of JSON answers: encoded once where many answers share them, and never more than one line."""

import pytest
from sanic.response import HTTPResponse

from runtime.api.shared.json_answers import JsonAnswer

HEADERS = {"Cache-Control": "no-store", "Access-Control-Allow-Origin": "*", "X-Request-ID": "abc", "Age": "5"}


def test_the_lines_are_those_that_sanic_writes() -> None:
    """In its order, at the first answer and at those that follow."""
    expected = list(HTTPResponse(b"{}", headers=HEADERS, content_type="application/json").processed_headers)

    assert [list(JsonAnswer({}, headers=HEADERS).processed_headers) for _ in range(2)] == [expected] * 2
    assert (b"content-type", b"application/json") in expected


@pytest.mark.parametrize("name", ["Cache-Control", "X-Request-ID"])
def test_a_value_begins_no_line_of_its_own(name: str) -> None:
    """Neither in a header that is encoded once nor in another."""
    answer = JsonAnswer({}, headers={name: "a\r\nSet-Cookie: b=c"})

    (line,) = [value for each, value in answer.processed_headers if each.decode() == name]

    assert line.startswith(b"a")
    assert not {b"\r", b"\n"} & {line[at : at + 1] for at in range(len(line))}

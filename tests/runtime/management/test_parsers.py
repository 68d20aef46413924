"""Bodies that two parsers read differently, and bodies made to exhaust one."""

import json

import pytest
from tests.runtime.management.conftest import Api, Zone
from tests.support.waiting import working_at_most

from runtime.api.shared.json_bodies import MAX_DEPTH, read_json
from runtime.domain.errors import BadRequest, TooLarge

REFUSED = {
    "duplicate members": b'{"name": "a", "name": "b"}',
    "duplicate members below": b'{"name": "a", "protocols": {"oauth2": {"cimd": {}, "cimd": {}}}}',
    "duplicates by escape": b'{"name": "a", "n\\u0061me": "b"}',
    "NaN": b'{"name": NaN}',
    "Infinity": b'{"name": -Infinity}',
    "too large a number": b'{"name": 1e999}',
    "a huge integer": b'{"name": ' + b"9" * 10_000 + b"}",
    "depth": b'{"name": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "open depth": b"[" * 100_000,
    "objects in depth": b'{"a":' * 10_000,
    "invalid UTF-8": b'{"name": "\xff"}',
    "overlong UTF-8": b'{"name": "\xc0\xaf"}',
    "UTF-16": json.dumps({"name": "a"}).encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"name": "a"}',
    "NUL": b'{"name": "a\\u0000b"}',
    "a comment": b'{"name": "a" /* b */}',
    "a trailing comma": b'{"name": "a",}',
    "two values": b'{"name": "a"}{"name": "b"}',
    "single quotes": b"{'name': 'a'}",
    "a raw control character": b'{"name": "a\x01b"}',
    "a form": b"name=a",
    "nothing": b"",
}


@pytest.mark.threat("31f", "31g", "31h", "31i", "31o")
@pytest.mark.parametrize("what", REFUSED)
def test_is_refused(api: Api, what: str) -> None:
    """400, and no zone is made of it."""
    told = api.refused(
        400, "POST", "/zones", content=REFUSED[what], headers={"Content-Type": "application/json"}
    )
    assert told["code"] in ("bad_request", "validation_error")


@pytest.mark.threat("31o")
@pytest.mark.parametrize("text", [b'{"name": "\\ud800"}', b'{"\\udfff": 1}'])
def test_lone_surrogates_are_refused(api: Api, text: bytes) -> None:
    """Half of a character is no text; both halves are one."""
    sent = {"Content-Type": "application/json"}
    api.refused(400, "POST", "/zones", content=text, headers=sent)
    api.ok("POST", "/zones", content=b'{"name": "\\ud83d\\ude00"}', headers=sent)


@pytest.mark.threat("31v")
@pytest.mark.parametrize(
    "content_type", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"]
)
def test_other_content_types_are_refused(api: Api, content_type: str) -> None:
    """JSON sent as something else is not read."""
    body = b'{"name": "a"}'
    api.refused(400, "POST", "/zones", content=body, headers={"Content-Type": content_type})
    api.ok("POST", "/zones", content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/merge-patch+json"])
def test_json_by_its_other_names_is_read(api: Api, zone: Zone, content_type: str) -> None:
    """Parameters and structured suffixes change nothing."""
    made = zone.make("applications")
    path = zone.path(f"/applications/{made['id']}")
    answer = api("PATCH", path, content=b'{"name": "n"}', headers={"Content-Type": content_type})
    assert answer.status_code == 200


@pytest.mark.threat("31r")
def test_bodies_above_a_mebibyte_are_413(api: Api) -> None:
    """The cap is the operation's, well below the server's."""
    body = b'{"name": "' + b"a" * (1024 * 1024) + b'"}'
    told = api.refused(413, "POST", "/zones", content=body, headers={"Content-Type": "application/json"})
    assert told["code"] == "bad_request"


@pytest.mark.threat("31u")
@pytest.mark.parametrize(("count", "named"), [(100, 100), (101, 0), (20_000, 0)])
def test_mistakes_are_named_up_to_a_hundred(api: Api, count: int, named: int) -> None:
    """Each costs time to put into words: where there are more, the answer is how many."""
    members = {f"m{number}": 1 for number in range(count)}
    told = api.refused(400, "POST", "/zones", {"name": "a"} | members)
    assert len(told.get("details", ())) == named
    assert named or told["message"].startswith(f"the body has {count} problems")


@pytest.mark.threat("31u")
def test_no_name_is_proposed_for_one_that_is_long(api: Api) -> None:
    """To compare hundreds of kilobytes with every member would cost more than the answer is worth."""
    long = api.refused(400, "POST", "/zones", {"name": "a", "n" * 900_000: 1})
    assert "did you mean" not in long["message"]


@pytest.mark.threat("31i")
def test_depth_within_bounds_is_read() -> None:
    """Brackets inside strings do not count."""
    text = b"[" * MAX_DEPTH + b'"' + b"[" * 200 + b'\\"{"' + b"]" * MAX_DEPTH
    assert read_json(text, "application/json")
    with pytest.raises(BadRequest):
        read_json(b"[" + text + b"]", "application/json")


@pytest.mark.threat("31u")
@pytest.mark.parametrize("end", [b"", b"\\"])
@pytest.mark.parametrize("brackets", [0, MAX_DEPTH + 1])
def test_strings_without_an_end_are_refused_at_once(end: bytes, brackets: int) -> None:
    """Each quote in one could be where it begins; trying them all would take a worker away for hours.

    With so many brackets the strings are looked for, to leave out the brackets in them.
    """
    inside = b'{"a": "' + b"[" * brackets + b'\\"' * 400_000
    closed = inside + b'"}'
    assert read_json(closed, None)
    with pytest.raises(BadRequest):
        working_at_most(10, lambda: read_json(inside + end, None), as_much_as=lambda: read_json(closed, None))


@pytest.mark.threat("31r")
def test_limits_are_exact() -> None:
    """A body of exactly the limit is read."""
    assert read_json(b'"aa"', None, limit=4) == "aa"
    with pytest.raises(TooLarge):
        read_json(b'"aaa"', None, limit=4)


@pytest.mark.threat("31v")
@pytest.mark.parametrize(
    ("member", "good", "value"),
    [
        *(("prefix", True, wrong) for wrong in (1, 1.0, [], {}, "true")),
        *(("credential_lifetime_seconds", 60, wrong) for wrong in (True, 1.5, [], {}, "60")),
    ],
)
def test_nothing_is_converted(api: Api, zone: Zone, member: str, good: object, value: object) -> None:
    """A member takes values of its own JSON type only."""
    body = {"identifier": f"https://{api.named()}.example", "name": "x"}
    told = api.refused(400, "POST", zone.path("/resources"), {**body, member: value})
    assert told["details"][0]["field"] == member
    api.ok("POST", zone.path("/resources"), {**body, member: good})


def test_an_integer_is_one_however_it_is_written() -> None:
    """JSON Schema, section 4.2.3: a number without a fraction is an integer."""
    assert [repr(read_json(text, None)) for text in (b"3600.0", b"36e2", b"-0.0")] == ["3600", "3600", "0"]
    assert [repr(read_json(text, None)) for text in (b"0.5", b"1e300")] == ["0.5", "1e+300"]


@pytest.mark.threat("31w")
@pytest.mark.parametrize("path", ["%00", "%ff", "%2e%2e", "a" * 300, "..;", "%E2%80%AE", "'--", "%252e"])
def test_strange_ids_are_404(api: Api, zone: Zone, path: str) -> None:
    """Whatever stands in the place of an id, the answer is that there is no such thing."""
    assert api("GET", zone.path(f"/applications/{path}/dependencies")).status_code == 404
    assert api("DELETE", zone.path(f"/providers/{path}")).status_code in (404, 405)


@pytest.mark.threat("31x")
@pytest.mark.parametrize("length", [256, 10_000])
def test_long_names_are_refused(api: Api, zone: Zone, length: int) -> None:
    """Every string has a limit that is told."""
    told = api.refused(400, "POST", zone.path("/groups"), {"name": "a" * length})
    assert told["details"][0]["field"] == "name"


@pytest.mark.threat("31x")
@pytest.mark.parametrize("name", ["<script>", "a\nb", "a\tb", "\x7f", ""])
def test_names_are_plain(api: Api, zone: Zone, name: str) -> None:
    """No tags, no control characters."""
    api.refused(400, "POST", zone.path("/groups"), {"name": name})

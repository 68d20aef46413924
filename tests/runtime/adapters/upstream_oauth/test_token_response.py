"""Token responses: what is read from answers on and off the standard, and that nothing else comes out."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.waiting import working_at_most

from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.outbound import HttpAnswer
from runtime.adapters.upstream_oauth.token_response import (
    MAX_DEPTH,
    MAX_LIFETIME_SECONDS,
    MAX_RESPONSE_BYTES,
    RefusalKind,
    UpstreamRefusal,
    UpstreamTokens,
    read_token_response,
)

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
REQUESTED = frozenset({"a", "b"})
SECRETS = {"client_secret": "sECRET-1", "refresh_token": "sECRET-2", "code": "sECRET-3"}


def read(body, *, status=200, headers=None, refresh_token=None, scopes=REQUESTED, **changes):
    settings = ProviderSettings(**{"issuer": "https://p.example", "client_id": "zone", **changes})
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = HttpAnswer(status, {"content-type": "application/json", **(headers or {})}, sent)
    return read_token_response(settings, answer, scopes=scopes, refresh_token=refresh_token, now=NOW)


def test_an_answer_of_the_standard_is_read():
    """RFC 6749 section 5.1; members that are not known are ignored."""
    body = {
        "access_token": "at",
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": "rt",
        "scope": "a c",
        "id_token": "h.p.s",
        "team": {"id": 1},
    }
    assert read(body) == UpstreamTokens("at", 3600, "rt", True, None, frozenset({"a", "c"}), True, "h.p.s")


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (3600, 3600),
        ("28800", 28800),
        (3599.9, 3599),
        ("3600.5", 3600),
        (10**30, MAX_LIFETIME_SECONDS),
        (None, None),
        (0, None),
        (-1, None),
        ("", None),
        ("soon", None),
        ("٣", None),
        (True, None),
        ([3600], None),
    ],
)
def test_a_lifetime_is_a_number_or_a_text(expires_in, seconds):
    """What is missing, unreadable or not ahead is no lifetime."""
    assert read({"access_token": "at", "expires_in": expires_in}).expires_in_seconds == seconds


@pytest.mark.parametrize(("body", "seconds"), [({}, 1800), ({"expires_in": 60}, 60)])
def test_the_default_lifetime_is_for_answers_without_one(body, seconds):
    """`token_response_default_expires_in_seconds`."""
    tokens = read({"access_token": "at", **body}, token_response_default_expires_in_seconds=1800)
    assert tokens.expires_in_seconds == seconds


@pytest.mark.parametrize(
    ("scope", "changes", "scopes"),
    [
        ("a c", {}, {"a", "c"}),
        ("a,c", {}, {"a", "c"}),
        ("a, c", {}, {"a", "c"}),
        ("a;c", {"scope_separator": ";"}, {"a", "c"}),
        (["a", "c", 1, "not a scope"], {}, {"a", "c"}),
        ("", {}, set()),
        ([], {}, set()),
        ("a,b", {"scopes": frozenset({"a,b", "c"})}, {"a,b"}),
    ],
)
def test_named_scopes_are_text_or_a_list(scope, changes, scopes):
    """Commas separate them too, where no requested scope has one; an empty text names none."""
    tokens = read({"access_token": "at", "scope": scope}, **changes)
    assert (tokens.scopes, tokens.has_named_scopes) == (scopes, True)


@pytest.mark.parametrize("body", [{}, {"scope": None}, {"scope": 7}])
def test_without_scopes_those_requested_count(body):
    """RFC 6749 section 5.1."""
    tokens = read({"access_token": "at", **body})
    assert (tokens.scopes, tokens.has_named_scopes) == (REQUESTED, False)


@pytest.mark.parametrize(
    ("sent", "used", "kept", "is_new"),
    [
        ("rt2", "rt1", "rt2", True),
        (None, "rt1", "rt1", False),
        ("rt1", "rt1", "rt1", False),
        ("", "rt1", "rt1", False),
        (None, None, None, False),
        ("rt1", None, "rt1", True),
    ],
)
def test_a_refresh_token_that_is_not_replaced_is_kept(sent, used, kept, is_new):
    """RFC 6749 section 6: a new one replaces it; none leaves it as it is."""
    tokens = read({"access_token": "at", "refresh_token": sent}, refresh_token=used)
    assert (tokens.refresh_token, tokens.is_refresh_token_new) == (kept, is_new)


NESTED = {
    "access_token": "bot",
    "refresh_token": "bot-rt",
    "scope": "bot-scope",
    "expires_in": 1,
    "authed_user": {"access_token": "user", "token_type": "user", "scope": "a"},
}


@pytest.mark.parametrize("pointer", ["authed_user.access_token", "/authed_user/access_token"])
def test_a_nested_token_has_its_own_members(pointer):
    """What stands beside another token in the answer is not taken for this one's."""
    tokens = read(NESTED, token_response_access_token_pointer=pointer)
    assert tokens == UpstreamTokens("user", None, None, False, None, frozenset({"a"}), True)


def test_a_nested_token_alone_has_the_members_of_the_answer():
    """No other token is there that they could belong to."""
    body = {"expires_in": 60, "refresh_token": "rt", "data": {"token": "user"}}
    tokens = read(body, token_response_access_token_pointer="data.token")
    assert (tokens.access_token, tokens.expires_in_seconds, tokens.refresh_token) == ("user", 60, "rt")


@pytest.mark.threat("46k")
@pytest.mark.parametrize(
    ("right", "wrong", "body"),
    [
        ("access_token", "refresh_token", {"access_token": "at", "refresh_token": "rt"}),
        ("access_token", "/id_token", {"access_token": "at", "id_token": "h.p.s"}),
        ("user.token", "user.refresh_token", {"user": {"token": "at", "refresh_token": "rt"}}),
        ("/user/token", "/user/id_token", {"access_token": "bot", "user": {"token": "at", "id_token": "x"}}),
        ("accessToken", "refreshToken", {"accessToken": "at", "refreshToken": "rt"}),
        (
            "access_token",
            "copy.token",
            {"access_token": "at", "refresh_token": "rt", "copy": {"token": "rt"}},
        ),
        ("access_token", "token", {"access_token": "at", "id_token": "x", "token": "x"}),
    ],
)
@pytest.mark.parametrize("refresh_token", [None, "rt0"])
def test_another_token_is_not_taken_for_the_access_token(right, wrong, body, refresh_token):
    """Applications never get a refresh token or an ID token, wherever the settings point."""
    assert (
        read(body, refresh_token=refresh_token, token_response_access_token_pointer=right).access_token
        == "at"
    )

    refusal = read(body, refresh_token=refresh_token, token_response_access_token_pointer=wrong)

    assert (refusal.kind, refusal.code) == (RefusalKind.MISCONFIGURED, "invalid_response")


def test_a_code_is_not_answered_with_another_token():
    """Where the configured place is empty, the standard's is somebody else's."""
    body = {"access_token": "bot", "authed_user": {"id": "U1"}}
    refusal = read(body, token_response_access_token_pointer="authed_user.access_token")
    assert (refusal.kind, refusal.code) == (RefusalKind.MISCONFIGURED, "invalid_response")


def test_a_refresh_may_be_answered_flat():
    """Slack nests the token in the first answer only."""
    body = {
        "ok": True,
        "access_token": "user2",
        "refresh_token": "rt2",
        "token_type": "user",
        "expires_in": 43200,
    }
    tokens = read(body, refresh_token="rt1", token_response_access_token_pointer="authed_user.access_token")
    assert (tokens.access_token, tokens.refresh_token, tokens.expires_in_seconds) == ("user2", "rt2", 43200)


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded; charset=utf-8", "text/plain", ""])
def test_an_answer_may_be_a_form(media_type):
    """GitHub's answer to those who ask for nothing else."""
    body = b"access_token=gho_1&scope=repo%2Cgist&token_type=bearer"
    tokens = read(body, headers={"content-type": media_type})
    assert (tokens.access_token, tokens.scopes) == ("gho_1", {"repo", "gist"})


@pytest.mark.parametrize("token_type", ["bearer", "BEARER", "user", None, 7])
def test_the_token_type_is_a_label(token_type):
    """In any case; providers put their own words there."""
    assert read({"access_token": "at", "token_type": token_type}).access_token == "at"


@pytest.mark.parametrize("token_type", ["DPoP", "dpop", "mac", "PoP", "N_A"])
def test_a_token_that_is_no_bearer_token_is_refused(token_type):
    """RFC 6749 section 7.1: a client does not use a token of a type that it does not know."""
    assert read({"access_token": "at", "token_type": token_type}).code == "invalid_response"


TEMPORARY, DEAD, WRONG = RefusalKind.TEMPORARY, RefusalKind.DEAD_GRANT, RefusalKind.MISCONFIGURED


@pytest.mark.threat("20f")
@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (400, {"error": "invalid_grant"}, DEAD, "invalid_grant"),
        (403, {"error": "invalid_grant"}, DEAD, "invalid_grant"),
        (200, {"error": "invalid_grant", "access_token": "at"}, DEAD, "invalid_grant"),
        (400, {"error": "interaction_required"}, DEAD, "interaction_required"),
        (401, {"error": "invalid_client"}, WRONG, "invalid_client"),
        (401, {}, WRONG, "invalid_client"),
        (401, b"<html>", WRONG, "invalid_client"),
        (400, {"error": "invalid_scope"}, WRONG, "invalid_scope"),
        (400, {"error": "surprise"}, WRONG, "unknown_error"),
        (400, {"error": {"code": "invalid_grant"}}, WRONG, "unknown_error"),
        (200, {"ok": False, "error": "invalid_grant"}, DEAD, "invalid_grant"),
        (200, {"ok": False, "access_token": "at"}, WRONG, "unknown_error"),
        (200, b"error=invalid_grant", DEAD, "invalid_grant"),
        (400, {"error": "temporarily_unavailable"}, TEMPORARY, "temporarily_unavailable"),
        (429, {"error": "invalid_grant"}, TEMPORARY, "rate_limited"),
        (503, {"error": "invalid_grant"}, TEMPORARY, "unavailable"),
        (500, b"", TEMPORARY, "unavailable"),
        (302, b"", WRONG, "redirected"),
        (200, b"", WRONG, "invalid_response"),
        (200, b"<html>", WRONG, "invalid_response"),
        (200, {"token_type": "Bearer"}, WRONG, "invalid_response"),
        (200, {"access_token": 7}, WRONG, "invalid_response"),
        (200, {"access_token": "two\nlines"}, WRONG, "invalid_response"),
        (200, ["access_token"], WRONG, "invalid_response"),
        (200, b'{"access_token": "a", "access_token": "b"}', WRONG, "invalid_response"),
    ],
)
def test_a_refusal_says_what_it_asks_for(status, body, kind, code):
    """A dead grant, a configuration to mend, or a later try; with a code that is known beforehand."""
    assert read(body, status=status) == UpstreamRefusal(kind, code, status=status)


@pytest.mark.parametrize("status", [200, 400])
def test_a_provider_has_its_own_words_for_a_dead_grant(status):
    """`token_response_dead_grant_errors`, found where `token_response_error_pointer` points."""
    refusal = read(
        {"status": "BAD_REFRESH_TOKEN", "message": "no"},
        status=status,
        token_response_error_pointer="status",
        token_response_dead_grant_errors=frozenset({"BAD_REFRESH_TOKEN"}),
    )
    assert refusal == UpstreamRefusal(DEAD, "BAD_REFRESH_TOKEN", status=status)


def test_where_the_configured_place_has_no_error_the_standard_one_counts():
    """A provider need not be off the standard always."""
    refusal = read({"error": "invalid_grant"}, status=400, token_response_error_pointer="status")
    assert refusal.kind is DEAD


def test_a_word_of_success_in_the_configured_place_is_no_error():
    """Only a code that is known refuses an answer with status 200."""
    tokens = read({"access_token": "at", "status": "success"}, token_response_error_pointer="status")
    assert tokens.access_token == "at"


def test_scopes_may_have_another_name():
    """HubSpot says `scopes`; the standard's name comes first."""
    assert read({"access_token": "at", "scopes": ["a", "c"]}).scopes == {"a", "c"}
    assert read({"access_token": "at", "scope": "a", "scopes": ["c"]}).scopes == {"a"}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        ("Sun, 22 Nov 2026 12:02:00 GMT", 120),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0),
        ("999999999", 86_400),
        ("99999999999999999999", None),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_provider_says_when_to_ask_again(value, seconds):
    """`Retry-After`, in seconds or as a date, up to a day."""
    assert read(b"", status=429, headers={"retry-after": value}).retry_after_seconds == seconds


def test_an_answer_that_is_nested_too_deep_is_refused():
    """However it ends; brackets in strings do not count."""
    deep = b'{"access_token":"at","x":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}"
    assert read(deep).code == "invalid_response"
    assert read({"access_token": "at", "x": "[" * 1000 + '"' + "{" * 1000}).access_token == "at"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * MAX_RESPONSE_BYTES,
        b'"' + b'\\"' * (MAX_RESPONSE_BYTES // 2),
        b'"\\' * (MAX_RESPONSE_BYTES // 2),
        b'{"a":' * (MAX_RESPONSE_BYTES // 5),
        b"&=" * (MAX_RESPONSE_BYTES // 2),
        b"%" * MAX_RESPONSE_BYTES,
        b'{"access_token": ' + b"9" * (MAX_RESPONSE_BYTES - 20) + b"}",
        json.dumps({"access_token": "at", "scope": "," * (MAX_RESPONSE_BYTES - 50)}).encode(),
        json.dumps({"access_token": "at", "expires_in": "9" * (MAX_RESPONSE_BYTES - 60)}).encode(),
    ],
    ids=range(9),
)
def test_reading_the_largest_answer_takes_bounded_work(body):
    """Whatever it is made of: in the order of what an ordinary answer of that size takes."""
    ordinary = json.dumps({"access_token": "at", "scope": "a " * (MAX_RESPONSE_BYTES // 2 - 50)}).encode()
    working_at_most(20, lambda: read(body), as_much_as=lambda: read(ordinary))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["access_token", "authed_user", "error", "ok", "scope", "expires_in", "status", "a"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
bodies = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
    json_values.map(lambda value: json.dumps(value).encode()),
    json_values.map(lambda value: json.dumps(value).encode("utf-16")),
)


@given(
    body=bodies,
    status=st.integers(100, 599),
    headers=st.dictionaries(
        st.sampled_from(["content-type", "retry-after"]),
        st.sampled_from(["application/x-www-form-urlencoded", "1", "Sun, 99 Nov 2026 00:00:00 GMT"])
        | st.text(),
    ),
    pointer=st.sampled_from(["access_token", "authed_user.access_token", "/a/0", ".", "/", "a..b", "~"]),
    error_pointer=st.sampled_from(["error", "status", "error.code", "/", "."]),
    refresh_token=st.none() | st.just("rt"),
    separator=st.sampled_from([" ", ",", ";", ""]),
)
def test_every_answer_is_tokens_or_a_refusal(
    body, status, headers, pointer, error_pointer, refresh_token, separator
):
    """Nothing is raised, and tokens are usable ones: text that fits a header, a lifetime ahead or none."""
    result = read(
        body,
        status=status,
        headers=headers,
        refresh_token=refresh_token,
        token_response_access_token_pointer=pointer,
        token_response_error_pointer=error_pointer,
        scope_separator=separator,
    )
    if isinstance(result, UpstreamTokens):
        assert 200 <= status < 300
        assert result.access_token.isascii()
        assert result.access_token.isprintable()
        assert result.expires_in_seconds is None or 1 <= result.expires_in_seconds <= MAX_LIFETIME_SECONDS
        assert refresh_token is None or result.refresh_token is not None
    else:
        assert result.retry_after_seconds is None or result.kind is RefusalKind.TEMPORARY


@given(
    body=json_values,
    secret=st.sampled_from(sorted(SECRETS.values())),
    status=st.sampled_from([200, 400, 401]),
)
def test_no_result_shows_a_secret(body, secret, status):
    """A provider that repeats what it was sent, in whatever member, gets it into no representation."""
    echoing = {"error": secret, "error_description": secret, "access_token": secret, "x": body}
    assert not [
        answer
        for answer in (echoing, {**echoing, "error": ""}, {"error": {"code": secret}})
        if secret in repr(read(answer, status=status, client_secret=secret, refresh_token=secret))
    ]

"""Redirect URIs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.domain.oauth.redirect_uris import allows, form_origin, is_loopback, refusal

WEB = "https://app.example/callback"
LOOPBACK = "http://localhost:8600/callback"
REGISTERED = [WEB, LOOPBACK, "http://127.0.0.1/cb", "http://[::1]:9000/cb", "com.example.app:/done"]


@pytest.mark.parametrize("uri", REGISTERED)
def test_a_registered_uri_is_allowed(uri):
    """Exactly what was registered is allowed."""
    assert allows(REGISTERED, uri)


@pytest.mark.standard("RFC 8252")
@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:1/callback",
        "http://localhost/callback",
        "http://127.0.0.1:65535/cb",
        "http://[::1]/cb",
    ],
)
def test_loopback_takes_any_port(uri):
    """The port of a loopback address is the single variation. Spec: RFC 8252 section 7.3."""
    assert allows(REGISTERED, uri)


@pytest.mark.threat("5a", "5b", "5c", "5d", "5e", "5f", "5g", "5h", "5i", "5j", "5k", "5l", "5m")
@pytest.mark.parametrize(
    "uri",
    [
        "https://app.example./callback",
        "https://APP.example/callback",
        "https://app.example:443/callback",
        "https://app.example/callback/",
        "https://app.example/Callback",
        "https://app.example/callback/..;/evil",
        "https://app.example/callback/%2e%2e/evil",
        "https://app.example/callback/%252e%252e/evil",
        "https://app.example/callback/../evil",
        "https://app.example\\@evil.test/callback",
        "https://app.example/call\\back",
        "https://app.example@evil.test/callback",
        "https://good:pw@app.example/callback",
        "https://app.example.evil.test/callback",
        "https://app.example/callback?next=1",
        "https://app.example/callback?",
        "https://app.example/callback#",
        "https://app.example/callback#x",
        "https://app.example/callback?code=x&state=y",
        "https://app.example/callback\n",
        " https://app.example/callback",
        "https://app.example/call\tback",
        "https://аpp.example/callback",
        "https://xn--pp-6kc.example/callback",
        "http://app.example/callback",
        "HTTPS://app.example/callback",
        "https:/app.example/callback",
        "//app.example/callback",
        "http://localhost.evil.test:8600/callback",
        "http://localhost:8600.evil.test/callback",
        "http://localhost:8600@evil.test/callback",
        "http://localhost:99999/callback",
        "http://localhost:08600/callback",
        "http://localhost:8600/other",
        "http://localhost:8600/callback?x=1",
        "https://localhost:8600/callback",
        "http://127.0.0.1:8600/callback",
        "http://127.0.0.2/cb",
        "http://2130706433/cb",
        "http://0x7f000001/cb",
        "JavaScript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "data:text/html,x",
        "com.example.app:/done/other",
        "com.example.evil:/done",
        "",
    ],
)
def test_no_trick_passes(uri):
    """Nothing but the registered text is allowed, however similar some parser would find it."""
    assert not allows(REGISTERED, uri)


@pytest.mark.threat("5o")
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("javascript:alert(1)", "scheme"),
        ("DATA:text/html,x", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("https://a.example/cb#frag", "fragment"),
        ("https://user@a.example/cb", "userinfo"),
        ("com.example.app://user@host/cb", "userinfo"),
        ("http://a.example/cb", "insecure"),
        ("https://A.example/cb", "host"),
        ("https://a.example./cb", "host"),
        ("https:///cb", "host"),
        ("https://a%2eexample/cb", "host"),
        ("https://a.example:0/cb", "host"),
        ("https://a.example/x/..;/cb", "dot_segment"),
        ("https://a.example/x/%2E%2E/cb", "dot_segment"),
        ("https://a.example/cb?code=1", "response_parameter"),
        ("https://a.example/cb?x=1&STATE=1", "response_parameter"),
        ("https://a.example/cb?%63ode=1", "response_parameter"),
        ("https:a.example/cb", "malformed"),
        ("https://a.example/c b", "malformed"),
        ("relative/path", "malformed"),
        ("https://a.example/" + "x" * 2048, "malformed"),
    ],
)
def test_some_uris_cannot_be_registered(uri, why):
    """Each refusal has its reason, so that a registration can say what is wrong."""
    assert refusal(uri) == why


def test_a_private_scheme_needs_a_dot_when_clients_register_themselves():
    """An administrator may register any private scheme; a client on its own only its reversed domain."""
    assert refusal("cursor://done") is None
    assert refusal("cursor://done", dotted_scheme=True) == "private_scheme"
    assert refusal("com.example.app:/done", dotted_scheme=True) is None


def test_tells_loopback():
    """A consent page can say that the answer stays on the user's machine."""
    assert is_loopback(LOOPBACK)
    assert not is_loopback("http://localhost.evil.test/callback")


@pytest.mark.threat("5h", "5i")
@given(st.text(max_size=40))
def test_appending_never_helps(suffix):
    """No ending added to a registered URI is allowed, but the empty one."""
    assert allows([WEB], WEB + suffix) == (suffix == "")


@given(st.text())
def test_any_text_has_an_answer(text):
    """No input makes the check fail otherwise."""
    assert isinstance(allows(REGISTERED, text), bool)


@pytest.mark.threat("6q")
@pytest.mark.parametrize(
    ("uri", "origin"),
    [
        ("https://app.example/callback", "https://app.example"),
        ("https://app.example:8443/callback?x=1", "https://app.example:8443"),
        ("http://127.0.0.1:4711", "http://127.0.0.1:4711"),
        ("http://localhost/cb", "http://localhost"),
        ("com.example.app:/callback", None),
        ("http://[::1]:4711/cb", None),
        ("https://app.example;script-src/cb", None),
        ("https://*.example/cb", None),
        ("https://good@evil.example/cb", None),
        ("javascript:alert(1)", None),
    ],
)
def test_the_origin_that_a_form_goes_to(uri: str, origin: str | None) -> None:
    """As a content policy can name it; what could say more in a policy than one origin has none."""
    assert form_origin(uri) == origin

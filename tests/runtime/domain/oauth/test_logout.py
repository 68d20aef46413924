"""Where logout tokens may be posted to."""

import pytest

from runtime.domain.oauth.logout import address_refusal

WEB, LOCAL = "https://app.example/logout?tenant=7", "http://localhost:9000/logout"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("http://app.example/logout", "insecure"),
        ("com.example.app:/logout", "insecure"),
        ("https://app.example/logout#x", "fragment"),
        ("https://user@app.example/logout", "userinfo"),
        ("https://APP.example/logout", "host"),
        ("https://app.example/a/../logout", "dot_segment"),
        ("https:app.example", "malformed"),
        ("javascript:alert(1)", "scheme"),
        ("file:///etc/passwd", "scheme"),
    ],
)
def test_only_what_can_be_posted_to_safely(uri, reason):
    """An https address that all parsers read alike; the machine's own is for development."""
    assert address_refusal(WEB, on_loopback=False) is None
    assert address_refusal("https://app.example/logout?state=x", on_loopback=False) is None
    assert address_refusal(LOCAL, on_loopback=True) is None
    assert address_refusal(LOCAL, on_loopback=False) == "insecure"
    for on_loopback in (False, True):
        assert address_refusal(uri, on_loopback=on_loopback) == reason

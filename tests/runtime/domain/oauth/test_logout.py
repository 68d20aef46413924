"""Addresses to which back-channel logout tokens may be posted."""

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
@pytest.mark.parametrize("on_loopback", [False, True])
def test_what_parsers_read_differently_is_refused(uri, reason, on_loopback):
    """Wherever the service itself runs: only an https address that all parsers read alike is posted to."""
    assert address_refusal(uri, on_loopback=on_loopback) == reason


@pytest.mark.parametrize("uri", [WEB, "https://app.example/logout?state=x"])
def test_an_https_address_can_be_posted_to(uri):
    """With a query or without."""
    assert address_refusal(uri, on_loopback=False) is None


def test_the_machines_own_address_is_for_development():
    """Nobody but a service that runs on this machine posts to it without TLS."""
    assert address_refusal(LOCAL, on_loopback=True) is None
    assert address_refusal(LOCAL, on_loopback=False) == "insecure"

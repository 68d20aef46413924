"""Clients that a document describes: which addresses, which are let in, and what a document may say."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.domain.errors import InvalidClientMetadata, InvalidRedirectUri, OAuthError
from runtime.domain.oauth.client_documents import needs_new_consent, read
from runtime.domain.oauth.client_ids import allows, is_address, is_entry

ADDRESS = "https://agent.example/client.json"
DOCUMENT = {"client_id": ADDRESS, "client_name": "Agent", "redirect_uris": ["https://agent.example/cb"]}
KEY = {"kty": "RSA", "n": "x", "e": "AQAB"}


def without(name):
    return {member: value for member, value in DOCUMENT.items() if member != name}


@pytest.mark.threat("7o", "7p")
@pytest.mark.parametrize(
    "address",
    [
        "http://agent.example/client.json",
        "HTTPS://agent.example/client.json",
        "https://agent.example",
        "https://agent.example/",
        "https://Agent.example/client.json",
        "https://agent.example./client.json",
        "https://agent.example/client.json#x",
        "https://user@agent.example/client.json",
        "https://agent.example@evil.test/client.json",
        "https://agent.example/../client.json",
        "https://agent.example/a/%2e%2E/client.json",
        "https://agent.example/a/..;x/client.json",
        "https://agent.example/./client.json",
        "https://agent.example\\client.json",
        "https://[::ffff:127.0.0.1]/client.json",
        "https://agent.example:0/client.json",
        "https://agent.example:08/client.json",
        "https:///client.json",
        "https://agent.example/cl ient.json",
        "https://agent.example/client.json\n",
        "https://аgent.example/client.json",
        "https://agent.example/" + "x" * 2048,
        "file:///etc/passwd",
        "ua:0123",
        "",
    ],
)
def test_an_address_is_plain(address):
    """Whatever two parsers could take for two things is no address of a document."""
    assert is_address(ADDRESS)
    assert not is_address(address)


@pytest.mark.threat("8f", "8g", "8h", "8i")
@pytest.mark.parametrize(
    ("entry", "admitted", "refused"),
    [
        (ADDRESS, [ADDRESS], ["https://agent.example/client.jso", "https://agent.example/client.json?x"]),
        ("*", [ADDRESS, "https://x.y.example/c"], []),
        (
            "https://*.a.example",
            ["https://x.a.example/c", "https://x-y.a.example/d/e"],
            [
                "https://x.y.a.example/c",
                "https://a.example/c",
                "https://x.a.example.evil.test/c",
                "https://evil-a.example/c",
                "https://.a.example/c",
                "https://x.a.example:8443/c",
                "http://x.a.example/c",
                "https://x.a.example",
            ],
        ),
        ("https://*.a.example:8443", ["https://x.a.example:8443/c"], ["https://x.a.example/c"]),
        (
            "https://*.a.example/c",
            ["https://x.a.example/c"],
            ["https://x.a.example/d", "https://x.a.example/c/d", "https://x.y.a.example/c"],
        ),
    ],
)
def test_an_entry_admits_what_it_says(entry, admitted, refused):
    """One `*` is one label; everything else is compared as text."""
    assert is_entry(entry)
    assert all(allows([entry], client_id) for client_id in admitted)
    assert not any(allows([entry], client_id) for client_id in refused)


@pytest.mark.threat("8j")
@pytest.mark.parametrize(
    "entry",
    ["https://*.*.example", "https://a*.example", "https://*", "**", "http://*.a.example", "a.example", ""],
)
def test_other_entries_are_none(entry):
    """A list that would never admit anybody, or more than it says, is not written."""
    assert not is_entry(entry)
    assert not allows([entry], "https://x.a.example/c")


@pytest.mark.threat("8a", "8b", "8c", "8d", "8e")
@pytest.mark.parametrize(
    "document",
    [
        [DOCUMENT],
        without("client_id"),
        DOCUMENT | {"client_id": "https://Agent.example/client.json"},
        DOCUMENT | {"client_id": "https://agent.example:443/client.json"},
        DOCUMENT | {"client_id": ADDRESS + "/"},
        DOCUMENT | {"client_secret": "x"},
        DOCUMENT | {"client_secret_expires_at": 0},
        DOCUMENT | {"token_endpoint_auth_method": "client_secret_post"},
        DOCUMENT | {"token_endpoint_auth_method": "client_secret_jwt"},
        DOCUMENT | {"token_endpoint_auth_method": "private_key_jwt"},
        DOCUMENT | {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [KEY | {"d": "x"}]}},
        DOCUMENT | {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [{"kty": "oct"}]}},
        DOCUMENT
        | {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [KEY]}, "jwks_uri": ADDRESS},
        DOCUMENT | {"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": "http://agent.example/keys"},
        DOCUMENT
        | {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [KEY | {"kid": "\ud800"}]}},
    ],
)
def test_a_document_that_describes_another_client_is_none(document):
    """The address decides who it is, and nobody proves anything with a secret that everybody can read."""
    assert read(DOCUMENT, ADDRESS).client_name == "Agent"
    with pytest.raises(InvalidClientMetadata):
        read(document, ADDRESS)


def test_a_document_can_bring_keys():
    """With `private_key_jwt` the client proves itself by its own key, in the document or at an address."""
    confidential = DOCUMENT | {"token_endpoint_auth_method": "private_key_jwt"}

    assert read(confidential | {"jwks": {"keys": [KEY]}}, ADDRESS).jwks == {"keys": [KEY]}
    assert read(confidential | {"jwks_uri": f"{ADDRESS}/keys"}, ADDRESS).jwks_uri == f"{ADDRESS}/keys"
    assert read(DOCUMENT | {"jwks_uri": f"{ADDRESS}/keys"}, ADDRESS).jwks_uri is None


@pytest.mark.threat("9d")
@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({"redirect_uris": ["https://agent.example/cb", "https://evil.test/cb"]}, True),
        ({"client_name": "Bank"}, True),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks_uri": f"{ADDRESS}/keys"}, True),
        ({"tos_uri": "https://agent.example/tos"}, False),
        ({}, False),
    ],
)
def test_what_makes_it_another_client(change, is_another):
    """A new place to be answered at, another name, other keys; the rest users did not go by."""
    before = read(DOCUMENT, ADDRESS)

    assert needs_new_consent(before, read(DOCUMENT | change, ADDRESS)) is is_another


def test_fewer_redirect_uris_are_the_same_client():
    """Whoever gives something up is not asked about again."""
    two = read(DOCUMENT | {"redirect_uris": ["https://agent.example/cb", "https://agent.example/b"]}, ADDRESS)

    assert not needs_new_consent(two, read(DOCUMENT, ADDRESS))


def test_redirect_uris_follow_the_same_rules():
    """As in a registration."""
    with pytest.raises(InvalidRedirectUri):
        read(DOCUMENT | {"redirect_uris": ["javascript:alert(1)"]}, ADDRESS)
    with pytest.raises(OAuthError):
        read(without("redirect_uris"), ADDRESS)


_MEMBERS = st.sampled_from(
    ["client_name", "redirect_uris", "jwks", "jwks_uri", "contacts", "scope", "grant_types", "logo_uri", "x"]
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.threat("31t")
@given(st.dictionaries(_MEMBERS, _ANYTHING, max_size=4), st.sampled_from(["none", "private_key_jwt"]))
def test_whatever_a_document_says_has_an_answer(members, method):
    """A site that makes things up is refused in so many words, and what is kept can be written down."""
    document = DOCUMENT | members | {"token_endpoint_auth_method": method}
    with suppress(OAuthError):
        read(document, ADDRESS).model_dump_json().encode()

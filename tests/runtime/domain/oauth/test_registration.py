"""Client metadata of dynamic registration: what is taken, refused and derived."""

import pytest

from runtime.domain.errors import InvalidClientMetadata, InvalidRedirectUri, InvalidSoftwareStatement
from runtime.domain.kinds.values import ApplicationType
from runtime.domain.oauth.registration import display_name, dynamic_client_id, read

LOCAL = "http://localhost:8600/callback"
WEB = "https://agent.example/callback"
MINIMAL = {"redirect_uris": [LOCAL]}


@pytest.mark.standard("RFC 7591")
def test_is_met_half_way():
    """What such clients may not have is left out; they are public, whatever they ask for."""
    kept = read(
        {
            "redirect_uris": [WEB, LOCAL, WEB],
            "grant_types": ["refresh_token", "authorization_code", "client_credentials", "implicit"],
            "response_types": ["code", "token"],
            "token_endpoint_auth_method": "client_secret_basic",
            "scope": "read openid",
            "client_name": "Agent",
            "jwks": {"keys": []},
        }
    )

    assert kept.redirect_uris == [LOCAL, WEB]
    assert kept.grant_types == ["authorization_code", "refresh_token"]
    assert kept.response_types == ["code"]
    assert kept.token_endpoint_auth_method == "none"
    assert kept.scope == "openid read"
    assert kept.jwks is None


@pytest.mark.threat("24e", "24f", "24g")
def test_what_an_administrator_decides_is_not_kept():
    """Consent, owner, traits and trust are nobody's to claim, and change nothing about who it is."""
    claimed = MINIMAL | {
        "consent": "implicit",
        "owner_type": "platform",
        "traits": ["gateway"],
        "trusted": True,
        "id": "x",
    }

    assert read(claimed) == read(MINIMAL)
    assert dynamic_client_id(read(claimed)) == dynamic_client_id(read(MINIMAL))


def test_the_same_metadata_is_the_same_client():
    """Order means nothing; anything that is kept does."""
    one = read({"redirect_uris": [WEB, LOCAL], "grant_types": ["authorization_code", "refresh_token"]})
    other = read({"grant_types": ["refresh_token", "authorization_code"], "redirect_uris": [LOCAL, WEB]})

    assert dynamic_client_id(one) == dynamic_client_id(other)
    assert dynamic_client_id(one) != dynamic_client_id(read({"redirect_uris": [WEB]}))
    assert len(dynamic_client_id(one)) == len("ua:") + 64


def test_a_name_or_where_it_is_answered():
    """People see a name in any case."""
    assert display_name(read(MINIMAL | {"client_name": " Notes "})) == "Notes"
    assert display_name(read(MINIMAL)) == "localhost"
    assert display_name(read({"redirect_uris": ["com.example.app:/cb"]})) == "com.example.app"


@pytest.mark.standard("RFC 8252")
@pytest.mark.parametrize(
    ("uris", "named", "chosen"),
    [
        ([LOCAL], None, "native"),
        ([LOCAL, WEB], None, "native"),
        (["com.example.app:/cb"], None, "native"),
        ([WEB], None, "web"),
        ([WEB], "native", "native"),
        (["http://127.0.0.1/cb", "http://[::1]:1/cb"], "native", "native"),
    ],
)
def test_the_type_is_the_named_one_or_the_fitting_one(uris, named, chosen):
    """Native clients that leave the type out are native nevertheless."""
    document = {"redirect_uris": uris} | ({"application_type": named} if named else {})

    assert read(document).application_type is ApplicationType(chosen)


@pytest.mark.threat("5o")
@pytest.mark.parametrize(
    ("uri", "application_type"),
    [
        (LOCAL, "web"),
        ("com.example.app:/cb", "web"),
        ("https://localhost/cb", "web"),
        ("https://127.0.0.1:8443/cb", "web"),
        ("cursor://done", "native"),
        ("localhost:9999/cb", "native"),
        ("app.example:8080/cb", "native"),
        ("http://agent.example/cb", "native"),
        ("http://localhost.evil.test/cb", "native"),
        ("JavaScript:alert(1)", "native"),
        ("DATA:text/html,x", "native"),
        ("https://user@agent.example/cb", "native"),
        ("https://agent.example/cb#x", "web"),
        ("https://agent.example/a/../cb", "web"),
        ("https://agent.example/cb?code=1", "web"),
        ("https://agent.example./cb", "web"),
        ("relative", "native"),
    ],
)
def test_a_redirect_uri_must_fit(uri, application_type):
    """A web client is answered on a host of its own; a private scheme holds a dot."""
    with pytest.raises(InvalidRedirectUri):
        read({"redirect_uris": [uri], "application_type": application_type})
    with pytest.raises(InvalidRedirectUri):
        read({"redirect_uris": [WEB, uri], "application_type": application_type})
    assert read({"redirect_uris": [WEB], "application_type": application_type})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"redirect_uris": ["https://agent.example/cb#x"]},
            "`redirect_uris`: `https://agent.example/cb#x` must not have a fragment",
        ),
        (
            {"redirect_uris": ["cursor://done"]},
            (
                "`redirect_uris`: `cursor://done` must have a private-use scheme with a dot in it,"
                " such as `com.example.app`"
            ),
        ),
        (
            {"post_logout_redirect_uris": ["http://agent.example/bye"]},
            (
                "`post_logout_redirect_uris`: `http://agent.example/bye` must use https;"
                " http is allowed for `localhost`, `127.0.0.1` and `[::1]`"
            ),
        ),
        (
            {"backchannel_logout_uri": "http://localhost/logout"},
            "`backchannel_logout_uri`: `http://localhost/logout` must use https",
        ),
    ],
)
def test_a_refused_uri_is_named_with_what_it_has_to_be(members, message):
    """The error names the member and the URI, and says what is allowed: no internal code of a reason."""
    with pytest.raises((InvalidRedirectUri, InvalidClientMetadata)) as refused:
        read(MINIMAL | members)

    assert refused.value.detail == message


def test_a_long_refused_uri_is_cut_off():
    """An error repeats no more than the first 200 characters of a URI."""
    with pytest.raises(InvalidRedirectUri) as refused:
        read({"redirect_uris": [f"http://{'a' * 1000}.example/"]})

    assert refused.value.detail.startswith(f"`redirect_uris`: `http://{'a' * 193}`... ")


@pytest.mark.parametrize(
    "uris", [None, [], "https://agent.example/cb", [1], [WEB + str(n) for n in range(21)]]
)
def test_redirect_uris_are_a_short_list(uris):
    """At least one, and not a book."""
    with pytest.raises(InvalidRedirectUri):
        read({"redirect_uris": uris})


@pytest.mark.parametrize(
    "members",
    [
        {"client_name": "x" * 101},
        {"client_name": 7},
        {"client_name": "Bank\u202eknab"},
        {"client_name": "Ba\u200bnk"},
        {"client_name": "<b>Bank</b>"},
        {"client_name": "a\nb"},
        {"client_uri": "javascript:alert(1)"},
        {"logo_uri": "data:image/png,x"},
        {"policy_uri": "https://"},
        {"tos_uri": ["https://a.example"]},
        {"grant_types": ["client_credentials"]},
        {"grant_types": "authorization_code"},
        {"response_types": ["token"]},
        {"application_type": "service"},
        {"scope": 'read "x"'},
        {"contacts": "me"},
        {"contacts": [1]},
        {"software_id": {}},
        {"id_token_signed_response_alg": "HS256"},
        {"id_token_signed_response_alg": "none"},
        {"id_token_signed_response_alg": ["RS256"]},
        {"backchannel_logout_uri": "http://agent.example/logout"},
        {"backchannel_logout_session_required": "yes"},
    ],
)
def test_other_members_are_refused_when_wrong(members):
    """A client that cannot be described honestly is not registered."""
    with pytest.raises(InvalidClientMetadata):
        read(MINIMAL | members)


def test_statements_are_not_taken():
    """Nobody here can check them, and what they say must not count unchecked."""
    with pytest.raises(InvalidSoftwareStatement):
        read(MINIMAL | {"software_statement": "x.y.z"})


@pytest.mark.deviation("native-https")
@pytest.mark.parametrize("uri", [LOCAL, "com.example.app:/cb", "https://agent.example/cb"])
def test_a_native_client_may_claim_https_links(uri):
    """Beside its own machine and its own scheme. Spec: RFC 8252 section 7.2."""
    assert read({"redirect_uris": [uri], "application_type": "native"}).redirect_uris == [uri]

"""Authorization requests to outside providers: settings shape them, and replace nothing that is protected."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.adapters.identity_providers.answers import ProviderRefused
from runtime.adapters.identity_providers.settings import ProviderSettings
from runtime.adapters.upstream_oauth.authorization_request import (
    PROTECTED_PARAMETERS,
    UpstreamAuthorizationRequest,
    authorization_url,
    require_web_address,
)

ENDPOINT = "https://provider.example/authorize"
OWN = {
    "response_type": "code",
    "client_id": "zone",
    "redirect_uri": "https://zone.example/cb",
    "state": "s1",
    "code_challenge": "c" * 43,
    "code_challenge_method": "S256",
}


def query_of(endpoint=ENDPOINT, *, scopes=(), resources=(), code_challenge="c" * 43, **changes):
    settings = ProviderSettings(**{"issuer": "https://provider.example", "client_id": "zone", **changes})
    url = authorization_url(
        settings,
        endpoint,
        redirect_uri=OWN["redirect_uri"],
        state=OWN["state"],
        code_challenge=code_challenge,
        scopes=scopes,
        resources=resources,
    )
    pairs = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def test_a_request_without_settings_is_that_of_the_standards():
    """Without settings it is what RFC 6749 and RFC 7636 say."""
    assert query_of(scopes=["a", "b"]) == {**OWN, "scope": "a b"}


def test_a_request_for_no_scope_has_no_scope_parameter():
    """What is not requested is left to the provider."""
    assert query_of() == OWN


def test_scopes_have_the_configured_name_and_separator():
    """Slack's user scopes are in `user_scope`, separated by commas."""
    given_query = query_of(
        scopes=["chat:write", "users:read"], scope_parameter="user_scope", scope_separator=","
    )
    assert given_query == {**OWN, "user_scope": "chat:write,users:read"}


def test_without_pkce_there_is_no_challenge():
    """Neither a challenge nor a method is sent."""
    sent = query_of(code_challenge=None)
    assert not {"code_challenge", "code_challenge_method"} & sent.keys()


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, {}),
        ({"authorization_resource_enabled": True}, {"resource": "https://api.example"}),
        (
            {"authorization_resource_enabled": True, "authorization_resource_parameter": "audience"},
            {"audience": "https://api.example"},
        ),
    ],
)
def test_the_resource_is_sent_where_it_is_enabled(changes, sent):
    """Under its standard name or the configured one. Spec: RFC 8707."""
    assert query_of(resources=["https://api.example"], **changes) == {**OWN, **sent}


def test_what_the_endpoint_and_the_settings_add_is_kept():
    """Parameters that are nobody's own go along."""
    sent = query_of(f"{ENDPOINT}?tenant=acme#part", authorization_parameters={"access_type": "offline"})
    assert sent == {**OWN, "tenant": "acme", "access_type": "offline"}


@pytest.mark.parametrize("name", sorted(PROTECTED_PARAMETERS))
def test_settings_cannot_set_a_protected_parameter(name):
    """Neither by `authorization_parameters` nor by the endpoint's own query, in whatever case."""
    sent = query_of(f"{ENDPOINT}?{name}=evil", authorization_parameters={name: "evil", name.upper(): "evil"})
    assert sent == OWN


@pytest.mark.parametrize("setting", ["scope_parameter", "authorization_resource_parameter"])
@pytest.mark.parametrize("name", ["state", "redirect_uri", "Client_ID", "request", "code_challenge"])
def test_no_parameter_is_named_like_a_protected_one(setting, name):
    """A scope or resource parameter of that name is a configuration error."""
    with pytest.raises(ProviderRefused, match="protected"):
        query_of(
            scopes=["a"],
            resources=["https://api.example"],
            **{"authorization_resource_enabled": True, setting: name},
        )


names = st.one_of(st.sampled_from(sorted(PROTECTED_PARAMETERS)), st.text(max_size=20)).flatmap(
    lambda name: st.sampled_from([name, name.upper(), name.title(), f" {name}"])
)


@given(
    parameters=st.dictionaries(names, st.text(max_size=20), max_size=8),
    endpoint_query=st.text(st.sampled_from("abcstateclient_id=&%+redirect_uri?;"), max_size=60),
    scope_parameter=names.filter(bool),
    scope_separator=st.text(min_size=1, max_size=3),
    resource_parameter=names.filter(bool),
)
def test_no_settings_replace_what_keeps_a_request_safe(
    parameters, endpoint_query, scope_parameter, scope_separator, resource_parameter
):
    """Each protected parameter is there once, as this service says it, or the settings are refused."""
    try:
        sent = query_of(
            f"{ENDPOINT}?{endpoint_query}",
            scopes=["a", "b"],
            resources=["https://api.example"],
            authorization_parameters=parameters,
            scope_parameter=scope_parameter,
            scope_separator=scope_separator,
            authorization_resource_enabled=True,
            authorization_resource_parameter=resource_parameter,
        )
    except ProviderRefused:
        taken = {scope_parameter.casefold(), resource_parameter.casefold()}
        assert taken & PROTECTED_PARAMETERS
        return
    assert {name: value for name, value in sent.items() if name in OWN} == OWN
    folded = [name.casefold() for name in sent if name.casefold() in PROTECTED_PARAMETERS - {"resource"}]
    assert sorted(folded) == sorted(OWN)


@pytest.mark.parametrize(
    "address", ["http://provider.example/", "javascript:alert(1)", "ftp://provider.example/"]
)
def test_a_browser_is_sent_to_https_alone(address):
    """Whatever a setting or a provider's metadata says."""
    with pytest.raises(ProviderRefused):
        require_web_address(address, allow_http=False)


@pytest.mark.standard("RFC 9207")
@pytest.mark.parametrize(
    ("required", "given_issuer", "admitted"),
    [
        (False, None, True),
        (True, None, False),
        (False, "https://provider.example", True),
        (True, "https://provider.example", True),
        (False, "https://provider.example/", False),
        (True, "https://other.example", False),
    ],
)
def test_the_issuer_of_an_answer_is_the_providers(required, given_issuer, admitted):
    """`iss` is right where it is given, and given where the provider advertises it."""
    request = UpstreamAuthorizationRequest("", True, "https://provider.example", issuer_required=required)
    assert request.admits_issuer(given_issuer) is admitted

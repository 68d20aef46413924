"""MSAL for Python in a web application."""

from urllib.parse import parse_qsl, urlsplit

from msal import ConfidentialClientApplication
from program import HOST, converse, settings

given = settings()
resource = given.pop("&resource", "")  # in place of a parameter, which the library has none for
SCOPES = given.pop("scopes", ["email"])
application = ConfidentialClientApplication(**given)
flow: dict = {}


def begin() -> str:
    flow.update(application.initiate_auth_code_flow(SCOPES, redirect_uri=f"https://{HOST}/callback"))
    return f"{flow['auth_uri']}&resource={resource}" if resource else flow["auth_uri"]


def told(tokens: dict) -> dict:
    assert "access_token" in tokens, tokens
    return {
        "email": tokens.get("id_token_claims", {}).get("email"),
        "access_token": tokens["access_token"],
        "token_source": tokens.get("token_source"),
    }


def finish(address: str) -> dict:
    answer = dict(parse_qsl(urlsplit(address).query))
    return told(application.acquire_token_by_auth_code_flow(flow, answer))


def refresh(_: str) -> dict:
    (account,) = application.get_accounts()
    return told(application.acquire_token_silent(SCOPES, account, force_refresh=True) or {})


converse(begin, finish, refresh)

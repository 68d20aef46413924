"""requests-oauthlib: a session, and a request with the token that it has got."""

import os

from program import converse, settings
from requests_oauthlib import OAuth2Session

given = settings()
os.environ |= {name: str(given[name]) for name in given if name.isupper()}
named = ("client_id", "redirect_uri", "scope", "pkce")
session = OAuth2Session(**{name: given[name] for name in named if name in given})


def begin() -> str:
    more = {name: given[name] for name in ("resource",) if name in given}
    return session.authorization_url(given["authorization_endpoint"], **more)[0]


def finish(address: str) -> dict:
    told = session.fetch_token(
        given["token_endpoint"],
        client_secret=given["client_secret"],
        include_client_id=given["include_client_id"],
        authorization_response=address,
    )
    answer = session.get(given["userinfo_endpoint"])  # a token for an API is refused there
    return {"access_token": told["access_token"], **(answer.json() if answer.ok else {})}


converse(begin, finish)

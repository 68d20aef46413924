"""Outages: the error pages and OAuth errors while the database or the short-lived state is unreachable."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.support.oauth_site import CALLBACK, PASSWORD, Answer, Browser, Client, Page, Site, assert_page
from tests.support.waiting import let_pass

from runtime.domain.errors import Unavailable
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services import epochs

_OF_STATE = (
    "put",
    "get",
    "take",
    "add",
    "delete",
    "fetch",
    "put_once",
    "raise_all",
    "count",
    "use_once",
)


@contextmanager
def away(site: Site, *what: str) -> Iterator[None]:
    """The short-lived state, or the database, cannot be reached."""

    async def no_state(*_: Any, **__: Any) -> None:
        raise Unavailable("10.1.2.3 does not answer")

    def no_database(*_: Any, **__: Any) -> None:
        raise OSError("10.1.2.3 does not answer")

    with pytest.MonkeyPatch.context() as broken:
        if "state" in what:
            for name in _OF_STATE:
                broken.setattr(site.services.state, name, no_state)
        if "database" in what:
            broken.setattr(type(site.services.database.engine), "connect", no_database)
        yield


@dataclass(frozen=True)
class Midway:
    """Somebody in the middle of everything: each of these goes on with one more request."""

    client: Client
    tokens: dict[str, Any]
    code: str
    signing_in: tuple[Browser, Page]
    consenting: tuple[Browser, Page]
    signing_out: tuple[Browser, Page]
    account: tuple[Browser, Page]


def page_of(place: Page | Answer) -> Page:
    assert isinstance(place, Page), place
    return place


def midway(client: Client, asking: Client) -> Midway:
    """Ada, signed in to one application, and about to do everything else."""
    browser, other, third = Browser(), Browser(), Browser()
    tokens = client.sign_in(browser, scope="openid email")
    code = browser.open(client.url())
    assert isinstance(code, Answer)
    third.http.cookies = browser.http.cookies
    return Midway(
        client,
        tokens,
        code.code,
        (other, page_of(other.open(client.url()))),
        (third, page_of(third.open(asking.url(prompt="consent")))),
        (browser, page_of(browser.open(f"{client.issuer}/openid/logout"))),
        (browser, page_of(browser.open(f"{client.issuer}/account"))),
    )


def forms(there: Midway) -> dict[str, httpx.Response]:
    """What applications ask for, each as it should be asked."""
    client, tokens = there.client, there.tokens

    def post(endpoint: str, **form: str) -> httpx.Response:
        return httpx.post(f"{client.issuer}/oauth/{endpoint}", data={**client.app.form, **form})

    return {
        "code": client.redeem(there.code),
        "refresh": client.refresh(tokens["refresh_token"]),
        "exchange": client.token(
            grant_type=GRANT_TYPE,
            subject_token=tokens["access_token"],
            subject_token_type=ACCESS_TOKEN,
            resource="https://files.example",
        ),
        "nobody": client.token(grant_type="client_credentials", client_id="nobody"),
        "wrong secret": client.token(grant_type="client_credentials", client_secret="wrong"),
        "userinfo": client.userinfo(tokens["access_token"]),
        "revoke": post("revoke", token=tokens["refresh_token"]),
        "par": post(
            "par",
            response_type="code",
            redirect_uri=CALLBACK,
            code_challenge=client.challenge,
            code_challenge_method="S256",
        ),
        "register": httpx.post(
            f"{client.issuer}/oauth/register", json={"redirect_uris": ["http://127.0.0.1/callback"]}
        ),
    }


def pages(there: Midway) -> dict[str, httpx.Response]:
    """What people ask for, each in the browser that may."""
    answers = {}
    form = {"email": "ada@acme.example", "password": PASSWORD, "decision": "allow"}
    for name in ("signing_in", "consenting", "account", "signing_out"):
        browser, page = getattr(there, name)
        answers[f"{name}, shown"] = browser.http.get(str(page.response.url))
        answers[f"{name}, sent"] = browser.post(page, **form)
    return answers


# With the state alone away, what rests on the database goes on: it is asked each time.
GO_ON = {"refresh", "exchange", "userinfo", "revoke"}
SHOWN = {"account, shown", "signing_out, shown"}  # their forms need the state when they are sent
WELL = {"nobody": 401, "wrong secret": 401, "par": 201, "register": 201}


@pytest.mark.threat("35e")
def test_no_check_turns_into_a_yes(site: Site) -> None:
    """503 and when to come back, for programs in OAuth's words, for people on a page without details."""
    zone = site.zone()
    site.user(zone)
    files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
    client, asking = site.app(zone, dependencies=[files]), site.app(zone, "asking", consent="required")
    healthy = midway(client, asking)
    well = {name: answer.status_code for name, answer in forms(healthy).items()}
    assert well == {name: WELL.get(name, 200) for name in well}
    shown = {name: answer.status_code for name, answer in pages(healthy).items()}
    assert shown == {name: 200 if name.endswith("shown") else 303 for name in shown}

    for what in (("state",), ("database",), ("state", "database")):
        refuses_what_cannot_be_checked(site, midway(client, asking), *what)


def refuses_what_cannot_be_checked(site: Site, there: Midway, *what: str) -> None:
    """What goes on without the state has asked the database; nothing goes on without that."""
    with away(site, *what):
        # What was known a moment ago counts a moment longer.
        let_pass(epochs.RECENT_SECONDS)
        heard, seen = forms(there), pages(there)
        asked = [browser.http.get(there.client.url()) for browser in (Browser(), there.account[0])]

    goes_on = dict.fromkeys(GO_ON, 200) | {name: 401 for name, status in WELL.items() if status == 401}
    expected = {name: goes_on.get(name, 503) if what == ("state",) else 503 for name in heard}
    assert {name: answer.status_code for name, answer in heard.items()} == expected
    refused = [answer for name, answer in heard.items() if expected[name] == 503]
    assert {answer.json()["error"] for answer in refused} == {"temporarily_unavailable"}
    assert {answer.headers["cache-control"] for answer in refused} == {"no-store"}
    for name, answer in seen.items():
        assert_page(answer, 200 if what == ("state",) and name in SHOWN else 503)
    unavailable = [*refused, *(answer for answer in seen.values() if answer.status_code == 503)]
    assert not [answer for answer in unavailable if int(answer.headers["retry-after"]) <= 0]
    assert not [answer for answer in unavailable if "10.1.2.3" in answer.text]
    led = [each.headers.get("location", "") for each in asked if each.status_code != 503]
    assert not [to for to in led if "error=temporarily_unavailable" not in to and "/sign-in?" not in to]

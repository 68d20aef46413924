"""What another release has stored in the short-lived state counts as absent, and is never an error of ours.

The shapes first, each by itself; then every flow whose next step reads one of them, over HTTP.
"""

import ast
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from pydantic_core import to_json
from tests.runtime.connect.conftest import Desk, account_on, desk_on
from tests.runtime.login.conftest import pytest_generate_tests, site
from tests.support.account_provider import account_provider
from tests.support.oauth_site import PASSWORD, Answer, Browser, Page, Site, chained

from runtime.adapters.keys.sealing import Sealer, new_data_key
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.resources import RequestedResource
from runtime.services import state_values
from runtime.services.authority.connect_links import ConnectLink
from runtime.services.authorization import (
    authorization_codes,
    interactions,
    pushed_authorization_requests,
)
from runtime.services.authorization.authorization_codes import CodeGrant, IssuedIds
from runtime.services.authorization.interactions import PendingLogin
from runtime.services.authorization.pushed_authorization_requests import PREFIX, PushedRequest
from runtime.services.authorization.requests import AuthorizationRequest, ZonePageRequest
from runtime.services.connect import upstream as connecting
from runtime.services.connect.requests import ReturnAddress
from runtime.services.connect.upstream import PendingConnection
from runtime.services.issuing import token_cache
from runtime.services.login import upstream as signing_in
from runtime.services.login.upstream import UpstreamLogin
from runtime.services.logout import requests as sign_outs
from runtime.services.vault import credential_cache

__all__ = ["pytest_generate_tests", "site"]

SERVICES = Path(state_values.__file__).parent
NOW = datetime(2026, 3, 1, tzinfo=UTC)
REQUEST = AuthorizationRequest(
    client_id="c",
    party_id="p",
    redirect_uri="https://app.example/cb",
    state="s",
    scopes=frozenset({"openid"}),
    resources=(RequestedResource(id="r", identifier="https://r.example", scopes=frozenset({"read"})),),
    nonce="n",
    challenge="x",
)
LINK = ConnectLink(
    id="l",
    user_id="u",
    session_id="s",
    client_id="c",
    party_id="p",
    resource_id="r",
    resource_identifier="https://r.example",
    scopes=frozenset({"read"}),
    actors=("a",),
    issued_at=NOW,
)
VALUES: list[Any] = [
    LINK,
    PendingConnection(
        link=LINK,
        returns_to=ReturnAddress(redirect_uri="https://app.example/cb", state="s"),
        browser_session_id="b",
        provider_id="p",
        provider_revision=3,
        scopes=frozenset({"read"}),
        verifier="v",
        nonce=None,
        uses_pkce=True,
        issuer="https://idp.example",
        issuer_required=False,
    ),
    UpstreamLogin(
        handle="h", provider_id="p", nonce="n", verifier="v", departed_at=NOW, asked_to_prove=False
    ),
    PushedRequest(client_id="c", parameters=[("scope", "openid")]),
    PendingLogin(request=REQUEST, browser="00", created_at=NOW, session_id="s"),
    PendingLogin(request=ZonePageRequest(page="account"), browser="00", created_at=NOW),
    CodeGrant(
        client_id="c",
        party_id="p",
        redirect_uri="https://app.example/cb",
        scopes=REQUEST.scopes,
        resources=REQUEST.resources,
        nonce=None,
        challenge="x",
        session_id="s",
        user_id="u",
        issued_at=NOW,
    ),
    IssuedIds(session_id="s", family_id="f"),
    sign_outs.LogoutRequest(application="Notes"),
    sign_outs._Carried(request=sign_outs.LogoutRequest(), until=5),
    token_cache.CachedToken("token", "id", 5, frozenset({"read"}), (1, 2, 3)),
    credential_cache._Entry("token", "Bearer", frozenset({"read"}), None, 5, None, (1, 2)),
]


def required(kind: type[Any]) -> Iterator[str]:
    """The members of a model that have no default."""
    return (name for name, member in kind.model_fields.items() if member.is_required())


def another_release(value: Any) -> Iterator[tuple[str, bytes]]:
    """What other releases may have stored in place of a value."""
    plain = json.loads(to_json(value))
    yield "no JSON", b"\x80\x04not JSON"
    yield "no object", b'"text"'
    if isinstance(plain, list):
        for place in range(len(plain)):
            yield f"without {place}", json.dumps(plain[:place] + plain[place + 1 :]).encode()
            yield (
                f"another type at {place}",
                json.dumps([*plain[:place], {"odd": 1}, *plain[place + 1 :]]).encode(),
            )
        yield "more", json.dumps([*plain, 1]).encode()
        return
    for name in required(type(value)):
        yield f"without {name}", json.dumps({key: plain[key] for key in plain if key != name}).encode()
        yield f"another type of {name}", json.dumps({**plain, name: {"odd": 1}}).encode()
    yield "more", json.dumps({**plain, "limited_to": "something"}).encode()
    for name, inner in plain.items():
        if isinstance(inner, dict):
            yield f"more in {name}", json.dumps({**plain, name: {**inner, "limited_to": "x"}}).encode()


def named(value: Any) -> str:
    return f"{type(value).__module__.rpartition('.')[2]}.{type(value).__name__}"


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_a_value_comes_back_as_it_was_written(value: Any) -> None:
    """By the release that has written it."""
    assert state_values.read(type(value), to_json(value)) == value


@pytest.mark.parametrize("value", VALUES, ids=named)
def test_a_value_of_another_release_is_absent(value: Any) -> None:
    """It lacks a member, has one of another type, or one besides, which may limit what it allows."""
    found = dict(another_release(value))

    assert len(found) > 3 or value == sign_outs.LogoutRequest(
        application="Notes"
    )  # nothing in it is required
    assert {name: state_values.read(type(value), stored) for name, stored in found.items()} == dict.fromkeys(
        found
    )


def test_a_sealed_value_opens_with_its_own_key_in_its_own_place() -> None:
    """With another key, at another place, or altered it is absent; so is what nobody has stored."""
    sealer, value = Sealer(new_data_key()), IssuedIds(session_id="s", family_id="f")
    sealed = sealer.seal(to_json(value), bound_to="here")

    def read(stored: bytes | None, by: Sealer = sealer, place: str = "here") -> IssuedIds | None:
        return state_values.read_sealed(IssuedIds, stored, by, bound_to=place)

    assert read(sealed) == value
    assert read(sealed, by=Sealer(new_data_key())) is None
    assert read(sealed, place="there") is None
    assert read(sealed[:-1]) is None
    assert read(b"") is None
    assert read(None) is None


# Where services read JSON that is not of the short-lived state.
ELSEWHERE = {
    "runtime.services.management.people.user_imports": "lines of a file of users",
    "runtime.services.outbox.delivery": "messages of the database; what cannot be read is tried again",
    "runtime.services.secret_values": "secrets of the database",
}
_READERS = {"loads", "model_validate_json", "validate_json"}


def test_state_is_read_in_one_place() -> None:
    """No other module of the services takes JSON apart, but for those listed."""
    found = set()
    for path in SERVICES.rglob("*.py"):
        called = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        if called & _READERS:
            found.add(".".join(("runtime.services", *path.relative_to(SERVICES).with_suffix("").parts)))

    assert found == {"runtime.services.state_values", *ELSEWHERE}


@dataclass
class Step:
    """A flow as far as the step that reads what was stored before.

    Attributes:
        key: where that is in the short-lived state.
        sealed: whether it is sealed, for that place.
        go_on: the step.
        succeeds, starts_again: whether an answer is the one to the value as it was stored, or to none.
    """

    zone: Zone
    key: str
    sealed: bool
    go_on: Callable[[], Any]
    succeeds: Callable[[Any], bool]
    starts_again: Callable[[Any], bool]


def is_page(status: int, words: str) -> Callable[[Any], bool]:
    """Whether something is a page with that status and these words."""
    return lambda place: (
        isinstance(place, Page) and place.response.status_code == status and words in place.text
    )


def of(address: str, name: str) -> str:
    """A parameter of an address."""
    return dict(parse_qsl(urlsplit(address).query))[name]


def connecting_an_account(desk: Desk) -> Iterator[Step]:
    with account_provider() as tracker:
        account = account_on(desk, tracker)
        callback = account.callback(desk.page(account.link(desk.sign_in(account.agent))))
        view = desk.site.run(desk.site.services.zones.get(desk.zone.id))
        yield Step(
            desk.zone,
            connecting._key(desk.site.services, view, of(callback, "state")),
            True,
            lambda: desk.browser.open(callback),
            is_page(200, "may now use"),
            is_page(400, "go back to the application and try again"),
        )


def signing_in_elsewhere(desk: Desk) -> Iterator[Step]:
    site, browser = desk.site, Browser()
    chain = chained(site)
    client = site.app(chain.product)
    page = browser.open(client.url())
    assert isinstance(page, Page)
    back = browser.post(page, email="ada@acme.example", password=PASSWORD)
    callback = _until(browser, back, "/oauth/callback")
    yield Step(
        chain.product,
        signing_in._key(site.services, chain.product.id, of(callback, "state")),
        True,
        lambda: browser.open(callback),
        lambda place: isinstance(place, Answer) and "code" in place.values,
        is_page(400, "go back to the application and try again"),
    )


def _until(browser: Browser, response: httpx.Response, path: str) -> str:
    """The address that a browser is sent to in the end, once its path ends so."""
    while not urlsplit(location := response.headers["location"]).path.endswith(path):
        response = browser.http.get(location)
    return location


def signing_in_here(desk: Desk) -> Iterator[Step]:
    browser, client = Browser(), desk.site.app(desk.zone, "notes")
    page = browser.open(client.url())
    assert isinstance(page, Page)
    handle = page.fields["request"]
    yield Step(
        desk.zone,
        interactions._key(desk.site.services, "interaction", desk.zone.id, handle),
        False,
        lambda: browser.send(page, email="ada@acme.example", password=PASSWORD),
        lambda place: isinstance(place, Answer) and "code" in place.values,
        is_page(400, "go back to the application and try again"),
    )


def redeeming_a_code(desk: Desk) -> Iterator[Step]:
    browser, client = Browser(), desk.site.app(desk.zone, "notes")
    code = browser.sign_in(browser.open(client.url())).code
    yield Step(
        desk.zone,
        authorization_codes._key(desk.site.services, desk.zone.id, code, "code"),
        False,
        lambda: client.redeem(code),
        lambda answer: answer.status_code == 200,
        lambda answer: answer.status_code == 400 and answer.json()["error"] == "invalid_grant",
    )


def following_a_pushed_request(desk: Desk) -> Iterator[Step]:
    browser, client = Browser(), desk.site.app(desk.zone, "notes")
    sent = dict(parse_qsl(urlsplit(client.url()).query)) | client.app.form
    pushed = httpx.post(f"{client.issuer}/oauth/par", data=sent, timeout=30).json()["request_uri"]
    view = desk.site.run(desk.site.services.zones.get(desk.zone.id))
    address = f"{client.issuer}/oauth/authorize?client_id={client.app.client_id}&request_uri={pushed}"
    yield Step(
        desk.zone,
        pushed_authorization_requests._key(desk.site.services, view, pushed.removeprefix(PREFIX)),
        True,
        lambda: browser.open(address),
        lambda place: isinstance(place, Page) and place.response.status_code == 200,
        is_page(400, "go back to the application and try again"),
    )


FLOWS = [
    connecting_an_account,
    signing_in_elsewhere,
    signing_in_here,
    redeeming_a_code,
    following_a_pushed_request,
]


Flow = Callable[[Desk], Iterator[Step]]


def replace_stored(site: Site, step: Step, change: Callable[[dict[str, Any]], None]) -> None:
    """Have something else stored there, as another release does it."""

    async def replace() -> None:
        services = site.services
        sealer = (await services.zones.get(step.zone.id)).sealer
        stored = await services.state.get(step.key)
        assert stored is not None
        plain = json.loads(sealer.open(stored, bound_to=step.key) if step.sealed else stored)
        change(plain)
        written = json.dumps(plain).encode()
        sealed = sealer.seal(written, bound_to=step.key) if step.sealed else written
        await services.state.put_once(step.key, sealed, ttl_seconds=60)

    site.run(replace())


def keep_all(plain: dict[str, Any]) -> None:
    """As this release."""


def lose_a_member(plain: dict[str, Any]) -> None:
    """As an earlier release that did not have it yet."""
    for name in ("uses_pkce", "asked_to_prove", "browser", "challenge", "client_id"):
        if name in plain:
            del plain[name]
            return
    raise AssertionError(plain)


def gain_a_member(plain: dict[str, Any]) -> None:
    """As a later release that limits something by it."""
    plain["limited_to"] = "something"


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("change", [keep_all, lose_a_member, gain_a_member], ids=lambda each: each.__name__)
def test_a_flow_that_another_release_began_starts_again(
    site: Site, flow: Flow, change: Callable[[dict[str, Any]], None]
) -> None:
    """With what this release has stored it goes on; with that of another the user, or the client, is told."""
    with contextmanager(flow)(desk_on(site, Browser())) as step:
        replace_stored(site, step, change)

        answer = step.go_on()

        is_right = step.succeeds if change is keep_all else step.starts_again
        assert is_right(answer), getattr(answer, "text", answer)

"""Providers of another make over real HTTP, and the way of a browser through one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from oidc_provider_mock import User as MockUser
from oidc_provider_mock import run_server_in_thread
from tests.support.oauth_site import (
    Answer,
    Browser,
    Client,
    Page,
    Site,
)

from runtime.domain.kinds import PROVIDER, USER, ZONE, Verb
from runtime.domain.kinds.role import User
from runtime.domain.kinds.zone import Zone
from runtime.storage.sql import entities


@dataclass
class Foreign:
    """A foreign OpenID provider, and the paths it was asked for."""

    issuer: str
    asked: list[str]


@contextmanager
def running(*users: MockUser) -> Iterator[Foreign]:
    """Run a provider that knows these users and, as it comes, any other."""
    asked: list[str] = []
    with run_server_in_thread(user_claims=users, require_nonce=True) as server:
        inner = server.app

        def counting(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            asked.append(environ["PATH_INFO"])
            answer: Iterable[bytes] = inner(environ, start)
            return answer

        server.app = counting
        yield Foreign(f"http://127.0.0.1:{server.server_port}", asked)


def federated(site: Site, issuer: str, name: str = "Product", **provider: Any) -> Zone:
    """A zone whose users sign in at that issuer."""
    zone = site.zone(name)
    body = {
        "client_id": "zone",
        "client_secret": "a secret",
        "name": "Sign-in",
        "identifier": issuer,
    } | provider
    made = site.run(site.company.create(PROVIDER, zone.id, **body))
    patch = {"user_identity_provider_id": made.id}
    updated = site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))
    assert isinstance(updated, Zone)
    return updated


def at_provider(browser: Browser, client: Client, **changes: Any) -> httpx.Response:
    """The provider's own page, as the browser comes to it."""
    place = browser.open(client.url(**changes))
    assert isinstance(place, Page), place
    assert "/oauth2/authorize" in str(place.response.url)
    return place.response


def as_person(browser: Browser, page: httpx.Response, sub: str, **form: str) -> str:
    """Where the provider sends the browser back to."""
    answer = browser.http.post(str(page.url), data={"sub": sub, **form})
    assert answer.has_redirect_location, answer.text
    return str(answer.headers["location"])


def sign_in(browser: Browser, client: Client, sub: str = "ada", **changes: Any) -> "Page | Answer":
    """Sign in as somebody the provider knows; where that leads."""
    return browser.open(as_person(browser, at_provider(browser, client, **changes), sub))


def changed_query(address: str, **changes: str | None) -> str:
    """The address with other parameters."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()} | changes
    kept = {name: value for name, value in query.items() if value is not None}
    return f"{address.partition('?')[0]}?{urlencode(kept)}"


def users_of(site: Site, zone: Zone) -> list[User]:
    """Everybody the zone knows."""

    async def read() -> list[User]:
        async with site.services.database.reading() as conn:
            found = [each async for each in entities.all_of(conn, USER, within={"zone_id": zone.id})]
        return [each for each in found if isinstance(each, User)]

    return site.run(read())

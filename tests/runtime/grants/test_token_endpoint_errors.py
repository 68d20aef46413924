"""Whatever is wrong with a token request of any grant type: what the refusal says, and what it leaves."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import select
from tests.support.oauth_site import Answer, Browser, Client, Site
from tests.support.publisher import publishing

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.kinds import PROVIDER, ZONE, Verb
from runtime.services.container import Services
from runtime.services.grants.token_endpoint import GRANT_TYPES
from runtime.storage.sql import users
from runtime.storage.sql.tables import METADATA

KEY = SigningKey.generate("ES256")
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
# RFC 6749 section 5.2, RFC 8693 section 2.2.2, RFC 8628 section 3.5 and RFC 9449 section 5.
CODES = {
    *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"),
    *("invalid_scope", "invalid_target", "access_denied", "invalid_dpop_proof", "temporarily_unavailable"),
}
# What is told of a token request is kept here, granted or not.
RECORDS = {"token_events"}
# What a request shows that is no secret.
PUBLIC = ("grant_type", "subject_token_type", "resource", "redirect_uri", "client_id")

# Parameters that mean nothing to a grant type; RFC 6749 section 3.2 has them ignored.
IGNORED = {
    "authorization_code": ("scope", "requested_token_type"),
    "refresh_token": ("requested_token_type",),
    "client_credentials": ("requested_token_type",),
    ASSERTION: ("requested_token_type",),
}
# What a good form has and need not have.
OPTIONAL = {"redirect_uri", "resource of client_credentials"}

Form = dict[str, str]


@dataclass
class Ground:
    """Clients and what they show, for a good request of each grant type."""

    site: Site
    client: Client
    vouched: Client
    browser: Browser
    tokens: dict[str, Any]
    resource: str

    def good(self, grant_type: str) -> tuple[Client, Form]:
        """Who asks, and a form that is granted."""
        client, form = {
            "authorization_code": self._code,
            "refresh_token": lambda: (self.client, {"refresh_token": self.tokens["refresh_token"]}),
            "client_credentials": lambda: (self.client, {"resource": self.resource}),
            EXCHANGE: self._exchange,
            ASSERTION: self._assertion,
        }[grant_type]()
        return client, {"grant_type": grant_type, **form, **client.app.form}

    def take(self, answer: httpx.Response) -> None:
        """Go on with what was granted."""
        assert answer.status_code == 200, answer.text
        if "refresh_token" in answer.json():
            self.tokens["refresh_token"] = answer.json()["refresh_token"]

    def _code(self) -> tuple[Client, Form]:
        answer = self.browser.open(self.client.url())
        assert isinstance(answer, Answer)
        asked = {"redirect_uri": self.client.redirect_uri, "code_verifier": self.client.verifier}
        return self.client, {"code": answer.code, **asked}

    def _exchange(self) -> tuple[Client, Form]:
        token = "urn:ietf:params:oauth:token-type:access_token"
        form = {"subject_token": self.tokens["access_token"], "subject_token_type": token}
        return self.client, {**form, "resource": self.resource}

    def _assertion(self) -> tuple[Client, Form]:
        at = int(self.site.services.clock().timestamp())
        said = {"iss": "https://idp.example", "sub": "ann-1", "aud": self.vouched.issuer, "iat": at}
        return self.vouched, {
            "assertion": KEY.sign(said | {"exp": at + 120, "jti": secrets.token_hex(8)}, typ="JWT")
        }


@pytest.fixture
def ground(site: Site) -> Iterator[Ground]:
    with publishing() as publisher:
        publisher.publish("/keys", {"keys": [KEY.public_jwk]})
        zone = site.zone()
        site.user(zone)
        files = site.run(site.company.resource(zone, "https://files.example", scopes=["read"]))
        client, browser = site.app(zone, dependencies=[files]), Browser()
        tokens = client.sign_in(browser)
        yield Ground(site, client, _vouched(site, publisher.url), browser, tokens, files.identifier)


def _vouched(site: Site, publisher: str) -> Client:
    """An application of a zone whose provider vouches for somebody."""

    async def prepare() -> Client:
        company = site.company
        zone = await company.zone("Vouched")
        provider = await company.create(
            PROVIDER,
            zone.id,
            name="Sign-in",
            identifier="https://idp.example",
            client_id="zone",
            protocols={"oauth2": {"jwks_uri": f"{publisher}/keys"}},
        )
        await company.run(ZONE, Verb.UPDATE, {}, zone.id, {"user_identity_provider_id": provider.id})
        ann = await company.user(zone, "ann@acme.example")
        async with site.services.database.transaction() as conn:
            known = {"provider_id": provider.id, "issuer": provider.identifier, "subject": "ann-1"}
            await users.add_federation(conn, ann, **known, now=site.services.clock())
        return Client(zone, await company.app(zone, "vouched"))

    return site.run(prepare())


@dataclass(frozen=True)
class Attempt:
    """A request that has to be refused, made of one that is granted."""

    what: str
    make: Callable[[Client, Form], httpx.Response]


def post(client: Client, form: Mapping[str, str], **more: Any) -> httpx.Response:
    return httpx.post(f"{client.issuer}/oauth/token", data=dict(form), **more)


def attempts(grant_type: str, names: list[str]) -> Iterator[Attempt]:
    """Everything that can be wrong with a form of that grant type, one thing at a time."""
    for name in names:
        if not {name, f"{name} of {grant_type}"} & OPTIONAL:
            yield Attempt(f"no {name}", lambda c, f, n=name: post(c, {k: v for k, v in f.items() if k != n}))
        yield Attempt(f"another {name}", lambda c, f, n=name: post(c, {**f, n: "another"}))
        if name != "refresh_token":  # the secret of a family that is no longer good ends it: row 19
            yield Attempt(f"a longer {name}", lambda c, f, n=name: post(c, {**f, n: f"{f[n]}x"}))
        yield Attempt(
            f"{name} twice",
            lambda c, f, n=name: httpx.post(
                f"{c.issuer}/oauth/token", content=f"{urlencode(f)}&{n}={f[n]}", headers=FORM
            ),
        )
    beyond = {"resource": "https://unknown.example", "scope": "beyond", "requested_token_type": "x"}
    for name, value in beyond.items():
        if name not in IGNORED.get(grant_type, ()):
            yield Attempt(f"{name}={value}", lambda c, f, n=name, v=value: post(c, {**f, n: v}))
    yield Attempt("Basic and body", lambda c, f: post(c, f, auth=(c.app.client_id, c.app.secret or "")))
    yield Attempt("Basic of nobody", lambda c, f: post(c, _alone(f), auth=("nobody", "x")))
    yield Attempt("Basic that is none", lambda c, f: post(c, _alone(f), headers={"Authorization": "Basic x"}))
    yield Attempt("a bearer token", lambda c, f: post(c, _alone(f), headers={"Authorization": "Bearer x"}))
    yield Attempt("a broken proof", lambda c, f: post(c, f, headers={"DPoP": "a.b.c"}))
    yield Attempt("in the query", lambda c, f: httpx.post(f"{c.issuer}/oauth/token", params=f))
    yield Attempt("JSON", lambda c, f: httpx.post(f"{c.issuer}/oauth/token", json=f))
    yield Attempt("too large", lambda c, f: post(c, {**f, "x": "y" * 100_000}))
    yield Attempt("by GET", lambda c, f: httpx.get(f"{c.issuer}/oauth/token", params=f))


def _alone(form: Form) -> Form:
    """The form without client authentication."""
    return {name: value for name, value in form.items() if not name.startswith("client")}


async def kept(services: Services) -> dict[str, list[str]]:
    """Every row of every table but those that are records."""
    async with services.database.reading() as conn:
        return {
            table.name: sorted(repr(tuple(row)) for row in await conn.execute(select(table)))
            for table in METADATA.sorted_tables
            if table.name not in RECORDS
        }


@pytest.mark.threat("0a", "0b", "0c", "0d", "25d", "25e")
@pytest.mark.parametrize("grant_type", GRANT_TYPES)
def test_every_refusal_is_oauths_and_changes_nothing(ground: Ground, grant_type: str) -> None:
    """JSON with a code of OAuth's, kept by no cache, without a word of what was shown; nothing has changed.

    A code and an assertion are good once, so each attempt has its own; rows 1 and 34 say when they are gone.
    """
    client, form = ground.good(grant_type)
    names = [name for name in form if name != "client_id"]
    ground.take(post(client, form))
    for attempt in attempts(grant_type, names):
        client, form = ground.good(grant_type)
        before = ground.site.server.call(kept)
        refused = attempt.make(client, form)
        told = f"{attempt.what}: {refused.status_code} {refused.text}"
        assert refused.status_code in (400, 401, 405, 413), told
        assert refused.headers["content-type"] == "application/json", told
        assert refused.json()["error"] in CODES, told
        assert refused.headers["cache-control"] == "no-store", told
        assert not [
            member for member in ("access_token", "refresh_token", "id_token") if member in refused.json()
        ]
        assert not [
            (name, value)
            for name, value in form.items()
            if name not in PUBLIC and value in refused.text + repr(refused.headers)
        ]
        assert ground.site.server.call(kept) == before, told
        if grant_type not in ("authorization_code", ASSERTION):
            ground.take(post(client, form))

"""Secrets stand nowhere: every way through the service once, then a search of all that it keeps and tells."""

import asyncio
import io
import logging
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
import pytest
from sqlalchemy import text
from tests.runtime.authorization.pushed_requests import bring, push
from tests.runtime.connect.conftest import account_on, desk_on
from tests.runtime.login.invitations import address, call, home_zone, invite, ok, token_to, zonectl
from tests.support.account_provider import account_provider
from tests.support.canaries import Canaries, short_lived, tables
from tests.support.collector import Collector, collecting
from tests.support.factories import company_of
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site
from tests.support.possession import Holder
from tests.support.publisher import publishing
from tests.support.server import serve
from tests.support.waiting import wait_until

from runtime.adapters.keys.signing import SigningKey
from runtime.domain.kinds import APPLICATION_CREDENTIAL, PROVIDER, ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services.authority import users

ADA = "ada@acme.example"
API = "https://api.example"


def canary() -> str:
    """A word that is nowhere else."""
    return f"canary-{secrets.token_urlsafe(24)}"


class _Records(logging.Handler):
    """What libraries log at the levels that the service lets through."""

    def __init__(self, into: io.StringIO) -> None:
        super().__init__(logging.WARNING)
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.write(self.format(record) + "\n")


@dataclass
class Search:
    """A site whose secrets are all known, and what has been seen of it so far.

    Attributes:
        known: words that are no secret and have to be found, so that the search is known to find.
    """

    site: Site
    log: io.StringIO
    access: io.StringIO
    collector: Collector
    canaries: Canaries = field(default_factory=Canaries)
    known: Canaries = field(default_factory=Canaries)
    refusals: list[httpx.Response] = field(default_factory=list)
    pages: list[httpx.Response] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)

    def look(self) -> None:
        """Keep what stands in the database and in the short-lived state at this moment."""
        services = self.site.services
        self.site.run(services.decisions.flush())
        for place, content in {**self.site.run(tables(services)), **short_lived(services)}.items():
            if content not in (before := self.kept.get(place, b"")):
                self.kept[place] = before + b"\n" + content

    def refused(self, answer: httpx.Response, *statuses: int) -> None:
        """Keep an answer that must be a refusal."""
        assert answer.status_code in (statuses or (400, 401)), answer.text
        self.refusals.append(answer)

    def seen(self, browser: Browser) -> None:
        """Keep what a browser was shown, and its cookies."""
        self.canaries.keep_visits(browser.visited, "code", "request")
        for response in browser.visited:
            if response.headers.get("content-type", "").startswith("text/html"):
                self.pages.append(response)
                if token := Page(response).fields.get("form_token"):
                    self.canaries.keep("form token", token)
        for cookie in browser.http.cookies.jar:
            self.canaries.keep(f"cookie {cookie.name}", cookie.value)

    def client(self, client: Client) -> Client:
        """Keep what a client knows."""
        self.canaries.keep("code verifier", client.verifier)
        if client.app.secret:
            self.canaries.keep("client secret", client.app.secret)
        self.canaries.told |= {client.state: "state", client.nonce: "nonce"}
        return client


@pytest.fixture(
    scope="module", params=[("embedded", "json"), ("servers", "text")], ids=["embedded", "servers"]
)
def search(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Search]:
    """A server that logs everything, on either form of storage."""
    settings: dict[str, Any] = {"log_level": "debug", "log_format": request.param[1], "access_log": "json"}
    if request.param[0] == "servers":
        redis = request.getfixturevalue("redis_server")
        redis.clear()
        settings |= {
            "database_url": asyncio.run(request.getfixturevalue("postgres").migrated()),
            "redis_url": redis.url,
        }
    log = io.StringIO()
    records = _Records(log)
    running = ExitStack()
    collector = running.enter_context(collecting())
    running.enter_context(pytest.MonkeyPatch.context()).setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    settings["traces_endpoint"] = collector.url
    logging.getLogger().addHandler(records)
    with running:
        running.enter_context(redirect_stdout(access := io.StringIO()))
        with redirect_stderr(log):
            server = running.enter_context(serve(tmp_path_factory.mktemp("server"), **settings))
        yield Search(Site(server, company_of(server)), log, access, collector)
    logging.getLogger().removeHandler(records)


@pytest.fixture(scope="module")
def searched(search: Search) -> Search:
    """The same search, after every way through the service has been taken once."""
    site, canaries = search.site, search.canaries
    canaries.keep("API key", site.server.api_key)
    zone, password = site.zone("Home"), canaries.keep("password", canary())
    site.run(users.create_local_user(site.services, zone.id, ADA, password, verified=True))
    api = site.run(site.company.resource(zone, API, scopes=["read"]))
    client = search.client(site.app(zone, "notes", dependencies=[api]))
    search.known = Canaries({client.app.client_id: "client id", ADA: "address"})

    sign_in_and_use(search, client, password)
    push_and_prove(search, zone, password)
    assert_and_register(search, zone, password)
    sign_in_elsewhere(search, zone, password)
    connect_an_account(search)
    manage(search, zone)
    invited(search)
    fail(search, client)

    search.look()
    for address_of in (f"{site.server.url}/docs", f"{site.server.url}/z/unknown/oauth/authorize"):
        search.pages.append(httpx.get(address_of))
    return search


class TestSearch:
    """It finds what is there; without that, finding no secret would prove nothing."""

    def test_finds_what_is_no_secret(self, searched: Search) -> None:
        """A client's id and a user's address stand in the columns that are for them."""
        assert "client id in application_credentials.identifier" in searched.known.found_in(searched.kept)
        assert "address in users.email" in searched.known.found_in(searched.kept)

    def test_looks_at_the_short_lived_state(self, searched: Search) -> None:
        """At codes, at pushed requests and at sign-ins that are under way."""
        assert {"state code", "state pushed", "state interaction"} < set(searched.kept)

    def test_knows_many_secrets_and_pages(self, searched: Search) -> None:
        """More than 50 secrets, and more than 10 pages: no way through the service was left out."""
        assert len(searched.canaries.secrets) > 50
        assert len(searched.pages) > 10


@pytest.mark.threat("32e", "32f")
def test_no_secret_is_kept_as_it_is(searched: Search) -> None:
    """What stands in the database and in the short-lived state is sealed or hashed."""
    assert searched.canaries.found_in(searched.kept) == []


@pytest.mark.threat("32a", "32g")
def test_no_secret_is_logged(searched: Search) -> None:
    """Not at the level `debug` either; addresses are logged without their parameters."""
    log = searched.log.getvalue().encode()
    assert b"request failed" in log
    assert b"request refused" in log
    assert searched.canaries.found_in({"log": log}, told=True) == []


@pytest.mark.threat("32g")
def test_no_secret_is_in_the_access_log(searched: Search) -> None:
    """Neither from a query, nor from a path that opens something to its readers."""
    access = searched.access.getvalue().encode()
    assert b'"path":"/invitations/***/accept"' in access
    assert b'"endpoint":"/oauth/token"' in access
    assert searched.canaries.found_in({"access log": access}, told=True) == []


def test_no_secret_is_in_a_trace(searched: Search) -> None:
    """Neither in a name nor in an attribute of a span, nor in what a failed step says."""
    last = httpx.get(f"{searched.site.server.url}/healthz").headers["X-Request-ID"]
    wait_until(lambda: searched.collector.trace_of(last))
    names = {span.name for span in searched.collector.spans}
    assert {"POST /oauth/token", "client authentication", "vault", "signing"} < names
    assert "POST to another server" in names
    assert searched.canaries.found_in({"traces": b"".join(searched.collector.bodies)}, told=True) == []


@pytest.mark.threat("32b")
def test_no_secret_is_on_record(searched: Search) -> None:
    """Neither in the audit log as its readers see it, nor in the rows of it and of token events."""
    rows = {f"audit, {name}": searched.kept[name] for name in searched.kept if "_events." in name}
    told = {"audit": call(searched.site, "GET", "/audit-events?limit=100").content, **rows}
    assert searched.canaries.found_in(told, told=True) == []


@pytest.mark.threat("32c")
def test_no_secret_is_in_metrics(searched: Search) -> None:
    """Neither in their names nor in their labels."""
    metrics = httpx.get(f"{searched.site.server.url}/metrics").content
    assert b"zoned_token_requests_total" in metrics
    assert searched.canaries.found_in({"metrics": metrics}, told=True) == []


@pytest.mark.threat("32d")
def test_no_secret_is_in_a_refusal(searched: Search) -> None:
    """No error body repeats a secret that was sent, right or wrong."""
    refusals = searched.refusals
    bodies = {f"the refusal {one.request.url.path} {one.status_code}": one.content for one in refusals}
    assert searched.canaries.found_in(bodies) == []


@pytest.mark.threat("32h")
def test_no_page_tells_the_next_one_where_the_browser_has_been(searched: Search) -> None:
    """Every page that was seen on the way has `Referrer-Policy: no-referrer`."""
    assert not [page for page in searched.pages if not page.headers["content-type"].startswith("text/html")]
    assert {page.headers["referrer-policy"] for page in searched.pages} == {"no-referrer"}


def sign_in_and_use(search: Search, client: Client, password: str) -> None:
    """Wrongly, then rightly; the tokens used, rotated, exchanged, introspected, revoked, signed out with."""
    canaries, browser = search.canaries, Browser()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    search.look()
    wrong = canaries.keep("wrong password", canary())
    again = browser.send(page, email=ADA, password=wrong)
    assert isinstance(again, Page)
    code = browser.sign_in(again, ADA, password).code
    search.seen(browser)
    canaries.keep("code", code)
    search.look()
    for changes in ({"code_verifier": canary() + "x" * 20}, {"client_secret": canary()}, {"code": canary()}):
        (value,) = changes.values()
        canaries.keep(f"wrong {next(iter(changes))}", value)
    bad_secret = next(word for word, what in canaries.secrets.items() if what == "wrong client_secret")
    bad_code = next(word for word, what in canaries.secrets.items() if what == "wrong code")
    search.refused(client.redeem(code, client_secret=bad_secret))
    search.refused(client.redeem(bad_code))
    tokens = canaries.keep_tokens("sign-in", client.redeem(code))
    search.look()
    search.refused(client.redeem(code))
    tokens = canaries.keep_tokens("second sign-in", client.redeem(_code(search, browser, client)))
    rotated = canaries.keep_tokens("refresh", client.refresh(tokens["refresh_token"]))
    assert client.refresh(tokens["refresh_token"]).json()["refresh_token"] == rotated["refresh_token"]
    search.look()
    canaries.keep_tokens("client credentials", client.token(grant_type="client_credentials"))
    exchange = {"grant_type": GRANT_TYPE, "subject_token_type": ACCESS_TOKEN, "resource": API}
    exchanged = client.token(**exchange, subject_token=rotated["access_token"])
    canaries.keep_tokens("exchange", exchanged)
    search.look()
    search.refused(
        client.token(**exchange, subject_token=canaries.keep("wrong subject", f"e30.e30.{canary()}"))
    )
    assert client.userinfo(rotated["access_token"]).status_code == 200
    search.refused(client.userinfo(canaries.keep("wrong bearer", canary())))
    for endpoint in ("introspect", "revoke"):
        form = {**client.app.form, "token": rotated["access_token"]}
        assert httpx.post(f"{client.issuer}/oauth/{endpoint}", data=form).status_code == 200
        unknown = {**client.app.form, "token": canaries.keep("unknown token", canary())}
        assert httpx.post(f"{client.issuer}/oauth/{endpoint}", data=unknown).status_code == 200
    account = browser.open(f"{client.issuer}/account")
    assert isinstance(account, Page)
    search.look()
    state = canary()
    canaries.told[state] = "state of a sign-out"
    query = {"id_token_hint": rotated.get("id_token", tokens["id_token"]), "state": state}
    browser.visited.append(browser.http.get(f"{client.issuer}/openid/logout", params=query))
    hint = canaries.keep("wrong hint", f"e30.e30.{canary()}")
    browser.visited.append(browser.http.get(f"{client.issuer}/openid/logout", params={"id_token_hint": hint}))
    logout_token = canaries.keep("logout token", f"e30.e30.{canary()}")
    search.refused(httpx.post(f"{client.issuer}/openid/backchannel", data={"logout_token": logout_token}))
    browser.open(client.url(prompt="none", redirect_uri=f"https://evil.example/{state}"))
    search.seen(browser)
    search.look()


def push_and_prove(search: Search, zone: Zone, password: str) -> None:
    """A pushed request and a key that is proven, at a public client."""
    canaries, browser, holder = search.canaries, Browser(), Holder()
    tool = search.client(search.site.app(zone, "tool", public=True))
    pushed = push(tool)
    request_uri = canaries.keep("request_uri", pushed.json()["request_uri"].rpartition(":")[2])
    search.look()
    place = browser.open(bring(tool, pushed.json()["request_uri"]))
    assert isinstance(place, Page)
    code = canaries.keep("code", browser.sign_in(place, ADA, password).code)
    assert request_uri
    search.refused(httpx.get(bring(tool, pushed.json()["request_uri"])))
    endpoint = f"{tool.issuer}/oauth/token"
    form = {
        **tool.app.form,
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": tool.redirect_uri,
        "code_verifier": tool.verifier,
    }
    proof = canaries.keep("proof", holder.proof(endpoint))
    first = canaries.keep_tokens("bound", httpx.post(endpoint, data=form, headers={"DPoP": proof}))
    again = {**tool.app.form, "grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    search.refused(httpx.post(endpoint, data=again, headers={"DPoP": proof}))
    uri = f"{tool.issuer}/openid/userinfo"
    presented = canaries.keep("proof", holder.proof(uri, "GET", access_token=first["access_token"]))
    headers = {"Authorization": f"DPoP {first['access_token']}", "DPoP": presented}
    assert httpx.get(uri, headers=headers).status_code == 200
    search.refused(httpx.get(uri, headers=headers))
    search.seen(browser)
    search.look()


def assert_and_register(search: Search, zone: Zone, password: str) -> None:
    """A client that signs assertions, and one that registers itself and asks."""
    canaries, site, key = search.canaries, search.site, SigningKey.generate("ES256")
    issuer = str(zone.protocols.oauth2.issuer)
    with publishing() as publisher:
        app = site.app(zone, "signer").app
        made = site.run(
            site.company.create(
                APPLICATION_CREDENTIAL,
                zone.id,
                application_id=app.id,
                type="public-key",
                identifier="signing-client",
                jwks_uri=publisher.publish("/keys", {"keys": [key.public_jwk]}),
            )
        )
        now = int(site.services.clock().timestamp())
        said = {"iss": made.identifier, "sub": made.identifier, "aud": issuer, "iat": now, "exp": now + 60}
        for changes, is_right in (({}, True), ({"aud": "https://other.example"}, False)):
            claims = {**said, "jti": secrets.token_hex(8), **changes}
            assertion = canaries.keep("assertion", key.sign(claims, typ="JWT"))
            form = {
                "grant_type": "client_credentials",
                "client_assertion_type": CLIENT_ASSERTION_TYPE,
                "client_assertion": assertion,
            }
            answer = httpx.post(f"{issuer}/oauth/token", data=form)
            if is_right:
                canaries.keep_tokens("asserted", answer)
            else:
                search.refused(answer)
    grant = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", **app.form}
    grant["assertion"] = canaries.keep("bearer assertion", f"e30.e30.{canary()}")
    search.refused(httpx.post(f"{issuer}/oauth/token", data=grant))
    metadata = {"redirect_uris": ["https://app.example/callback"], "client_name": "Registered"}
    search.refused(
        httpx.post(
            f"{issuer}/oauth/register",
            json=metadata | {"software_statement": canaries.keep("statement", f"e30.e30.{canary()}")},
        )
    )
    registered = httpx.post(f"{issuer}/oauth/register", json=metadata).json()
    stranger = search.client(site.stranger(zone, registered["client_id"], metadata["redirect_uris"][0]))
    browser = Browser()
    page = browser.open(stranger.url())
    assert isinstance(page, Page)
    asked = browser.send(page, email=ADA, password=password)
    assert isinstance(asked, Page)
    search.look()
    answer = browser.send(asked, decision="allow")
    assert isinstance(answer, Answer)
    canaries.keep("code", answer.code)
    search.look()
    canaries.keep_tokens("registered", stranger.redeem(answer.code))
    search.seen(browser)


def sign_in_elsewhere(search: Search, home: Zone, password: str) -> None:
    """A zone that signs its people in at another one, with a secret, and signs them out there."""
    site, canaries = search.site, search.canaries
    product = site.zone("Product")
    addresses = {
        "redirect_uris": [str(product.protocols.oauth2.redirect_uri)],
        "post_logout_redirect_uris": [f"{product.protocols.oauth2.issuer}/openid/logout/callback"],
    }
    door = search.client(site.app(home, "door", protocols={"oauth2": addresses})).app
    issuer = str(home.protocols.oauth2.issuer)
    provider = site.run(
        site.company.create(
            PROVIDER,
            product.id,
            identifier=issuer,
            name="Home",
            client_id=door.client_id,
            client_secret=door.secret,
            protocols={"oauth2": {"issuer": issuer}, "openid": {"single_logout_enabled": True}},
        )
    )
    site.run(site.company.run(ZONE, Verb.UPDATE, {}, product.id, {"user_identity_provider_id": provider.id}))
    client, browser = search.client(site.app(product, "board")), Browser()
    page = browser.open(client.url())
    assert isinstance(page, Page)
    search.look()
    with listening_in(search):
        code = canaries.keep("code", browser.sign_in(page, ADA, password).code)
    tokens = canaries.keep_tokens("federated", client.redeem(code))
    search.seen(browser)
    search.look()
    browser.open(f"{client.issuer}/openid/logout?id_token_hint={tokens['id_token']}")
    search.seen(browser)
    search.look()


def connect_an_account(search: Search) -> None:
    """An account at an outside provider, whose tokens are handed out; and a key that a user gives."""
    canaries, browser = search.canaries, Browser()
    canaries.keep("password", PASSWORD)
    with account_provider() as tracker:
        desk = desk_on(search.site, browser)
        secret = canaries.keep("client secret at the provider", canary())
        account = account_on(desk, tracker, client_secret=secret)
        search.client(desk.agent)
        search.client(account.agent)
        token = canaries.keep("subject token", desk.sign_in(account.agent))
        page = desk.page(account.link(token))
        search.look()
        back = account.callback(page)
        canaries.keep("code of the provider", dict(parse_qsl(urlsplit(back).query))["code"])
        assert isinstance(browser.open(back), Page)
        canaries.keep("upstream token", tracker.issued[0])
        canaries.keep("upstream refresh token", tracker.renewing[0])
        canaries.keep("code verifier for the provider", tracker.redeemed[0]["code_verifier"])
        assert account.exchange(token)["access_token"] == tracker.issued[0]
        token = canaries.keep("subject token", desk.sign_in(desk.agent))
        page = desk.page(desk.link(token, desk.tickets))
        key = canaries.keep("key of a user", canary())
        assert isinstance(desk.allow(page, credential=key), Page)
        assert desk.exchange(token, desk.tickets)["access_token"] == key
    search.seen(browser)
    search.look()


@contextmanager
def listening_in(search: Search) -> Iterator[None]:
    """Keep what the service itself sends to a provider's token endpoint: the code, and its own verifier."""
    outbound = search.site.services.outbound
    post = outbound.post

    async def heard(url: str, body: bytes, **more: Any) -> Any:
        fields = dict(parse_qsl(body.decode()))
        for name in ("code", "code_verifier"):
            search.canaries.keep(f"the service's own {name}", fields[name])
        return await post(url, body, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbound, "post", heard)
        yield


def manage(search: Search, zone: Zone) -> None:
    """Secrets, keys, the sign-in of an organization's people elsewhere; rightly and wrongly."""
    site, canaries = search.site, search.canaries
    url, headers = f"{site.server.url}/zones/{zone.id}", site.server.headers
    owner = site.app(zone, "owner").app.id
    for kind, member in (("token", "token"), ("password", "password")):
        data = {"type": kind, member: canaries.keep(f"secret data {kind}", canary())}
        data |= {"username": "svc"} if kind == "password" else {}
        body = {"name": kind, "entity_id": owner, "data": data, "zone_id": zone.id}
        made = httpx.post(f"{url}/secrets", json=body, headers=headers)
        assert made.status_code == 200, made.text
        path = f"{url}/secrets/{made.json()['id']}"
        assert httpx.get(path, headers=headers).json()["data"] == data
        search.refused(httpx.patch(path, json={"data": {**data, "type": data[member]}}, headers=headers))
        search.refused(httpx.patch(path, json={"data": {**data, "more": 1}}, headers=headers))
    secret = canaries.keep("SSO client secret", canary())
    sso = {"client_id": "organization", "client_secret": secret, "identifier": "https://login.acme.example"}
    search.refused(call(site, "POST", "/sso-connection", {**sso, "more": secret}))
    ok(site, "POST", "/sso-connection", sso)
    ok(site, "PATCH", "/sso-connection", {"client_secret": canaries.keep("SSO client secret", canary())})
    search.look()
    ok(site, "DELETE", "/sso-connection")
    account = ok(site, "POST", "/service-accounts", {"name": "robot"})
    credential = ok(site, "POST", f"/service-accounts/{account['id']}/credentials", {"name": "key"})
    form = {
        "grant_type": "client_credentials",
        "client_id": credential["client_id"],
        "client_secret": canaries.keep("service account secret", credential["client_secret"]),
    }
    issued = httpx.post(f"{site.server.url}/service-account-token", data=form)
    canaries.keep_tokens("service account", issued)
    search.refused(
        httpx.post(
            f"{site.server.url}/service-account-token",
            data={**form, "client_secret": canaries.keep("wrong service account secret", canary())},
        )
    )
    key = canaries.keep("wrong key", canary())
    search.refused(httpx.get(f"{site.server.url}/zones", headers={"Authorization": f"Bearer {key}"}))
    query = canary()
    canaries.told[query] = "query of a list"
    search.refused(httpx.get(f"{site.server.url}/zones?cursor={query}", headers=headers))
    assert call(site, "GET", f"/snapshot?zone={zone.id}").status_code == 200
    search.look()


def invited(search: Search) -> None:
    """Invited by mail, registered, signed in to the organization, and its token."""
    site, canaries = search.site, search.canaries
    waiting, email = address(), address()
    ok(site, "POST", "/invitations", {"email": waiting, "role": "org_viewer"})
    search.look()  # the letter waits
    canaries.keep("invitation token", token_to(site, waiting))
    _, token = invite(site, email)
    canaries.keep("invitation token", token)
    assert httpx.get(f"{site.server.url}/invitations/{token}").status_code == 200
    issuer, browser = home_zone(site).protocols.oauth2.issuer, Browser()
    page = browser.open(f"{issuer}/oauth/sign-up?invitation={token}")
    assert isinstance(page, Page)
    search.look()
    password = canaries.keep("password", canary())
    short = browser.send(page, password=canary()[:11])
    assert isinstance(short, Page)
    assert isinstance(browser.send(short, password=password), Page)
    search.refused(httpx.post(f"{site.server.url}/invitations/{token}/accept"), 409)
    search.refused(httpx.get(f"{site.server.url}/invitations/{canaries.keep('unknown', 'x' * 43)}"), 404)
    person = search.client(zonectl(site))
    answer = browser.sign_in(
        browser.open(person.url(resources=[site.server.url], scope="openid")), email, password
    )
    code = canaries.keep("code", answer.code)
    access = canaries.keep_tokens("person", person.redeem(code))["access_token"]
    path = f"{site.server.url}/organizations/{site.server.organization_id}/token"
    canaries.keep_tokens("organization", httpx.post(path, headers={"Authorization": f"Bearer {access}"}))
    search.seen(browser)
    search.look()


def fail(search: Search, client: Client) -> None:
    """What nobody has foreseen: columns are gone, and what could not be done is logged."""
    site = search.site
    token = next(word for word, what in search.canaries.secrets.items() if what == "invitation token")
    refresh = next(word for word, what in search.canaries.secrets.items() if what == "refresh: refresh_token")

    async def rename(there: str, here: str) -> None:
        async with site.services.database.transaction() as conn:
            for table in ("invitations", "refresh_families"):
                await conn.execute(text(f"ALTER TABLE {table} RENAME COLUMN {there} TO {here}"))

    site.run(rename("id", "gone"))
    try:
        for method in ("GET", "POST"):
            path = f"/invitations/{token}" + ("/accept" if method == "POST" else "")
            search.refused(httpx.request(method, site.server.url + path), 500, 503)
        search.refused(client.refresh(refresh), 500, 503)
    finally:
        site.run(rename("gone", "id"))


def _code(search: Search, browser: Browser, client: Client) -> str:
    place = browser.open(client.url())
    assert isinstance(place, Answer), place
    return search.canaries.keep("code", place.code)


@pytest.mark.parametrize(
    "form",
    [
        lambda word: b"..." + word + b"...",
        lambda word: quote(word, safe="").encode(),
        lambda word: word.hex().encode(),
        *(lambda word, lead=lead: b64encode(b"x" * lead + word + b"end") for lead in range(4)),
        lambda word: urlsafe_b64encode(b"??" + word),
    ],
)
def test_a_search_knows_a_secret_in_other_letters(form: Callable[[bytes], bytes]) -> None:
    """As it is, as part of an address, in hexadecimal digits and in either Base64, wherever it begins."""
    word = b"canary~/?>\xc3\xa9-0123456789"
    canaries = Canaries({word.decode(): "it"})
    assert canaries.found_in({"here": form(word), "there": b"nothing"}) == ["it in here"]
    assert canaries.found_in({"here": form(word[::-1])}) == []

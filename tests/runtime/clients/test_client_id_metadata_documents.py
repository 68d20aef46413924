"""Clients whose id is the address of a document: who is let in, what is fetched, what is noticed."""

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import update
from tests.runtime.authority.session_scenes import let_a_second_pass
from tests.support import publisher
from tests.support.documents import Documents, publishing
from tests.support.factories import Company
from tests.support.oauth_site import PASSWORD, Answer, Browser, Client, Page, Site, assert_page, claims
from tests.support.server import serve
from tests.support.waiting import wait_until

from runtime.adapters.keys.signing import SigningKey
from runtime.adapters.outbound import OutboundFailed
from runtime.domain.kinds import APPLICATION_CREDENTIAL, ZONE, Verb
from runtime.domain.kinds.zone import Zone
from runtime.domain.oauth.assertions import CLIENT_ASSERTION_TYPE
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE
from runtime.services import rate_limits, revocation_list
from runtime.services.management.access.caller import Caller
from runtime.storage.sql.tables import TABLES

LOCAL = "http://127.0.0.1:8600/callback"
_user_agents = TABLES["UserAgent"]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Documents]:
    """Where clients publish their documents."""
    with publishing(tmp_path_factory.mktemp("documents")) as site:
        yield site


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, documents: Documents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A running server that trusts the clients' site."""
    with serve(tmp_path_factory.mktemp("server")) as server:
        caller = Caller("tester", "system", server.organization_id, "org_admin", "tester")
        yield Site(server, Company(server.services, caller, server.organization_id, server.api_key))


def admitting(site: Site, *entries: str, enabled: bool = True) -> Zone:
    """A zone with Ada and that allowlist."""
    zone = site.zone("Acme people")
    site.user(zone)
    site.run(site.company.resource(zone, "https://tools.example/mcp", scopes=["read"]))
    patch = {"protocols": {"oauth2": {"cimd": {"enabled": enabled, "allowed_client_ids": list(entries)}}}}
    changed: Zone = site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))
    return changed


@pytest.fixture(scope="module")
def zone(site: Site) -> Zone:
    """A zone that lets every such client in."""
    return admitting(site, "*")


def is_asked(browser: Browser, client: Client, **changes: Any) -> bool:
    """Whether the user is asked for consent, having signed in if that was due."""
    place = browser.open(client.url(**changes))
    if isinstance(place, Page) and place.action.endswith("/sign-in"):
        place = browser.send(place, email="ada@acme.example", password=PASSWORD)
    return isinstance(place, Page) and place.action.endswith("/oauth/consent")


def asked(browser: Browser, client: Client, **changes: Any) -> Page:
    place = browser.open(client.url(**changes))
    if isinstance(place, Page) and place.action.endswith("/sign-in"):
        place = browser.send(place, email="ada@acme.example", password=PASSWORD)
    assert isinstance(place, Page), place
    assert place.action.endswith("/oauth/consent"), place.text
    return place


def let_in(client: Client) -> httpx.Response:
    """The first answer to an authorize request: on to signing in, or a page that says no."""
    return httpx.get(client.url())


def grow_old(site: Site, client: Client) -> None:
    """Let what is known of the client's document be over."""

    async def age() -> None:
        async with site.services.database.transaction() as conn:
            await conn.execute(
                update(_user_agents)
                .where(
                    _user_agents.c.zone_id == client.zone.id,
                    _user_agents.c.identifier == client.app.client_id,
                )
                .values(fresh_until=site.services.clock() - timedelta(seconds=1))
            )

    site.run(age())


@pytest.mark.standard("Client ID Metadata Document")
def test_discovery_says_that_documents_are_taken(site: Site, zone: Zone) -> None:
    """And that a client may be without a secret."""
    issuer = zone.protocols.oauth2.issuer
    metadata = httpx.get(f"{issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["client_id_metadata_document_supported"] is True
    assert "none" in metadata["token_endpoint_auth_methods_supported"]


@pytest.mark.standard("Client ID Metadata Document")
def test_discovery_says_that_documents_are_not_taken(site: Site) -> None:
    """In so many words: a client need not guess from a member that is missing."""
    issuer = site.zone("no-documents").protocols.oauth2.issuer
    metadata = httpx.get(f"{issuer}/.well-known/oauth-authorization-server").json()
    assert metadata["client_id_metadata_document_supported"] is False


@pytest.mark.standard("Client ID Metadata Document")
def test_a_client_nobody_here_knows_gets_tokens_by_its_document(
    site: Site, zone: Zone, documents: Documents
) -> None:
    """Its document is all it takes for a code, a token for a resource and a refresh; the user is told so."""
    client = site.stranger(zone, documents.client("/known.json"), LOCAL)

    page = asked(Browser(), client)
    assert "Notebook agent" in page.text
    assert "registered itself" in page.text
    tokens = client.sign_in(resources=["https://tools.example/mcp"], scope="openid read")

    assert claims(tokens["access_token"])["client_id"] == client.app.client_id
    assert claims(tokens["access_token"])["aud"] == "https://tools.example/mcp"
    assert client.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.threat("15c")
def test_a_document_does_not_say_what_its_client_is(site: Site, zone: Zone, documents: Documents) -> None:
    """It stands in the chain, whatever its document claims, as one that nobody here knows: no `sub_profile`.

    An application of the zone, further on in the same chain, has its own.
    """
    tag = secrets.token_hex(3)
    deep = site.run(site.company.resource(zone, f"https://deep-{tag}.example", scopes=["read"]))
    agent = site.app(zone, f"server-{tag}", dependencies=[deep], traits=["ai-agent"])
    tools = site.run(
        site.company.resource(
            zone, f"https://tools-{tag}.example", scopes=["call"], application_id=agent.app.id
        )
    )
    document = documents.client(f"/profile-{tag}.json", sub_profile="service", traits=["ai-agent"])
    client = site.stranger(zone, document, LOCAL)
    token = client.sign_in(resources=[tools.identifier], scope="call")["access_token"]
    assert claims(token)["sub_profile"] == "user"

    exchanged = agent.token(
        grant_type=GRANT_TYPE,
        subject_token=token,
        subject_token_type=ACCESS_TOKEN,
        resource=deep.identifier,
    )

    assert exchanged.status_code == 200, exchanged.text
    act = claims(exchanged.json()["access_token"])["act"]
    assert (act["sub"], act["sub_profile"]) == (f"server-{tag}", "ai_agent")
    assert act["act"]["sub"] == act["act"]["client_id"] == document
    assert "sub_profile" not in act["act"]


@pytest.mark.standard("Client ID Metadata Document")
def test_a_document_is_read_once_while_it_is_fresh(site: Site, zone: Zone, documents: Documents) -> None:
    """For the page, the code, the token and the refresh together; and again when it has grown old."""
    client = site.stranger(zone, documents.client("/whole.json"), LOCAL)
    asked(Browser(), client)
    tokens = client.sign_in(resources=["https://tools.example/mcp"], scope="openid read")
    assert client.refresh(tokens["refresh_token"]).status_code == 200
    assert documents.asked.count("/whole.json") == 1

    grow_old(site, client)
    assert let_in(client).status_code == 303
    assert documents.asked.count("/whole.json") == 2


@pytest.mark.threat("8k")
def test_the_list_comes_before_the_fetch(site: Site, documents: Documents) -> None:
    """Who is not on it is not asked about; with the switch off nobody is."""
    address = documents.client("/listed.json")
    for entries, enabled in (
        (["https://other.example/listed.json", "https://*.localhost"], True),
        (["*"], False),
        ([f"{address}x"], True),
    ):
        client = site.stranger(admitting(site, *entries, enabled=enabled), address, LOCAL)
        assert_page(let_in(client), 400)
    assert "/listed.json" not in documents.asked

    assert let_in(site.stranger(admitting(site, address), address, LOCAL)).status_code == 303


@pytest.mark.threat("6k")
def test_a_site_that_the_list_names_is_told_by_redirect(site: Site, zone: Zone, documents: Documents) -> None:
    """Whoever runs the zone has vouched for it, but not for what everybody may say who comes in by `*`."""
    web = f"{documents.origin}/callback"
    address = documents.client("/named.json", redirect_uris=[web, "https://elsewhere.test/callback"])
    named = site.stranger(admitting(site, address), address, web)

    answer = Answer(httpx.get(named.url(prompt="none")).headers["location"])

    assert answer.location.startswith(web)
    assert answer.values["error"] == "login_required"
    named.redirect_uri = "https://elsewhere.test/callback"
    assert_page(httpx.get(named.url(prompt="none")), 400)
    assert_page(httpx.get(site.stranger(zone, address, web).url(prompt="none")), 400)


@pytest.mark.threat("8m")
def test_who_is_let_in_no_longer(site: Site, documents: Documents) -> None:
    """A zone that takes a client from its list ends what the client could still refresh."""
    zone = admitting(site, "*")
    client = site.stranger(zone, documents.client("/dropped.json"), LOCAL)
    tokens = client.sign_in()
    patch = {"protocols": {"oauth2": {"cimd": {"enabled": True, "allowed_client_ids": []}}}}
    site.run(site.company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))

    refused = client.refresh(tokens["refresh_token"])

    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert_page(let_in(client), 400)


@pytest.mark.threat("8n")
@pytest.mark.parametrize("cimd", [{"allowed_client_ids": []}, {"enabled": False}], ids=["list", "switch"])
def test_what_a_client_was_issued_ends_when_it_is_let_in_no_longer(
    site: Site, documents: Documents, cimd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is shown, also when the client is let in again; then it gets new ones."""
    monkeypatch.setattr(revocation_list, "FRESH_SECONDS", 0.0)
    zone = site.zone("Acme people")
    site.user(zone)
    company, issuer = site.company, zone.protocols.oauth2.issuer
    api = site.run(company.resource(zone, "https://api.example"))
    server = site.app(zone, "server", dependencies=[api])
    site.run(
        company.resource(zone, "https://tools.example/mcp", scopes=["read"], application_id=server.app.id)
    )
    every = {"enabled": True, "allowed_client_ids": ["*"]}

    def admit(**changes: Any) -> None:
        patch = {"protocols": {"oauth2": {"cimd": {**every, **changes}}}}
        site.run(company.run(ZONE, Verb.UPDATE, {}, zone.id, patch))

    def accepted(token: str, of_zone: str) -> list[bool]:
        """Whether exchanges, introspection and userinfo accept these tokens, and the list has none."""
        exchange = {"subject_token": token, "subject_token_type": ACCESS_TOKEN, "resource": api.identifier}
        told = httpx.post(f"{issuer}/oauth/introspect", data={"token": token, **server.app.form}).json()
        listed = httpx.get(f"{issuer}/.well-known/revocations").json()["revocations"]
        digest = revocation_list.digest(claims(token)["client_id"])
        until = max(
            (each["issued_until"] for each in listed if each.get("client_id#S256") == digest), default=0
        )
        return [
            server.token(grant_type=GRANT_TYPE, **exchange).status_code == 200,
            told["active"],
            client.userinfo(of_zone).status_code == 200,
            claims(token)["iat"] > until,
        ]

    admit()
    client = site.stranger(zone, documents.client("/ended.json"), LOCAL)

    def signed_in() -> tuple[str, str]:
        tools = client.sign_in(resources=["https://tools.example/mcp"], scope="openid read")
        return tools["access_token"], client.sign_in()["access_token"]

    before = signed_in()
    assert accepted(*before) == [True] * 4

    admit(**cimd)
    assert accepted(*before) == [False] * 4

    let_a_second_pass(site)
    admit()
    assert accepted(*before) == [False] * 4
    assert accepted(*signed_in())[:3] == [True] * 3  # the list goes by clocks that may be some seconds apart


@pytest.mark.threat("7q", "7u", "7y", "8a", "8c", "8d", "8e")
def test_documents_that_are_none(site: Site, zone: Zone, documents: Documents) -> None:
    """Another identity, a secret, a redirect, too much, no JSON: a page, and nothing is remembered of it."""
    path = "/tricks.json"
    good = {"client_id": f"{documents.origin}{path}", "redirect_uris": [LOCAL]}
    client = site.stranger(zone, f"{documents.origin}{path}", LOCAL)
    elsewhere = {"Location": documents.client("/elsewhere.json")}
    for document, how in (
        (good | {"client_id": good["client_id"].upper()}, {}),
        (good | {"client_id": f"{good['client_id']}/"}, {}),
        (good | {"client_secret": "s"}, {}),
        (good | {"token_endpoint_auth_method": "client_secret_post"}, {}),
        (good | {"redirect_uris": ["javascript:alert(1)"]}, {}),
        (good | {"padding": "x" * 11_000}, {}),
        ([good], {}),
        (b"<html>", {}),
        (good, {"status": 302, "headers": elsewhere}),
        (good, {"status": 404}),
        (good, {"status": 500}),
        (good, {"headers": {"Content-Encoding": "gzip"}}),
    ):
        documents.publish(path, document, **how)
        assert_page(let_in(client), 400)
    assert "/elsewhere.json" not in documents.asked

    documents.publish(path, good)
    assert let_in(client).status_code == 303


@pytest.mark.threat("8l")
def test_nobody_takes_an_applications_name(site: Site, zone: Zone, documents: Documents) -> None:
    """A rule that speaks of an application must not come to mean whoever serves a document under its name."""
    address = documents.client("/taken.json")
    client = site.stranger(zone, address, LOCAL)
    assert let_in(client).status_code == 303

    site.app(zone, address)

    assert_page(let_in(client), 400)


@pytest.mark.threat("7z")
def test_unknown_clients_are_not_fetched_at_the_token_endpoint(
    site: Site, zone: Zone, documents: Documents
) -> None:
    """Only authorization looks at addresses; a client it never saw is none."""
    client = site.stranger(zone, documents.client("/token.json"), LOCAL)

    refused = client.redeem("code")

    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert "/token.json" not in documents.asked
    client.sign_in()  # and after that it is one
    assert client.redeem("code").json()["error"] == "invalid_grant"


@pytest.mark.threat("7a", "7f", "7g", "7h", "7i", "7j", "7k", "7m", "7n", "7o", "7p", "7x", "7y")
def test_special_addresses_get_nothing(
    documents: Documents, site: Site, zone: Zone, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where private addresses are not allowed, which is the default, not a byte reaches them."""
    address = documents.client("/private.json")
    assert let_in(site.stranger(zone, address, LOCAL)).status_code == 303  # ok where they are allowed
    documents.asked.clear()
    with serve(tmp_path_factory.mktemp("strict"), allow_private_addresses=False) as server:
        caller = Caller("tester", "system", server.organization_id, "org_admin", "tester")
        strict = Site(server, Company(server.services, caller, server.organization_id, server.api_key))
        strict_zone = admitting(strict, "*")
        for client_id in (
            address,
            address.replace("localhost", "127.0.0.1"),
            "https://169.254.169.254/latest/meta-data",
            "https://[::ffff:127.0.0.1]/client.json",
            "https://0x7f000001/client.json",
            "https://2130706433/client.json",
            "https://10.0.0.1/client.json",
            "https://100.64.0.1/client.json",
            "https://localhost:22/client.json",
            "http://localhost/client.json",
            "file:///etc/passwd",
        ):
            assert_page(let_in(strict.stranger(strict_zone, client_id, LOCAL)), 400)
    assert documents.asked == []


@pytest.mark.threat("7w")
def test_a_few_at_a_time(site: Site, documents: Documents) -> None:
    """However many clients come at once, a zone fetches ten documents at a time; the same one once."""
    zone = admitting(site, "*")
    clients = [site.stranger(zone, documents.client(f"/many/{n}"), LOCAL) for n in range(30)]
    documents.most_at_once, documents.delay = 0, 0.1
    try:
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(let_in, [*clients, *[clients[0]] * 10]))
    finally:
        documents.delay = 0

    assert {answer.status_code for answer in answers} == {303}
    assert 1 < documents.most_at_once <= 10
    assert documents.asked.count("/many/0") == 1


@pytest.mark.threat("7ad")
def test_slow_keys_hold_up_clients_alone(site: Site, documents: Documents) -> None:
    """Whoever names slow addresses for keys keeps the zone from nothing that it fetches for itself.

    Nor an application from proving itself, whose keys somebody here has named.
    """
    zone, key = admitting(site, "*"), SigningKey.generate("ES256")
    slow = []
    for number in range(12):
        keys = documents.publish(f"/slow/keys/{number}", {"keys": [key.public_jwk]})
        client_id = documents.client(
            f"/slow/{number}", token_endpoint_auth_method="private_key_jwt", jwks_uri=keys
        )
        slow.append(site.stranger(zone, client_id, LOCAL))
    assert {let_in(each).status_code for each in slow} == {303}

    def prove(client: Client) -> httpx.Response:
        return client.redeem("code", **assertion(key, client))

    def application(address: str) -> Client:
        signing = {"type": "public-key", "jwks_uri": address}
        app = site.app(zone).app
        made = site.run(
            site.company.create(APPLICATION_CREDENTIAL, zone.id, application_id=app.id, **signing)
        )
        return site.stranger(zone, made.identifier, LOCAL)

    async def its_own() -> None:
        with pytest.raises(OutboundFailed, match="404"):
            await site.services.outbound.get_json(provider.url, partition=zone.id)

    assert prove(slow[0]).json()["error"] == "invalid_grant"
    with publisher.publishing() as provider, ThreadPoolExecutor(12) as pool:
        well_known = application(provider.publish("/keys", {"keys": [key.public_jwk]}))
        documents.delay, documents.most_at_once = 2, 0
        try:
            proving = [pool.submit(prove, client) for client in slow[1:]]
            wait_until(lambda: documents.at_once == 10)
            site.run(its_own())
            assert prove(well_known).json()["error"] == "invalid_grant", "of the code: its keys were read"
            still_waiting = sum(not each.done() for each in proving)
        finally:
            documents.delay = 0
        answers = [each.result() for each in proving]

    assert documents.most_at_once == 10
    assert still_waiting == len(proving), "neither waited for any of the slow ones"
    assert {answer.status_code for answer in answers} <= {400, 401}


@pytest.mark.threat("7ad")
@pytest.mark.usefixtures("one_window")
def test_other_sites_are_not_flooded(
    site: Site, documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many documents a minute, and a fresh one costs none."""
    few = replace(rate_limits.METADATA_DOCUMENT_FETCHES, amount=2)
    monkeypatch.setattr(rate_limits, "METADATA_DOCUMENT_FETCHES", few)
    zone = admitting(site, "*")
    clients = [site.stranger(zone, documents.client(f"/flood/{n}"), LOCAL) for n in range(3)]

    answers = [let_in(client) for client in (*clients, clients[0])]

    assert [answer.status_code for answer in answers] == [303, 303, 429, 303]
    assert_page(answers[2], 429)
    assert "/flood/2" not in documents.asked


class TestDrift:
    """A document that changes after its users have agreed."""

    @pytest.mark.threat("9a", "9b", "9c", "9d")
    @pytest.mark.parametrize(
        "change",
        [
            {"redirect_uris": [LOCAL, "https://evil.test/callback"]},
            {"client_name": "Acme payroll"},
        ],
    )
    def test_another_client_needs_another_yes(
        self, site: Site, zone: Zone, documents: Documents, change: dict[str, Any]
    ) -> None:
        """Old consent is void for every address of the client, and the trail says so."""
        path = f"/drift-{len(change)}-{next(iter(change))}.json"
        client = site.stranger(zone, documents.client(path), LOCAL)
        browser, target = Browser(), ["https://tools.example/mcp"]
        tokens = client.sign_in(browser, resources=target, scope="openid read")
        plain = client.sign_in(browser, scope="openid email", prompt="login")
        grow_old(site, client)
        assert not is_asked(browser, client, resources=target, scope="openid read")  # the same document: ok
        plain = client.refresh(plain["refresh_token"]).json()
        assert client.userinfo(plain["access_token"]).status_code == 200
        waiting = browser.open(client.url(scope="openid email"))
        assert isinstance(waiting, Answer)

        documents.client(path, **change)
        grow_old(site, client)

        if "redirect_uris" in change:
            evil = client.url(
                resources=target, scope="openid read", redirect_uri="https://evil.test/callback"
            )
            assert "evil.test" in str(Page(browser.http.get(evil, follow_redirects=True)).text)
        assert is_asked(browser, client, resources=target, scope="openid read")
        refused = client.refresh(tokens["refresh_token"], resource=target[0])
        assert (refused.status_code, refused.json()["error"]) == (400, "access_denied")
        heard = [client.refresh(plain["refresh_token"]).json(), client.redeem(waiting.code).json()]
        refused = ("access_denied", "user_authorization_required")
        assert [(each["error"], each["reason"]) for each in heard] == [refused, refused]
        assert client.userinfo(plain["access_token"]).status_code == 401
        events = httpx.get(
            f"{site.server.url}/organizations/{site.server.organization_id}/audit-events",
            headers=site.server.headers,
            params={"limit": 100},
        ).json()["items"]
        changes = [event for event in events if event["action"] == "user_agents.change"]
        (found,) = [each for each in changes if each["before"]["identifier"] == client.app.client_id]
        assert found["after"]["consents"] == "withdrawn"

    @pytest.mark.threat("9d")
    def test_small_changes_are_the_same_client(self, site: Site, zone: Zone, documents: Documents) -> None:
        """Nobody is asked again for a new page of terms, or an address less."""
        two = [LOCAL, "http://127.0.0.1:8600/other"]
        client = site.stranger(zone, documents.client("/small.json", redirect_uris=two), LOCAL)
        browser = Browser()
        client.sign_in(browser)

        documents.client("/small.json", tos_uri="https://agent.example/terms")
        grow_old(site, client)

        assert isinstance(browser.open(client.url()), Answer)


@pytest.mark.threat("34a")
@pytest.mark.standard("Client ID Metadata Document", "RFC 7523")
@pytest.mark.parametrize("where", ["in the document", "at an address"])
def test_a_client_with_keys_of_its_own(site: Site, zone: Zone, documents: Documents, where: str) -> None:
    """It signs, each time anew, and without that it gets nothing; nor anything on its own authority."""
    key, stranger = SigningKey.generate("ES256"), SigningKey.generate("ES256")
    jwks, signing = {"keys": [key.public_jwk]}, {"token_endpoint_auth_method": "private_key_jwt"}
    if where == "in the document":
        client_id = documents.client("/keyed.json", jwks=jwks, **signing)
    else:
        address = documents.publish("/keys.json", jwks)
        client_id = documents.client("/referred.json", jwks_uri=address, **signing)
    client = site.stranger(zone, client_id, LOCAL)
    browser = Browser()
    answer = browser.send(asked(browser, client), decision="allow")
    assert isinstance(answer, Answer)

    tokens = client.redeem(answer.code, **assertion(key, client))
    assert tokens.status_code == 200, tokens.text
    current = tokens.json()["refresh_token"]
    again = assertion(key, client)
    assert client.refresh(current, **again).status_code == 200
    refused = {
        what: client.refresh(current, **shown)
        for what, shown in {
            "used before": again,
            "another key": assertion(stranger, client),
            "nothing": {},
            "a secret": {"client_secret": "s"},
        }.items()
    }
    found = {what: (each.status_code, each.json()["error"]) for what, each in refused.items()}
    assert found == dict.fromkeys(refused, (401, "invalid_client"))
    own = client.token(grant_type="client_credentials", **assertion(key, client))
    assert (own.status_code, own.json()["error"]) == (400, "unauthorized_client")


@pytest.mark.threat("34a")
@pytest.mark.standard("Client ID Metadata Document", "RFC 7523")
def test_a_public_client_that_signs_is_refused(site: Site, zone: Zone, documents: Documents) -> None:
    """Although its document has keys: how it proves who it is has to be said there, too."""
    key = SigningKey.generate("ES256")
    address = documents.publish("/unused-keys.json", {"keys": [key.public_jwk]})
    public = site.stranger(zone, documents.client("/unkeyed.json", jwks_uri=address), LOCAL)
    browser = Browser()
    granted = browser.send(asked(browser, public), decision="allow")
    assert isinstance(granted, Answer)

    refused = public.redeem(granted.code, **assertion(key, public))

    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert public.redeem(granted.code).status_code == 200


@pytest.mark.threat("9d", "9e")
def test_a_key_taken_out_is_worth_nothing(site: Site, zone: Zone, documents: Documents) -> None:
    """Once the document is read again, which the token endpoint does for clients that sign."""
    old, new = SigningKey.generate("ES256"), SigningKey.generate("ES256")

    def publish(key: SigningKey) -> str:
        jwks = {"keys": [key.public_jwk]}
        return documents.client("/rotated.json", token_endpoint_auth_method="private_key_jwt", jwks=jwks)

    client = site.stranger(zone, publish(old), LOCAL)
    browser = Browser()
    answer = browser.send(asked(browser, client), decision="allow")
    assert isinstance(answer, Answer)
    token = client.redeem(answer.code, **assertion(old, client)).json()["refresh_token"]

    publish(new)
    token = client.refresh(token, **assertion(old, client)).json()["refresh_token"]  # fresh, so not read
    grow_old(site, client)

    refused = client.refresh(token, **assertion(old, client))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    void = client.refresh(token, **assertion(new, client))  # users have agreed to another client
    assert (void.status_code, void.json()["error"]) == (400, "access_denied")
    answer = browser.send(asked(browser, client), decision="allow")
    assert isinstance(answer, Answer)
    assert client.redeem(answer.code, **assertion(new, client)).status_code == 200
    documents.publish("/rotated.json", {}, status=500)
    grow_old(site, client)
    refused = client.refresh(token, **assertion(new, client))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


def assertion(key: SigningKey, client: Client) -> dict[str, str]:
    """What a client with a key shows."""
    at, client_id = int(time.time()), client.app.client_id
    said = {"iss": client_id, "sub": client_id, "aud": client.issuer, "jti": secrets.token_hex(8)}
    return {
        "client_assertion_type": CLIENT_ASSERTION_TYPE,
        "client_assertion": key.sign({**said, "iat": at, "exp": at + 60}, typ="JWT"),
    }

"""Token exchange over two nodes: the token comes from one, and is presented at the other.

What a node has cached of a request at itself, or finds in the Redis that both share, widens nothing for whom
the other node answers.
"""

import time
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import httpx
import pytest
import redis as redis_client
from tests.runtime.nodes.conftest import Nodes
from tests.runtime.nodes.views import browser_at, client_at, site_at
from tests.support import chains
from tests.support.factories import App, Person, company_of
from tests.support.oauth_site import Answer
from tests.support.possession import Holder
from tests.support.redis import RedisServer
from tests.support.scene import acting, claims_of
from tests.support.server import Server
from tests.support.waiting import let_pass

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE

BOUND_SECONDS = 1.0
CHAINS, CHAINS_SECONDS = 100, 8.0  # `make fuzz` walks as many as it is told to, at one node
FEWEST_CHAINS = 15  # on the slowest machine


@dataclass
class Shop:
    """Agents that call tools, whose provider calls an API; a token of the agent for a user at each node.

    Attributes:
        stranger: an application with the agent's dependencies that has nothing to do with its tokens.
    """

    nodes: Nodes

    def __post_init__(self) -> None:
        self.company = company_of(self.nodes.first)
        self.nodes.first.call(lambda _: self._begin())

    async def _begin(self) -> None:
        company = self.company
        self.zone = zone = await company.zone()
        self.api = await company.resource(zone, "https://api.example", scopes=["read", "write"])
        self.provider = await company.app(zone, "provider", dependencies=[self.api])
        self.tools = await company.resource(
            zone, "https://tools.example", scopes=["call"], application_id=self.provider.id
        )
        self.unasked = await company.resource(zone, "https://unasked.example", scopes=["read"])
        both = [self.tools, self.api]
        self.agent = await company.app(zone, "agent", dependencies=both)
        self.stranger = await company.app(zone, "stranger", dependencies=both)

    def person(self) -> Person:
        """Somebody who has signed in."""
        return self.nodes.first.call(
            lambda _: self.company.person(self.zone, f"{new_id()[:12]}@customer.example")
        )

    def token(self, app: App, person: Person, **extra: object) -> str:
        """The token of a sign-in to an application."""
        return self.nodes.first.call(lambda _: self.company.token(self.zone, app, person, extra=extra))

    def ask(
        self,
        node: Server,
        app: App,
        token: str,
        resource: Resource,
        /,
        *,
        key: Holder | None = None,
        **more: str | list[str],
    ) -> httpx.Response:
        """The answer of a node to an exchange.

        Args:
            key: that the sender proves to have.
        """
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": resource.identifier,
            **app.form,
            **more,
        }
        endpoint = f"{self.zone.protocols.oauth2.issuer}/oauth/token"
        headers = {"DPoP": key.proof(endpoint)} if key is not None else {}
        return httpx.post(self.nodes.at(node, endpoint), data=form, headers=headers, trust_env=False)

    def introspected(self, node: Server, app: App, token: str) -> dict[str, Any]:
        """What a node tells an application of a token."""
        answer = self._post(node, "introspect", app, token)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def revoke(self, node: Server, app: App, token: str) -> None:
        """Have an application revoke a token, which is answered alike whether it may or not."""
        answer = self._post(node, "revoke", app, token)
        assert answer.status_code == 200, answer.text

    def _post(self, node: Server, endpoint: str, app: App, token: str) -> httpx.Response:
        address = self.nodes.at(node, f"{self.zone.protocols.oauth2.issuer}/oauth/{endpoint}")
        return httpx.post(address, data={"token": token, **app.form}, trust_env=False)

    def exchanged(self, node: Server, app: App, token: str, resource: Resource, /, **more: Any) -> str:
        """The token that a node issues."""
        answer = self.ask(node, app, token, resource, **more)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def refusal(self, node: Server, app: App, token: str, resource: Resource, /, **more: str) -> str:
        """The error code of a refusal."""
        answer = self.ask(node, app, token, resource, **more)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"])


@pytest.fixture(scope="module")
def shop(nodes: Nodes) -> Shop:
    for node in nodes.both:
        nodes.wait(node)
    return Shop(nodes)


@pytest.fixture
def ann(shop: Shop) -> Person:
    return shop.person()


@pytest.mark.threat("14b")
def test_the_provider_presents_it_at_the_other_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """A token that one node issued for the tools is good in the hands of their provider at both."""
    issued = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.tools, scope="call")
    results = [shop.exchanged(node, shop.provider, issued, shop.api, scope="read") for node in nodes.both]
    assert {claims_of(each)["client_id"] for each in results} == {shop.provider.client_id}


@pytest.mark.threat("14a")
def test_a_stranger_presents_it_at_neither_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """Also where the agent or the provider has just been answered with the same question."""
    issued = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.tools, scope="call")
    assert not [
        node for node in nodes.both if not shop.exchanged(node, shop.provider, issued, shop.api, scope="read")
    ]
    refused = [shop.refusal(node, shop.stranger, issued, shop.api, scope="read") for node in nodes.both]
    assert refused == ["invalid_grant"] * 2


@pytest.mark.threat("15a")
def test_may_act_binds_at_both_nodes(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """The agent that is named gets a token at one node; another one is refused at both."""
    named = shop.token(shop.agent, ann, may_act={"sub": "agent"})
    other = shop.token(shop.agent, ann, may_act={"sub": "stranger"})
    assert shop.exchanged(nodes.first, shop.agent, named, shop.api, scope="read")
    refused = [shop.refusal(node, shop.agent, other, shop.api, scope="read") for node in nodes.both]
    assert refused == ["invalid_grant"] * 2


@pytest.mark.threat("15b")
def test_the_actor_token_of_another_is_refused_at_both_nodes(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """After the same exchange without it has filled the cache that both nodes share."""
    subject = shop.token(shop.agent, ann)
    assert shop.exchanged(nodes.first, shop.agent, subject, shop.api, scope="read")
    actor = {"actor_token": shop.token(shop.stranger, ann), "actor_token_type": ACCESS_TOKEN}
    refused = [
        shop.refusal(node, shop.agent, subject, shop.api, scope="read", **actor) for node in nodes.both
    ]
    assert refused == ["invalid_grant"] * 2


@pytest.mark.threat("15c")
def test_a_chain_over_both_nodes_names_everybody(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """The first link is made at one node, the second at the other."""
    first = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.tools, scope="call")
    second = shop.exchanged(nodes.second, shop.provider, first, shop.api, scope="read")
    assert acting(claims_of(second)) == ("provider", "agent")


@pytest.mark.threat("16a", "16b", "16d")
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"scope": "read admin"}, "invalid_scope"),
        ({"scope": "read", "audience": "https://api.internal/admin"}, "invalid_target"),
        ({"scope": "read", "resource": "https://unknown.example"}, "invalid_target"),
        ({"scope": "read", "resource": "https://unasked.example"}, "invalid_target"),
    ],
    ids=["more scopes", "another audience", "an unknown resource", "an undeclared resource"],
)
def test_nothing_grows_at_the_other_node(
    nodes: Nodes, shop: Shop, ann: Person, more: dict[str, str], code: str
) -> None:
    """What one node has issued, and both may find in the cache, widens no request at the other."""
    subject = shop.token(shop.agent, ann)
    assert not [
        node for node in nodes.both if not shop.exchanged(node, shop.agent, subject, shop.api, scope="read")
    ]
    assert [shop.refusal(node, shop.agent, subject, shop.api, **more) for node in nodes.both] == [code] * 2


@pytest.mark.threat("17c")
def test_both_nodes_issue_one_token_for_one_question(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """The cache is shared: scopes in another order are the same question, at the other node too."""
    subject = shop.token(shop.agent, ann)
    first = shop.exchanged(nodes.first, shop.agent, subject, shop.api, scope="read write")
    assert shop.exchanged(nodes.second, shop.agent, subject, shop.api, scope="write read") == first


@pytest.mark.threat("17a", "17b")
def test_another_application_gets_its_own_token_at_the_other_node(
    nodes: Nodes, shop: Shop, ann: Person
) -> None:
    """The same user, resource and scopes, right after the first application's."""
    first = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.api, scope="read")
    second = shop.exchanged(
        nodes.second, shop.stranger, shop.token(shop.stranger, ann), shop.api, scope="read"
    )
    assert second != first
    assert claims_of(second)["client_id"] == shop.stranger.client_id
    assert acting(claims_of(second)) == ("stranger",)


@pytest.mark.threat("17e")
def test_another_session_gets_its_own_token_at_the_other_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """The same user, application, resource and scopes, from a second sign-in."""
    again = nodes.first.call(lambda _: shop.company.signed_in(shop.zone, ann.user))
    first = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.api, scope="read")
    second = shop.exchanged(nodes.second, shop.agent, shop.token(shop.agent, again), shop.api, scope="read")
    assert (claims_of(first)["sid"], claims_of(second)["sid"]) == (ann.session_id, again.session_id)


@pytest.mark.threat("14c")
def test_introspection_tells_a_stranger_nothing_at_either_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """The provider of what the token is for hears at both that it is active."""
    issued = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.tools, scope="call")
    assert not [
        node for node in nodes.both if shop.introspected(node, shop.provider, issued)["active"] is not True
    ]
    assert [shop.introspected(node, shop.stranger, issued) for node in nodes.both] == [{"active": False}] * 2


@pytest.mark.threat("14d")
def test_a_stranger_revokes_nothing_at_the_other_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """It stays active at both; revoked by its own client there, it is over here."""
    issued = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.tools, scope="call")

    def active() -> list[bool]:
        return [shop.introspected(node, shop.provider, issued)["active"] for node in nodes.both]

    shop.revoke(nodes.second, shop.stranger, issued)
    let_pass(BOUND_SECONDS)
    assert active() == [True, True]
    shop.revoke(nodes.second, shop.agent, issued)
    let_pass(BOUND_SECONDS)
    assert active() == [False, False]


@pytest.mark.threat("14e")
@pytest.mark.parametrize("end", ["", "/"])
def test_no_resource_is_called_as_a_zone_of_the_other_node(nodes: Nodes, shop: Shop, end: str) -> None:
    """The zone was made a moment ago at the one, and the resource is made, or renamed, at the other."""
    zone = nodes.second.call(lambda services: replace(shop.company, services=services).zone())
    resources = f"{nodes.first.url}/zones/{zone.id}/resources"

    def send(method: str, address: str, identifier: str) -> httpx.Response:
        body = {"identifier": identifier} | ({"name": "R"} if method == "POST" else {})
        return httpx.request(method, address, json=body, headers=nodes.first.headers, trust_env=False)

    made = send("POST", resources, "https://right.example")
    assert made.is_success, made.text
    issuer = f"{zone.protocols.oauth2.issuer}{end}"
    assert send("POST", resources, issuer).status_code == 400
    assert send("PATCH", f"{resources}/{made.json()['id']}", issuer).status_code == 400


@pytest.mark.threat("15d", "16e")
def test_chains_over_both_nodes_never_grow(nodes: Nodes) -> None:
    """Generated chains whose exchanges go to one node and the other in turn: as `test_chains.py` for one."""
    made = chains.estates(nodes.first, Random("both"), 3)
    ends = time.monotonic() + CHAINS_SECONDS
    tally = chains.walk(
        made,
        examples=CHAINS,
        chance=17,
        until=lambda: time.monotonic() > ends,
        urls=[node.url for node in nodes.both],
    )

    assert tally.chains >= FEWEST_CHAINS
    assert tally.issued > tally.chains / 2, "it is no proof when most of it is refused"
    assert tally.deepest >= 2
    assert tally.refused.keys() >= {"invalid_target", "invalid_scope", "invalid_grant"}


@pytest.mark.threat("16c")
def test_two_resources_are_refused_at_both_nodes(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """Each of them alone has been issued by the one, and may be had of the other."""
    subject = shop.token(shop.agent, ann)
    assert not [
        (node, resource)
        for node in nodes.both
        for resource in (shop.tools, shop.api)
        if not shop.exchanged(node, shop.agent, subject, resource)
    ]
    both = [shop.tools.identifier, shop.api.identifier]
    answers = [shop.ask(node, shop.agent, subject, shop.api, resource=both) for node in nodes.both]
    assert {(each.status_code, each.json()["error"]) for each in answers} == {(400, "invalid_target")}


@pytest.mark.threat("16g")
def test_what_was_authorized_at_one_node_is_all_that_the_other_issues(nodes: Nodes, shop: Shop) -> None:
    """One of two scopes gives a code for that alone; a scope of another resource is refused at both."""
    site, email = site_at(nodes, nodes.first), f"{new_id()[:12]}@customer.example"
    site.user(shop.zone, email)
    client = site.app(shop.zone, new_id()[:12], dependencies=[shop.api, shop.tools])
    there = client_at(nodes, nodes.second, client)
    browser = browser_at(nodes, nodes.first)
    asked = {"resources": [shop.api.identifier], "scope": "openid read"}
    answer = browser.sign_in(browser.open(client.url(**asked)), email)
    code_of_second = browser_at(nodes, nodes.second, browser).open(client.url(**asked))
    assert isinstance(code_of_second, Answer)
    assert not [
        (heard, redeemer)
        for heard, redeemer in ((answer, there), (code_of_second, client))
        if scopes_of(redeemer.redeem(heard.code).json()["access_token"]) != {"read"}
    ]
    url = client.url(**asked | {"scope": "openid call"})
    beyond = [browser_at(nodes, node, browser).open(url) for node in nodes.both]
    errors = [each.values["error"] for each in beyond if isinstance(each, Answer)]
    assert errors == ["invalid_scope"] * 2


@pytest.mark.threat("17d")
def test_another_key_gets_its_own_token_at_the_other_node(nodes: Nodes, shop: Shop, ann: Person) -> None:
    """A bearer token, one for a key and one for another key, of one question: each has its own `cnf`."""
    subject, (one, two) = shop.token(shop.agent, ann), (Holder(), Holder())
    bearer = shop.exchanged(nodes.first, shop.agent, subject, shop.api, scope="read")
    bound = [
        shop.exchanged(node, shop.agent, subject, shop.api, scope="read", key=key)
        for node, key in ((nodes.second, one), (nodes.first, two), (nodes.second, one))
    ]
    again = shop.exchanged(nodes.second, shop.agent, subject, shop.api, scope="read")

    assert again == bearer
    assert bound[0] == bound[2]
    assert "cnf" not in claims_of(bearer)
    assert [claims_of(each)["cnf"]["jkt"] for each in bound] == [one.jkt, two.jkt, one.jkt]


@pytest.mark.threat("17f")
def test_what_both_nodes_share_is_ciphertext(
    nodes: Nodes, shop: Shop, ann: Person, redis_server: RedisServer
) -> None:
    """Redis has an entry for the exchange, from which both answer; neither the token nor a part is in it."""
    issued = shop.exchanged(nodes.first, shop.agent, shop.token(shop.agent, ann), shop.api, scope="read")
    kept = kept_tokens(redis_server, shop)
    assert kept
    assert not [
        value
        for value in kept.values()
        if [part for part in (issued, *issued.split(".")) if part.encode() in value]
    ]


@pytest.mark.threat("17g")
def test_entries_that_are_swapped_in_redis_open_at_neither_node(
    nodes: Nodes, shop: Shop, ann: Person, redis_server: RedisServer
) -> None:
    """Each application gets a new token of its own; where nothing is swapped, the one from before."""
    subjects = {app: shop.token(app, shop.person()) for app in (shop.agent, shop.stranger)}
    before = set(kept_tokens(redis_server, shop))

    def issued(node: Server, **more: str) -> list[str]:
        return [
            shop.exchanged(node, app, token, shop.api, scope="read", **more)
            for app, token in subjects.items()
        ]

    # The same exchanges in other words: a request that a node has answered in these very words, it knows.
    otherwise = {"requested_token_type": ACCESS_TOKEN}
    first = issued(nodes.first)
    assert issued(nodes.second) == issued(nodes.first, **otherwise) == first
    kept = {name: value for name, value in kept_tokens(redis_server, shop).items() if name not in before}
    assert len(kept) == 2
    with redis_client.Redis.from_url(redis_server.url) as client:
        client.mset(dict(zip(kept, reversed(kept.values()), strict=True)))

    after = issued(nodes.second, **otherwise)

    assert not set(after) & set(first)
    assert [claims_of(each)["client_id"] for each in after] == [app.client_id for app in subjects]


def kept_tokens(server: RedisServer, shop: Shop) -> dict[bytes, bytes]:
    """The entries of exchanged tokens of the shop's zone, as Redis has them."""
    with redis_client.Redis.from_url(server.url) as client:
        names = list(client.scan_iter(f"zonewright:token:{shop.zone.id}:*"))
        return {name: client.get(name) for name in names}


def scopes_of(token: str) -> set[str]:
    """The scopes in a token."""
    return set(str(claims_of(token)["scope"]).split())

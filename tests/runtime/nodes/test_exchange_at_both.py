"""Token exchange over two nodes: the token comes from one, and is presented at the other.

What a node has cached of a request at itself, or finds in the Redis that both share, widens nothing for whom
the other node answers.
"""

from dataclasses import dataclass

import httpx
import pytest
from tests.runtime.nodes.conftest import Nodes
from tests.support.factories import App, Person, company_of
from tests.support.scene import acting, claims_of
from tests.support.server import Server

from runtime.domain.identifiers import new_id
from runtime.domain.kinds.resource import Resource
from runtime.domain.oauth.exchange import ACCESS_TOKEN, GRANT_TYPE


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

    def ask(self, node: Server, app: App, token: str, resource: Resource, /, **more: str) -> httpx.Response:
        """The answer of a node to an exchange."""
        form = {
            "grant_type": GRANT_TYPE,
            "subject_token": token,
            "subject_token_type": ACCESS_TOKEN,
            "resource": resource.identifier,
            **app.form,
            **more,
        }
        address = self.nodes.at(node, f"{self.zone.protocols.oauth2.issuer}/oauth/token")
        return httpx.post(address, data=form, trust_env=False)

    def exchanged(self, node: Server, app: App, token: str, resource: Resource, /, **more: str) -> str:
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
    for node in nodes.both:
        assert shop.exchanged(node, shop.provider, issued, shop.api, scope="read")
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
    for node in nodes.both:
        assert shop.exchanged(node, shop.agent, subject, shop.api, scope="read")
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

"""What the tests of one node work with, seen at one of two: sites, browsers, clients and desks."""

from dataclasses import replace

import httpx
from tests.runtime.connect.conftest import Account
from tests.runtime.nodes.conftest import Nodes
from tests.support.factories import company_of
from tests.support.oauth_site import Browser, Client, Site
from tests.support.server import Server


class ToNode(httpx.HTTPTransport):
    """Takes what is for the service's address to one of its nodes, as a load balancer does."""

    def __init__(self, nodes: Nodes, node: Server) -> None:
        super().__init__()
        self._nodes, self._node = nodes, node

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer of the node, which is asked under the service's name."""
        address = self._nodes.at(self._node, str(request.url))
        return super().handle_request(
            httpx.Request(
                request.method,
                address,
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )


def site_at(nodes: Nodes, node: Server) -> Site:
    """The first node's organization, managed at a node."""
    return Site(node, replace(company_of(nodes.first), services=node.services))


def browser_at(nodes: Nodes, node: Server, of: Browser | None = None) -> Browser:
    """A browser that reaches a node.

    Args:
        of: whose cookies it has, from now on too: the two are one browser.
    """
    made = Browser()
    made.http.close()
    jar = of.http.cookies.jar if of is not None else None
    made.http = httpx.Client(timeout=30, transport=ToNode(nodes, node), cookies=jar)
    return made


def client_at(nodes: Nodes, node: Server, client: Client) -> Client:
    """An application whose requests reach a node."""
    return replace(client, request=httpx.Client(timeout=30, transport=ToNode(nodes, node)).request)


def account_at(nodes: Nodes, node: Server, account: Account) -> Account:
    """A desk with its account, where the browser, the agents and the administrators are at a node."""
    desk = account.desk
    seen = replace(
        desk,
        site=site_at(nodes, node),
        browser=browser_at(nodes, node, desk.browser),
        agent=client_at(nodes, node, desk.agent),
    )
    return replace(account, desk=seen, agent=client_at(nodes, node, account.agent))

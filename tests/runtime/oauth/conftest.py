"""A running server with one zone in it, for what only HTTP can show."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.support.factories import App, Company, Person, company_of
from tests.support.server import Server, serve

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone


@dataclass(frozen=True)
class Site:
    """A server, a zone on it, and a client that follows no redirects."""

    server: Server
    company: Company
    zone: Zone
    http: httpx.Client

    @property
    def issuer(self) -> str:
        return str(self.zone.protocols.oauth2.issuer)

    def post(self, form: dict[str, Any], **more: Any) -> httpx.Response:
        """The answer of the token endpoint."""
        return self.http.post(f"{self.issuer}/oauth/token", data=form, **more)

    def make(self, work: Any) -> Any:
        """Run a coroutine on the server's own loop."""
        return self.server.call(lambda _parts: work)


@dataclass(frozen=True)
class Chain:
    """An agent with its user's token, and what it wants."""

    api: Resource
    agent: App
    person: Person
    subject: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("server")) as server, httpx.Client(trust_env=False) as http:
        company = company_of(server)
        zone = server.call(lambda _parts: company.zone())
        yield Site(server, company, zone, http)


@pytest.fixture(scope="module")
def chain(site: Site) -> Chain:
    company, zone = site.company, site.zone
    api = site.make(company.resource(zone, "https://api.test", scopes=["read", "write"]))
    agent = site.make(company.app(zone, "agent", dependencies=[api]))
    person = site.make(company.person(zone, "ann@acme.test"))
    return Chain(api, agent, person, site.make(company.token(zone, agent, person)))

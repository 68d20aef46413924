"""A real zone with an application that signs users in, a tool server, and an API behind it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import pytest
from tests.support.factories import App, Company, Person, company_of
from tests.support.server import Server, serve

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone
from runtime.services.authority import session_revocation as revocation
from zonewright import Verifier

_T = TypeVar("_T")
TOOLS, CALENDAR = "https://tools.test/mcp", "https://calendar.test/v1"
SCOPES = ("notes.read", "notes.write")


@dataclass
class Site:
    """The zone, and tokens of its people."""

    server: Server
    zone: Zone
    agent: App
    tool_server: App
    tools: Resource
    ada: Person

    @property
    def company(self) -> Company:
        return company_of(self.server)

    @property
    def issuer(self) -> str:
        return str(self.zone.protocols.oauth2.issuer)

    def run(self, work: Callable[[Company], Awaitable[_T]]) -> _T:
        """Make something of the zone on the server's own loop."""

        async def working(_services: object) -> _T:
            return await work(self.company)

        return self.server.call(working)

    def token(self, *, person: Person | None = None, audience: str = TOOLS, **facts: Any) -> str:
        """An access token of the agent, on behalf of a person."""
        whose = person or self.ada
        facts = {"audience": audience, "scopes": SCOPES, **facts}
        return self.run(lambda company: company.token(self.zone, self.agent, whose, **facts))

    def person(self, name: str) -> Person:
        """Somebody else who has signed in."""
        return self.run(lambda company: company.person(self.zone, f"{name}@acme.test"))

    def end_session(self, person: Person) -> None:
        """Sign a person out."""
        self.server.call(lambda services: revocation.end(services, self.zone, session_id=person.session_id))

    def post(self, form: dict[str, str], **headers: str) -> httpx.Response:
        """The token endpoint's answer."""
        return httpx.post(f"{self.issuer}/oauth/token", data=form, headers=headers, trust_env=False)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serve(tmp_path_factory.mktemp("zone")) as server:
        company = company_of(server)

        async def made(_services: object) -> Site:
            zone = await company.zone("Library")
            calendar = await company.resource(zone, CALENDAR, scopes=["events.read"])
            tool_server = await company.app(zone, "tool-server", dependencies=[calendar])
            tools = await company.resource(zone, TOOLS, scopes=list(SCOPES), application_id=tool_server.id)
            agent = await company.app(zone, "agent", dependencies=[tools])
            ada = await company.person(zone, "ada@acme.test")
            return Site(server, zone, agent, tool_server, tools, ada)

        yield server.call(made)


@pytest.fixture
async def verifier(site: Site) -> AsyncIterator[Verifier]:
    made = Verifier(site.issuer, TOOLS, scopes=["notes.read"], revocations_max_age_seconds=0)
    yield made
    await made.aclose()

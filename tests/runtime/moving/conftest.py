"""A zone in use that is moved from one address of the server to another, over real sockets."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.runtime.login.conftest import browser, pytest_generate_tests, site
from tests.support.factories import App
from tests.support.oauth_site import CALLBACK, Browser, Client, Site
from tests.support.waiting import wait_until

from runtime.domain.kinds.resource import Resource
from runtime.domain.kinds.zone import Zone, moved
from runtime.services.container import Services
from runtime.services.management.zones import moving
from runtime.storage.sql import zone_data

__all__ = ["browser", "pytest_generate_tests", "site"]
TOOLS, CALENDAR = "https://tools.test/mcp", "https://calendar.test/v1"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


def elsewhere(site: Site) -> str:
    """Another address of the server: the same socket by another name."""
    return f"http://localhost:{urlsplit(site.server.settings.public_url).port}"


@dataclass
class World:
    """A zone with somebody who has signed in, a tool server behind the application, and an API behind that.

    Attributes:
        zone: before the move.
        client, server: the application and the tool server, as they know the zone from before.
        tokens: of the sign-in before the move.
    """

    site: Site
    zone: Zone
    client: Client
    server: App
    tools: Resource
    calendar: Resource
    tokens: dict[str, Any] = field(default_factory=dict)

    @property
    def new_issuer(self) -> str:
        return f"{elsewhere(self.site)}{urlsplit(self.client.issuer).path}"

    def move(self, to: str | None = None, *, days: float | None = 30, zone: Zone | None = None) -> None:
        """Move the zone, and answer at its former address for so long."""
        kept = None if days is None else timedelta(days=days)

        async def work(services: Services) -> None:
            ends_at = None if kept is None else services.clock() + kept
            zone_id = (zone or self.zone).id
            assert await moving.move(services, zone_id, to or elsewhere(self.site), ends_at=ends_at)

        self.site.server.call(work)
        wait_until(self._is_published, seconds=10)  # each node keeps public documents for a second

    def _is_published(self) -> bool:
        issuer = str(self.stored().protocols.oauth2.issuer)
        address = f"{issuer}/.well-known/openid-configuration"
        return all(httpx.get(address).json().get("issuer") == issuer for _node in range(2))

    def end(self, issuer: str | None = None) -> list[str]:
        """End the move."""
        ended = self.site.server.call(lambda services: moving.end(services, self.zone.id, issuer))
        wait_until(self._is_gone, seconds=10)
        return ended

    def _is_gone(self) -> bool:
        address = f"{self.client.issuer}/.well-known/openid-configuration"
        return all(httpx.get(address).status_code == 404 for _node in range(2))

    def stored(self) -> Zone:
        """The zone as it is stored now."""

        async def read(services: Services) -> Zone:
            async with services.database.reading() as conn:
                found = await zone_data.zone(conn, self.zone.id)
            assert found is not None
            return found[0]

        return self.site.server.call(read)

    def at(self, place: str) -> Client:
        """The application that knows the zone by its `former` or by its `present` issuer."""
        issuer = self.client.issuer if place == "former" else self.new_issuer
        return replace(self.client, zone=moved(self.zone, issuer))

    def exchange(
        self, place: str, token: str, *, app: App | None = None, resource: str = TOOLS, **form: Any
    ) -> httpx.Response:
        """Ask for a token of the next resource there."""
        asking = replace(self.at(place), app=app or self.client.app)
        return asking.token(
            grant_type=EXCHANGE,
            subject_token=token,
            subject_token_type=ACCESS_TOKEN,
            resource=resource,
            **form,
        )

    def introspect(self, place: str, token: str) -> dict[str, Any]:
        """What the tool server is told there of a token for it."""
        answer = httpx.post(
            f"{self.at(place).issuer}/oauth/introspect", data={**self.server.form, "token": token}
        )
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def get(self, place: str, path: str, **more: Any) -> httpx.Response:
        """What stands below that issuer."""
        return httpx.get(f"{self.at(place).issuer}{path}", **more)


def world_of(site: Site, name: str = "Acme", **oauth2: Any) -> World:
    """A new one."""
    zone = site.zone(name)
    site.user(zone)
    calendar = site.run(site.company.resource(zone, CALENDAR, scopes=["events"]))
    server = site.run(site.company.app(zone, "tool-server", dependencies=[calendar]))
    tools = site.run(site.company.resource(zone, TOOLS, scopes=["notes"], application_id=server.id))
    protocols = {"oauth2": {"redirect_uris": [CALLBACK], **oauth2}}
    client = site.app(zone, dependencies=[tools], protocols=protocols)
    return World(site, zone, client, server, tools, calendar)


@pytest.fixture
def world(site: Site) -> World:
    """A zone that is about to be moved, and tokens from before."""
    made = world_of(site)
    made.tokens = made.client.sign_in(Browser())
    return made

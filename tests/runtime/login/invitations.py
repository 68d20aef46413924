"""Inviting people to an organization, as its administrator does, and reading their mail."""

import re
from typing import Any, cast

import httpx
from tests.support.factories import App
from tests.support.mail import delivered
from tests.support.oauth_site import Client, Site

from runtime.domain.identifiers import new_id
from runtime.domain.kinds import APPLICATION
from runtime.domain.kinds.application import Application
from runtime.domain.kinds.zone import Zone
from runtime.services.container import Services
from runtime.storage.sql import entities


def address(stem: str = "ada") -> str:
    """An address that nobody has yet."""
    return f"{stem}-{new_id()[:8]}@acme.example"


def call(site: Site, method: str, path: str = "", body: Any = None) -> httpx.Response:
    """A request of the administrator about the organization."""
    url = f"{site.server.url}/organizations/{site.server.organization_id}{path}"
    return httpx.request(method, url, json=body, headers=site.server.headers, timeout=30)


def ok(site: Site, method: str, path: str = "", body: Any = None) -> Any:
    """What such a request answers, which must be a success."""
    response = call(site, method, path, body)
    assert response.status_code < 300, response.text
    return response.json() if response.content else None


def invite(site: Site, email: str, role: str = "org_member") -> tuple[str, str]:
    """The id of a new invitation, and the token in its mail."""
    made = ok(site, "POST", "/invitations", {"email": email, "role": role})
    return made["id"], token_to(site, email)


def token_to(site: Site, email: str) -> str:
    """The token in the newest mail to that address."""
    found = re.search(r"invitation=([A-Za-z0-9_-]{43})\s", delivered(site.server, email).get_content())
    assert found
    return found[1]


def people(site: Site) -> dict[str, dict[str, Any]]:
    """E-mail address -> organization user."""
    return {one["email"]: one for one in ok(site, "GET", "/users?limit=100")["items"]}


def home_zone(site: Site) -> Zone:
    """The zone in which the organization's users sign in."""
    zone_id = ok(site, "GET")["zone_id"]
    zone: Zone = site.server.call(lambda services: services.zones.get(zone_id)).entity
    return zone


def zonectl(site: Site) -> Client:
    """The platform's client in that zone, which gets people to the management API."""
    zone = home_zone(site)

    async def find(services: Services) -> Application:
        async with services.database.reading() as conn:
            within = {"zone_id": zone.id}
            found = await entities.find_by(conn, APPLICATION, "identifier", "zonectl", within=within)
        return cast(Application, found)

    app = App(site.server.call(find), "zonectl", None, "")
    return Client(zone, app, redirect_uri="http://127.0.0.1:43211/callback")
